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

/// What a proof responds to.
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

    /// Passes the bytes to be signed to `sign`. No secure channel follows, so `SC_C` is zero.
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

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::super::group::Group;
    use super::*;

    /// Computed with Python's hmac, hashlib, zlib and pow from the text of the standard.
    const KNOWN: [(Hash, Group, u128, u128); 6] = [
        (Hash::Sha256, Group::Null, 0x5d14591476477f453a037fd924046c71, 0x1b9177f67eb5e9c8b4270d4435e84801),
        (
            Hash::Sha256,
            Group::Ffdhe2048,
            0x1c4fbd4578d0f4266a391403127ab082,
            0x875a1cbc41c5794366ff76e77a2cc0c3,
        ),
        (Hash::Sha384, Group::Null, 0xd117cada049d1829eb73b05d5b99bc3c, 0xbb61c504d037c2f4a903a3aa5b162736),
        (
            Hash::Sha384,
            Group::Ffdhe2048,
            0xe4b4ff9a690108d3713b35f868a40d34,
            0x479e16f41425cb17546a4fc207e47e86,
        ),
        (Hash::Sha512, Group::Null, 0xc25ed0ab0bb33972107491f5b9562d87, 0x904a734f243a538eeec6cba49fd4c67c),
        (
            Hash::Sha512,
            Group::Ffdhe2048,
            0xe9cd532fd61ab2473aa9f602136e1641,
            0x7cd00d517c632ed78d6b50d2676dad93,
        ),
    ];

    #[test]
    fn proofs_are_those_that_others_compute() {
        let host = Secret::parse("DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:").unwrap();
        let controller = "DHHC-1:00:QD8+PTw7Ojk4NzY1NDMyMTAvLi0sKyopKCcmJSQjIiEgHx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAf6XnTc=:";
        let controller = Secret::parse(controller).unwrap();
        let parties = Parties {
            host: "nqn.2014-08.org.nvmexpress:host".to_owned(),
            subsystem: "nqn.2014-08.org.nvmexpress:drive".to_owned(),
        };
        let key = host.key(&parties.host);
        assert_eq!(key[..8], 0x6622_71cf_b86c_3b3e_u64.to_be_bytes());
        for (hash, group, host_proof, controller_proof) in KNOWN {
            let agreed = group
                .share(&[3; 64])
                .map(|share| share.agree(&group.share(&[0x5a; 64]).unwrap().public).unwrap());
            let question = |challenge: Vec<u8>, sequence| Question {
                hash,
                transaction: 0x1234,
                sequence,
                challenge: Question::bind(hash, &challenge, agreed.as_deref()),
            };
            let bytes = hash.bytes() as u8;
            let of_controller = question((0..bytes).collect(), 0x0102_0304);
            let proof = of_controller.host_proof(&key, &parties);
            assert_eq!(proof[..16], host_proof.to_be_bytes(), "{hash:?} {group:?}");
            assert!(of_controller.is_proof_of_host(&key, &parties, &proof));
            assert!(!of_controller.is_proof_of_host(&key, &parties, &proof[..16]));
            assert!(!of_controller.is_proof_of_host(&key, &parties, &[]));
            let of_host = question((0..bytes).map(|at| 200 - at).collect(), 0x0a0b_0c0d);
            let key = controller.key(&parties.subsystem);
            let proof = of_host.controller_proof(&key, &parties);
            assert_eq!(proof[..16], controller_proof.to_be_bytes(), "{hash:?} {group:?}");
            assert!(of_host.is_proof_of_controller(&key, &parties, &proof));
        }
    }
}
