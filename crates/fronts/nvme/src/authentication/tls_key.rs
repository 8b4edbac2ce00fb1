//! A key for TLS that a host and the subsystem share, as `nvme gen-tls-key` writes it (NVMe/TCP 1.1, section 3.6.1.5):
//! `NVMeTLSkey-1:HH:BASE64:`. The bytes are the key and its CRC-32, little-endian; HH is the hash that binds the key to its host's name
//! before use, 00 for none.
//!
//! What TLS uses is derived from that for each host and subsystem (section 3.6.1.3), by RFC 8446's HKDF-Expand-Label.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::hash::Hash;
use super::secret::{SecretError, crc32};

/// The most bytes of the context of a label.
const CONTEXT_BYTES: usize = 255;

/// A key. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TlsKey {
    bytes: [u8; 48],
    /// Of the cipher.
    hash: Hash,
    is_bound: bool,
    derivation: Derivation,
}

/// How keys are derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Derivation {
    /// As the standard says.
    #[default]
    Standard,
    /// As nvme-cli before 2.16 does: labels and contexts follow each other without their lengths, and the length of what is derived is
    /// little-endian.
    Compatible,
}

/// What TLS uses of a key for one host and one subsystem. Its `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Derived {
    /// The name by which the host offers it (`PskIdentity`).
    pub identity: String,
    /// The secret.
    pub secret: Vec<u8>,
    /// SHA-256 or SHA-384.
    pub hash: Hash,
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsKey({} bytes)", self.bytes().len())
    }
}

impl fmt::Debug for Derived {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Derived({:?}, {:?})", self.identity, self.hash)
    }
}

#[cfg(feature = "tls")]
impl Derived {
    /// As the library for TLS takes it.
    pub fn preshared(self) -> tantalum_tls::PresharedKey {
        let hash =
            if self.hash == Hash::Sha256 { tantalum_tls::Hash::Sha256 } else { tantalum_tls::Hash::Sha384 };
        tantalum_tls::PresharedKey { identity: self.identity.into_bytes(), secret: self.secret, hash }
    }
}

impl TlsKey {
    /// A key of 32 or 48 bytes, which is used with SHA-256 or SHA-384. If it is bound to its host's name, the same key of two hosts is not
    /// the same.
    pub fn new(bytes: &[u8], is_bound: bool) -> Result<TlsKey, SecretError> {
        let hash = match bytes.len() {
            32 => Hash::Sha256,
            48 => Hash::Sha384,
            bytes => return Err(SecretError::KeyLength { bytes }),
        };
        let mut key = TlsKey { bytes: [0; 48], hash, is_bound, derivation: Derivation::Standard };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    /// Reads a key.
    pub fn parse(text: &str) -> Result<TlsKey, SecretError> {
        let rest = text.strip_prefix("NVMeTLSkey-1:").and_then(|rest| rest.strip_suffix(':'));
        let (hash, base64) = rest.and_then(|rest| rest.split_once(':')).ok_or(SecretError::KeyForm)?;
        let bound = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(SecretError::KeyHash),
        };
        let mut bytes = STANDARD.decode(base64).map_err(|_| SecretError::Base64)?;
        let crc = bytes.split_off(bytes.len().saturating_sub(4));
        let key = TlsKey::new(&bytes, bound.is_some())?;
        if bound.is_some_and(|hash| hash != key.hash) {
            return Err(SecretError::KeyLength { bytes: bytes.len() });
        }
        if crc32(&bytes).to_le_bytes()[..] == crc[..] { Ok(key) } else { Err(SecretError::Checksum) }
    }

    /// The key as text.
    pub fn text(&self) -> String {
        let hash = if self.is_bound { self.hash.id() } else { 0 };
        let bytes = [self.bytes(), &crc32(self.bytes()).to_le_bytes()].concat();
        format!("NVMeTLSkey-1:{hash:02}:{}:", STANDARD.encode(bytes))
    }

    /// The same, of which TLS uses what is derived like this.
    #[must_use]
    pub fn derived_as(self, derivation: Derivation) -> TlsKey {
        TlsKey { derivation, ..self }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.hash.bytes()]
    }

    /// What TLS uses of it for a host and a subsystem, newest version first: version 1 of the identity, and version 0 unless the names are
    /// too long for it.
    pub fn derive(&self, host: &str, subsystem: &str) -> Vec<Derived> {
        let (hash, id) = (self.hash, self.hash.id());
        let retained = match self.is_bound {
            true => self.expand(self.bytes(), "HostNQN", host),
            false => self.bytes().to_vec(),
        };
        let names = format!("{host} {subsystem}");
        let digest = STANDARD.encode(hash.mac(&retained, &[names.as_bytes(), b" NVMe-over-Fabrics"]));
        let derived = |identity: String, context: &str| {
            let secret = self.expand(&retained, "nvme-tls-psk", context);
            Derived { identity, secret, hash }
        };
        let older = format!("NVMe0R{id:02} {names}");
        let older = (older.len() <= CONTEXT_BYTES).then(|| derived(older.clone(), &older));
        let newer = derived(format!("NVMe1R{id:02} {names} {digest}"), &format!("{id:02} {digest}"));
        [newer].into_iter().chain(older).collect()
    }

    /// HKDF-Extract without salt, and HKDF-Expand-Label to as many bytes as the hash has (RFC 5869, RFC 8446, section 7.1).
    fn expand(&self, secret: &[u8], label: &str, context: &str) -> Vec<u8> {
        let hash = self.hash;
        let bytes = hash.bytes() as u16;
        let extracted = hash.mac(&[0; 48][..hash.bytes()], &[secret]);
        let label = format!("tls13 {label}");
        let info = match self.derivation {
            Derivation::Standard => {
                assert!(context.len() <= CONTEXT_BYTES, "{context:?} has {} bytes", context.len());
                let (label_bytes, context_bytes) = ([label.len() as u8], [context.len() as u8]);
                let parts: [&[u8]; 5] = [
                    &bytes.to_be_bytes(),
                    &label_bytes,
                    label.as_bytes(),
                    &context_bytes,
                    context.as_bytes(),
                ];
                parts.concat()
            }
            Derivation::Compatible => {
                [&bytes.to_le_bytes()[..], label.as_bytes(), context.as_bytes()].concat()
            }
        };
        hash.mac(&extracted, &[&info, &[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 48] = [
        0x55, 0x12, 0xdb, 0xb6, 0x73, 0x7d, 0x01, 0x06, 0xf6, 0x59, 0x75, 0xb7, 0x73, 0xdf, 0xb0, 0x11, 0xff,
        0xc3, 0x44, 0xbc, 0xf4, 0x42, 0xe2, 0xdd, 0x6d, 0x8b, 0xc4, 0x87, 0x0b, 0x5d, 0x5b, 0x03, 0xff, 0xc3,
        0x44, 0xbc, 0xf4, 0x42, 0xe2, 0xdd, 0x6d, 0x8b, 0xc4, 0x87, 0x0b, 0x5d, 0x5b, 0x03,
    ];

    /// The texts are those of libnvme's tests.
    #[test]
    fn a_key_is_read_as_others_write_it() {
        for (bytes, is_bound, text) in [
            (32, false, "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"),
            (32, true, "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"),
            (
                48,
                true,
                "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
            ),
        ] {
            let key = TlsKey::new(&BYTES[..bytes], is_bound).unwrap();
            assert_eq!((key.text(), TlsKey::parse(text)), (text.to_owned(), Ok(key)));
            let mut wrong = text.to_owned().into_bytes();
            wrong[20] ^= 1;
            let wrong = TlsKey::parse(std::str::from_utf8(&wrong).unwrap());
            assert_eq!(wrong, Err(SecretError::Checksum));
        }
    }

    #[test]
    fn what_is_no_key_is_told_by_kind() {
        let good = TlsKey::new(&BYTES[..32], true).unwrap().text();
        let base64 = good.strip_prefix("NVMeTLSkey-1:01:").unwrap();
        for (text, error) in [
            (String::new(), SecretError::KeyForm),
            (format!("DHHC-1:01:{base64}"), SecretError::KeyForm),
            (good[..good.len() - 1].to_owned(), SecretError::KeyForm),
            (format!("NVMeTLSkey-1:03:{base64}"), SecretError::KeyHash),
            (format!("NVMeTLSkey-1:02:{base64}"), SecretError::KeyLength { bytes: 32 }),
            ("NVMeTLSkey-1:01:!!:".to_owned(), SecretError::Base64),
            ("NVMeTLSkey-1:01:AAAA:".to_owned(), SecretError::KeyLength { bytes: 0 }),
        ] {
            assert_eq!(TlsKey::parse(&text), Err(error), "{text}");
        }
        assert_eq!(format!("{:?}", TlsKey::parse(&good).unwrap()), "TlsKey(32 bytes)");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The identities of bound keys are those of libnvme's tests; the secrets were computed with Python's `hmac`.
    #[test]
    fn keys_are_derived_as_others_derive_them() {
        let names = ("nqn.psk-test-host", "nqn.psk-test-subsys");
        let of = |bytes: usize, is_bound, derivation| {
            let key = TlsKey::new(&BYTES[..bytes], is_bound).unwrap().derived_as(derivation);
            let derived = key.derive(names.0, names.1);
            derived.into_iter().map(|derived| (derived.identity, hex(&derived.secret))).collect::<Vec<_>>()
        };
        let identity = |version: u8, hash: u8, digest: &str| {
            format!("NVMe{version}R{hash:02} {} {}{digest}", names.0, names.1)
        };
        let expected = |hash: u8, digest: &str, newer: &str, older: &str| {
            vec![
                (identity(1, hash, &format!(" {digest}")), newer.to_owned()),
                (identity(0, hash, ""), older.to_owned()),
            ]
        };
        use Derivation::{Compatible, Standard};
        assert_eq!(
            of(32, false, Standard),
            expected(
                1,
                "quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
                "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b",
                "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef"
            )
        );
        assert_eq!(
            of(32, false, Compatible),
            expected(
                1,
                "quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
                "d50f6d3dd79345b6e8217744524df5ac0dc66964ff70cc5fd18e1b9d57ce7fcf",
                "e2b16189378b34adba9fec995ab479040cedec0bc7c6b47728ee4d8de6ff52ba"
            )
        );
        assert_eq!(
            of(32, true, Standard),
            expected(
                1,
                "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
                "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
                "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68"
            )
        );
        assert_eq!(
            of(32, true, Compatible),
            expected(
                1,
                "66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
                "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
                "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb"
            )
        );
        assert_eq!(
            of(48, true, Standard),
            expected(
                2,
                "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
                "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
                "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d"
            )
        );
        assert_eq!(
            of(48, true, Compatible),
            expected(
                2,
                "RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
                "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48d3014aa8d76ad80107e4f5c9f27e2149",
                "2ee4754186a625b28a3936ef4a40d839c3ad958b2e017562ee07e2501f172ce999dc9c29033ea7ee33f814f192c13f47"
            )
        );
    }

    #[test]
    fn names_that_are_too_long_for_the_older_identity_have_the_newer_one() {
        let key = TlsKey::new(&BYTES[..32], true).unwrap();
        let name = |bytes: usize| format!("nqn.2014-08.org.example:{}", "x".repeat(bytes - 24));
        assert_eq!(key.derive(&name(120), &name(125)).len(), 2);
        let long = key.derive(&name(223), &name(223));
        assert!(long.len() == 1 && long[0].identity.starts_with("NVMe1R01 nqn."), "{long:?}");
    }
}
