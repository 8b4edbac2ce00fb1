//! What the front keeps in the drive's own namespace beside the table: records with a value of their own form each, behind a magic
//! number, a version and a checksum.

use tantalum::{Command, Device, Key, KvRecord, NamespaceId, Nanoseconds};
use tantalum_drive::Queue;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::stored::read;
use super::{Namespaces, TableError};
use crate::failure::Failure;

const VERSION: u32 = 1;

/// What precedes a value.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    /// CRC-32C of all bytes, with zeros here.
    checksum: U32,
}

/// A kind of record that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its key; more bytes may follow.
    pub key: &'static [u8],
    /// How its values begin.
    pub magic: [u8; 8],
    /// What it is, for messages.
    pub what: &'static str,
}

fn checksum(header: &Header, value: &[u8]) -> U32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(Header { checksum: 0.into(), ..*header }.as_bytes());
    digest.update(value);
    (digest.finalize() as u32).into()
}

impl Kept {
    /// The record's value with what precedes it.
    pub fn seal(&self, value: &[u8]) -> Vec<u8> {
        let mut header = Header { magic: self.magic, version: VERSION.into(), checksum: 0.into() };
        header.checksum = checksum(&header, value);
        [header.as_bytes(), value].concat()
    }

    /// The value of what was sealed.
    ///
    /// # Errors
    /// [`TableError::Damaged`] for anything else.
    pub fn open<'a>(&self, sealed: &'a [u8]) -> Result<&'a [u8], TableError> {
        let opened = Header::ref_from_prefix(sealed).ok().filter(|(header, value)| {
            let is_ours = header.magic == self.magic && header.version.get() == VERSION;
            is_ours && header.checksum == checksum(header, value)
        });
        opened.map(|(_, value)| value).ok_or_else(|| self.damaged())
    }

    /// The record is damaged.
    pub fn damaged(&self) -> TableError {
        TableError::damaged(self.what)
    }

    /// Its key with these bytes behind it.
    pub fn key_with(&self, more: &[u8]) -> Key {
        Key::new(&[self.key, more].concat()).expect("keys of kept records are short")
    }

    /// Stores a value in the drive's own namespace. Returns when it is durable.
    pub fn store(&self, queue: &Queue, namespace: NamespaceId, value: &[u8]) -> Result<Nanoseconds, Failure> {
        let sealed = self.seal(value);
        let records = [KvRecord { namespace, key: self.key_with(&[]), value: Some(&sealed) }];
        let put = Command::KvPut { records: &records };
        Ok(queue.drive().lock().issue(put, queue.answers().when(0))?.done_ns)
    }

    /// What the drive keeps of this kind, if anything.
    ///
    /// # Errors
    /// Those of reading it, and if it is damaged.
    pub fn load(
        &self,
        device: &mut Device,
        namespace: Option<NamespaceId>,
    ) -> Result<Option<Vec<u8>>, TableError> {
        let Some(namespace) = namespace else { return Ok(None) };
        match read(device, namespace, self.key_with(&[]))? {
            Some(sealed) => Ok(Some(self.open(&sealed)?.to_vec())),
            None => Ok(None),
        }
    }
}

impl Namespaces {
    /// Stores a value of this kind. A drive that has no namespace of its own yet gets one only if `makes_it`;
    /// otherwise nothing is stored.
    pub fn keep(&self, queue: &Queue, kind: &Kept, value: &[u8], makes_it: bool) -> Result<(), Failure> {
        let namespace = {
            let mut state = self.lock();
            match (state.storage.kept(), makes_it) {
                (Some(namespace), _) => namespace,
                (None, true) => state.storage.namespace(queue)?,
                (None, false) => return Ok(()),
            }
        };
        kind.store(queue, namespace, value).map(drop)
    }

    /// What is kept of this kind, if anything.
    ///
    /// # Errors
    /// Those of reading it, and if it is damaged.
    pub fn kept_value(&self, queue: &Queue, kind: &Kept) -> Result<Option<Vec<u8>>, TableError> {
        let namespace = self.lock().storage.kept();
        kind.load(&mut queue.drive().lock(), namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_opened_and_nothing_else() {
        let kind = Kept { key: b"test", magic: *b"TANTTEST", what: "a test" };
        assert_eq!((size_of::<Header>(), std::mem::offset_of!(Header, checksum)), (16, 12));
        for value in [&b""[..], b"seventeen bytes.."] {
            let sealed = kind.seal(value);
            assert_eq!(sealed.len(), 16 + value.len());
            assert_eq!(kind.open(&sealed), Ok(value));
            for at in 0..sealed.len() {
                let mut damaged = sealed.clone();
                damaged[at] ^= 1;
                assert_eq!(kind.open(&damaged), Err(TableError::damaged("a test")), "byte {at}");
                assert!(kind.open(&sealed[..at]).is_err());
            }
        }
    }
}
