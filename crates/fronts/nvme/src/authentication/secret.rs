//! A secret that a host and the subsystem share, as `nvme gen-dhchap-key` writes it (Base, section 8.13.5.8):
//! `DHHC-1:HH:BASE64:`. The bytes are the secret and its CRC-32, little-endian; HH is the hash that binds the secret to its
//! owner's name before use, 00 for none.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::hash::Hash;

/// A secret. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Vec<u8>,
    transform: Option<Hash>,
}

/// Why a text is not a secret. None of these repeats the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Not `DHHC-1:HH:BASE64:`.
    #[error("not of the form DHHC-1:HH:BASE64: that `nvme gen-dhchap-key` prints")]
    Form,
    /// An unknown hash.
    #[error("the hash must be 00, 01, 02 or 03")]
    Hash,
    /// No base64.
    #[error("the part after the hash is not base64")]
    Base64,
    /// Its length is not that of a hash.
    #[error("the secret has {bytes} bytes; it must have 32, 48 or 64, and match any hash it names")]
    Length {
        /// Bytes of the secret.
        bytes: usize,
    },
    /// Not `NVMeTLSkey-1:HH:BASE64:`.
    #[error("not of the form NVMeTLSkey-1:HH:BASE64: that `nvme gen-tls-key` prints")]
    KeyForm,
    /// An unknown hash of a key for TLS.
    #[error("the hash must be 00, 01 or 02")]
    KeyHash,
    /// A key for TLS whose length is not that of its hash.
    #[error("the key has {bytes} bytes; it must have 32 or 48, and match any hash it names")]
    KeyLength {
        /// Bytes of the key.
        bytes: usize,
    },
    /// The CRC does not match: a character is wrong.
    #[error("the checksum does not match: the secret was mistyped or cut off")]
    Checksum,
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({} bytes)", self.bytes.len())
    }
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

impl Secret {
    /// A secret of these bytes; `transform` is the hash that binds it to a name.
    pub fn new(bytes: Vec<u8>, transform: Option<Hash>) -> Result<Secret, SecretError> {
        let fits = match transform {
            None => Hash::ALL.iter().any(|hash| hash.bytes() == bytes.len()),
            Some(hash) => hash.bytes() == bytes.len(),
        };
        if fits { Ok(Secret { bytes, transform }) } else { Err(SecretError::Length { bytes: bytes.len() }) }
    }

    /// Reads a secret.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let rest = text.strip_prefix("DHHC-1:").and_then(|rest| rest.strip_suffix(':'));
        let (hash, base64) = rest.and_then(|rest| rest.split_once(':')).ok_or(SecretError::Form)?;
        let transform = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Hash),
        };
        let mut bytes = STANDARD.decode(base64).map_err(|_| SecretError::Base64)?;
        let secret_bytes = bytes.len().saturating_sub(4);
        let crc = bytes.split_off(secret_bytes);
        let secret = Secret::new(bytes, transform)?;
        if crc32(&secret.bytes).to_le_bytes()[..] == crc[..] {
            Ok(secret)
        } else {
            Err(SecretError::Checksum)
        }
    }

    /// The secret as text.
    pub fn text(&self) -> String {
        let hash = self.transform.map_or(0, Hash::id);
        let bytes = [&self.bytes[..], &crc32(&self.bytes).to_le_bytes()].concat();
        format!("DHHC-1:{hash:02}:{}:", STANDARD.encode(bytes))
    }

    /// The key that proves that `owner` knows it (Base, section 8.13.5.7).
    pub fn key(&self, owner: &str) -> Vec<u8> {
        match self.transform {
            None => self.bytes.clone(),
            Some(hash) => hash.mac(&self.bytes, &[owner.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_back_and_a_wrong_character_is_found() {
        for (bytes, transform) in
            [(32, None), (48, None), (64, None), (32, Some(Hash::Sha256)), (64, Some(Hash::Sha512))]
        {
            let secret = Secret::new((0..bytes).collect(), transform).unwrap();
            let text = secret.text();
            assert_eq!(Secret::parse(&text), Ok(secret));
            let mut wrong = text.into_bytes();
            wrong[20] = if wrong[20] == b'A' { b'B' } else { b'A' };
            assert_eq!(Secret::parse(std::str::from_utf8(&wrong).unwrap()), Err(SecretError::Checksum));
        }
    }

    #[test]
    fn what_is_no_secret_is_told_by_kind() {
        let good = Secret::new(vec![9; 32], None).unwrap().text();
        let base64 = good.strip_prefix("DHHC-1:00:").unwrap();
        for (text, error) in [
            (String::new(), SecretError::Form),
            (format!("DHHC-2:00:{base64}"), SecretError::Form),
            (good[..good.len() - 1].to_owned(), SecretError::Form),
            (format!("DHHC-1:04:{base64}"), SecretError::Hash),
            (format!("DHHC-1:02:{base64}"), SecretError::Length { bytes: 32 }),
            ("DHHC-1:00:!!:".to_owned(), SecretError::Base64),
            ("DHHC-1:00:AAAA:".to_owned(), SecretError::Length { bytes: 0 }),
        ] {
            assert_eq!(Secret::parse(&text), Err(error), "{text}");
        }
        assert_eq!(format!("{:?}", Secret::parse(&good).unwrap()), "Secret(32 bytes)");
    }
}
