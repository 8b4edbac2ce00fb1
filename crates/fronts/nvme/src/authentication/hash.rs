//! Hash functions of DH-HMAC-CHAP.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// A hash function (`HashID`; Base, figure 737).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("an HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

impl Hash {
    /// All hash functions.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// The function with this number.
    pub fn of(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// The identifier of the hash function on the wire (`HASHID`).
    pub fn id(self) -> u8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
            Hash::Sha512 => 3,
        }
    }

    /// Bytes of a hash.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// The hash of some bytes.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(bytes).to_vec(),
            Hash::Sha384 => Sha384::digest(bytes).to_vec(),
            Hash::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// The HMAC of the concatenated parts.
    pub fn mac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha256 => keyed::<Hmac<Sha256>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha384 => keyed::<Hmac<Sha384>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha512 => keyed::<Hmac<Sha512>>(key, parts).finalize().into_bytes().to_vec(),
        }
    }

    /// Whether `tag` is the HMAC of the parts. The time it takes does not depend on where they differ.
    pub fn verify(self, key: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
        match self {
            Hash::Sha256 => keyed::<Hmac<Sha256>>(key, parts).verify_slice(tag).is_ok(),
            Hash::Sha384 => keyed::<Hmac<Sha384>>(key, parts).verify_slice(tag).is_ok(),
            Hash::Sha512 => keyed::<Hmac<Sha512>>(key, parts).verify_slice(tag).is_ok(),
        }
    }
}
