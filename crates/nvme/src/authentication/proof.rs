//! What host and controller compute to prove that they know a secret (Base, sections 8.13.5.4 and 8.13.5.5).

use super::hash::Hash;

/// Who proves something, and to whom.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The host's name.
    pub host: String,
    /// The subsystem's name.
    pub subsystem: String,
}

/// What a proof answers.
#[derive(Clone, Debug)]
pub struct Question {
    /// The hash function.
    pub hash: Hash,
    /// The transaction's number.
    pub transaction: u16,
    /// The sequence number.
    pub sequence: u32,
    /// The challenge, bound to the agreed key if there is one.
    pub challenge: Vec<u8>,
}

impl Question {
    /// Binds a challenge to the key that both sides agreed on, if there is a group.
    pub fn bind(hash: Hash, challenge: &[u8], agreed: Option<&[u8]>) -> Vec<u8> {
        match agreed {
            None => challenge.to_vec(),
            Some(key) => hash.mac(&hash.digest(key), &[challenge]),
        }
    }

    /// Hands the bytes to be signed to `sign`. Secure channels do not follow, so `SC_C` is zero.
    fn with_bytes<T>(&self, parts: [&[u8]; 3], sign: impl FnOnce(&[&[u8]]) -> T) -> T {
        let [label, signer, other] = parts;
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        sign(&[&self.challenge, &sequence, &transaction, &[0], label, signer, &[0], other])
    }

    /// The host's proof.
    pub fn host_proof(&self, key: &[u8], parties: &Parties) -> Vec<u8> {
        let parts = [&b"HostHost"[..], parties.host.as_bytes(), parties.subsystem.as_bytes()];
        self.with_bytes(parts, |bytes| self.hash.mac(key, bytes))
    }

    /// Whether a proof is the host's.
    pub fn is_proof_of_host(&self, key: &[u8], parties: &Parties, proof: &[u8]) -> bool {
        let parts = [&b"HostHost"[..], parties.host.as_bytes(), parties.subsystem.as_bytes()];
        self.with_bytes(parts, |bytes| self.hash.verify(key, bytes, proof))
    }

    /// The controller's proof.
    pub fn controller_proof(&self, key: &[u8], parties: &Parties) -> Vec<u8> {
        let parts = [&b"Controller"[..], parties.subsystem.as_bytes(), parties.host.as_bytes()];
        self.with_bytes(parts, |bytes| self.hash.mac(key, bytes))
    }

    /// Whether a proof is the controller's.
    pub fn is_proof_of_controller(&self, key: &[u8], parties: &Parties, proof: &[u8]) -> bool {
        let parts = [&b"Controller"[..], parties.subsystem.as_bytes(), parties.host.as_bytes()];
        self.with_bytes(parts, |bytes| self.hash.verify(key, bytes, proof))
    }
}
