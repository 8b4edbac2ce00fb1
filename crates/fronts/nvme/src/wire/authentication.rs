//! Messages of DH-HMAC-CHAP (Base, section 8.13.5), and the Fabrics commands that carry them (Base, sections 6.1 and 6.2).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The fields of Authentication Send and Authentication Receive, from byte 40 of the command.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Transport {
    reserved: u8,
    /// Specific to the protocol: 1 and 1.
    pub specific: [u8; 2],
    /// The security protocol (`SECP`).
    pub protocol: u8,
    /// Bytes of the message, or of the buffer for it.
    pub bytes: U32,
    reserved2: [u8; 16],
}

/// The security protocol for authentication over fabrics.
pub const PROTOCOL: u8 = 0xe9;

/// Types of messages (`AUTH_TYPE`).
pub mod kind {
    /// Messages of every protocol.
    pub const COMMON: u8 = 0x00;
    /// Authentication types of DH-HMAC-CHAP.
    pub const CHAP: u8 = 0x01;
}

/// Messages (`AUTH_ID`).
pub mod id {
    /// The host states its capabilities.
    pub const NEGOTIATE: u8 = 0x00;
    /// The controller's challenge.
    pub const CHALLENGE: u8 = 0x01;
    /// The host's proof, and perhaps its challenge.
    pub const REPLY: u8 = 0x02;
    /// The controller accepts, and may prove its own identity.
    pub const SUCCESS1: u8 = 0x03;
    /// The host accepts.
    pub const SUCCESS2: u8 = 0x04;
    /// The host gives up.
    pub const FAILURE2: u8 = 0xf0;
    /// The controller gives up.
    pub const FAILURE1: u8 = 0xf1;
}

/// Why an authentication fails (Base, figure 734).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A proof is wrong.
    Failed = 1,
    /// The protocol is not supported.
    Protocol = 2,
    /// A secure channel is requested.
    SecureChannel = 3,
    /// No hash in common.
    Hash = 4,
    /// No group in common, or an invalid share.
    Group = 5,
    /// An invalid message.
    Payload = 6,
    /// A message at the wrong time.
    Message = 7,
}

/// The beginning of all messages.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Head {
    /// See [`kind`].
    pub kind: u8,
    /// See [`id`].
    pub id: u8,
    reserved: U16,
    /// The transaction, as the host numbers it.
    pub transaction: U16,
}

impl Head {
    /// The beginning of a message.
    pub fn new(kind: u8, id: u8, transaction: u16) -> Head {
        Head { kind, id, reserved: 0.into(), transaction: transaction.into() }
    }
}

/// Negotiate, with one protocol.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Negotiate {
    /// The beginning.
    pub head: Head,
    /// Whether a secure channel should follow (`SC_C`).
    pub secure_channel: u8,
    /// Protocols (`NAPD`).
    pub protocols: u8,
    /// The protocol: 1.
    pub protocol: u8,
    reserved: u8,
    /// Hashes that follow.
    pub hash_count: u8,
    /// Groups that follow.
    pub group_count: u8,
    /// Numbers of hashes.
    pub hashes: [u8; 30],
    /// Numbers of groups.
    pub groups: [u8; 30],
}

/// Challenge. The challenge follows, and then the controller's share.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Challenge {
    /// The beginning.
    pub head: Head,
    /// Bytes of the challenge.
    pub hash_bytes: u8,
    reserved: u8,
    /// The hash that was chosen.
    pub hash: u8,
    /// The group that was chosen.
    pub group: u8,
    /// Bytes of the share.
    pub share_bytes: U16,
    /// The sequence number.
    pub sequence: U32,
}

/// Reply. The proof follows, then the host's challenge, which is just as long, and then the host's share.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Reply {
    /// The beginning.
    pub head: Head,
    /// Bytes of the proof.
    pub hash_bytes: u8,
    reserved: u8,
    /// Bit 0: the host challenges the controller.
    pub has_challenge: u8,
    reserved2: u8,
    /// Bytes of the share.
    pub share_bytes: U16,
    /// The host's sequence number.
    pub sequence: U32,
}

/// Success1. If it is valid, the controller's proof follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success1 {
    /// The beginning.
    pub head: Head,
    /// Bytes of a proof.
    pub hash_bytes: u8,
    reserved: u8,
    /// Bit 0: a proof follows.
    pub has_proof: u8,
    reserved2: [u8; 7],
}

/// Success2.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success2 {
    /// The beginning.
    pub head: Head,
    reserved: [u8; 10],
}

/// Failure1 and Failure2.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Failure {
    /// The beginning.
    pub head: Head,
    /// The reason: 1, the authentication failed.
    pub code: u8,
    /// See [`Reason`].
    pub reason: u8,
}

impl Transport {
    /// The fields that carry a message of this length.
    pub fn new(bytes: u32) -> Transport {
        Transport { specific: [1, 1], protocol: PROTOCOL, bytes: bytes.into(), ..Transport::default() }
    }
}

impl Negotiate {
    /// Offers hashes and groups, up to 30 of each.
    pub fn new(transaction: u16, hashes: &[u8], groups: &[u8]) -> Negotiate {
        let list = |ids: &[u8]| {
            let mut list = [0; 30];
            list[..ids.len()].copy_from_slice(ids);
            list
        };
        Negotiate {
            head: Head::new(kind::COMMON, id::NEGOTIATE, transaction),
            secure_channel: 0,
            protocols: 1,
            protocol: 1,
            reserved: 0,
            hash_count: hashes.len() as u8,
            group_count: groups.len() as u8,
            hashes: list(hashes),
            groups: list(groups),
        }
    }
}

/// Checks that the lengths of a proof and of a share fit into the fields that tell them.
fn assert_told((hash_bytes, share_bytes): (usize, usize)) {
    assert!(hash_bytes <= u8::MAX.into(), "no message has a proof of {hash_bytes} bytes");
    assert!(share_bytes <= u16::MAX.into(), "no message has a share of {share_bytes} bytes");
}

impl Challenge {
    /// The header of a challenge.
    pub fn new(transaction: u16, chosen: (u8, u8), sequence: u32, bytes: (usize, usize)) -> Challenge {
        assert_told(bytes);
        Challenge {
            head: Head::new(kind::CHAP, id::CHALLENGE, transaction),
            hash_bytes: bytes.0 as u8,
            reserved: 0,
            hash: chosen.0,
            group: chosen.1,
            share_bytes: (bytes.1 as u16).into(),
            sequence: sequence.into(),
        }
    }
}

impl Reply {
    /// The header of a reply.
    pub fn new(transaction: u16, has_challenge: bool, sequence: u32, bytes: (usize, usize)) -> Reply {
        assert_told(bytes);
        Reply {
            head: Head::new(kind::CHAP, id::REPLY, transaction),
            hash_bytes: bytes.0 as u8,
            reserved: 0,
            has_challenge: has_challenge.into(),
            reserved2: 0,
            share_bytes: (bytes.1 as u16).into(),
            sequence: sequence.into(),
        }
    }
}

impl Success1 {
    /// The header of a success.
    pub fn new(transaction: u16, hash_bytes: usize, has_proof: bool) -> Success1 {
        Success1 {
            head: Head::new(kind::CHAP, id::SUCCESS1, transaction),
            hash_bytes: hash_bytes as u8,
            reserved: 0,
            has_proof: has_proof.into(),
            reserved2: [0; 7],
        }
    }
}

impl Success2 {
    /// The host's last message.
    pub fn new(transaction: u16) -> Success2 {
        Success2 { head: Head::new(kind::CHAP, id::SUCCESS2, transaction), reserved: [0; 10] }
    }
}

impl Failure {
    /// The last message of a failed authentication; `id` says which side sends it.
    pub fn new(id: u8, transaction: u16, reason: u8) -> Failure {
        Failure { head: Head::new(kind::COMMON, id, transaction), code: 1, reason }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<Transport>(), offset_of!(Transport, protocol)), (24, 3));
        assert_eq!(offset_of!(Transport, bytes), 4);
        assert_eq!((size_of::<Negotiate>(), offset_of!(Negotiate, protocol)), (72, 8));
        assert_eq!((offset_of!(Negotiate, hashes), offset_of!(Negotiate, groups)), (12, 42));
        assert_eq!((size_of::<Challenge>(), offset_of!(Challenge, hash)), (16, 8));
        assert_eq!((offset_of!(Challenge, share_bytes), offset_of!(Challenge, sequence)), (10, 12));
        assert_eq!((size_of::<Reply>(), offset_of!(Reply, has_challenge)), (16, 8));
        assert_eq!((offset_of!(Reply, share_bytes), offset_of!(Reply, sequence)), (10, 12));
        assert_eq!((size_of::<Success1>(), offset_of!(Success1, has_proof)), (16, 8));
        assert_eq!((size_of::<Success2>(), size_of::<Failure>()), (16, 8));
        assert_eq!(offset_of!(Failure, reason), 7);
    }
}
