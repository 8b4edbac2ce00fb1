//! An inode: what both kinds of index store about a file, besides where its contents are.
//!
//! Layout, 1376 bytes, little-endian: kind, length of the name, permissions (2), owner, group, links, device number,
//! parent (4 each), size, units (8 each), four times of 8 + 4 bytes, 4 zeros; at 96 the name (256); at 352 the extended
//! attributes (1024): length of the name, length of the value (2), name, value; a length of 0 ends them.

use tantalum_filesystem::{FileId, FileKind, Metadata, NAME_BYTES, NewFile, Timestamp};

use crate::bytes::{get16, get32, get64, put16, put32, put64};
use crate::error::Damage;

/// Bytes of a stored inode.
pub(crate) const INODE_BYTES: usize = 1376;

/// Bytes that all extended attributes of a file may take.
pub(crate) const ATTRIBUTE_BYTES: usize = 1024;

const NAME_AT: usize = 96;
const ATTRIBUTES_AT: usize = 352;

const _: () = assert!(NAME_AT + NAME_BYTES < ATTRIBUTES_AT, "the longest name ends before the attributes");
const _: () = assert!(ATTRIBUTES_AT + ATTRIBUTE_BYTES == INODE_BYTES, "the attributes end the inode");

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Folder,
    FileKind::SymbolicLink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharDevice,
    FileKind::BlockDevice,
];

/// A kind as it is stored: 1 to 7.
pub(crate) fn kind_byte(kind: FileKind) -> u8 {
    KINDS.iter().position(|&other| other == kind).expect("every kind is listed") as u8 + 1
}

/// The kind that a stored byte means.
pub(crate) fn kind_of(byte: u8) -> Option<FileKind> {
    KINDS.get(usize::from(byte).checked_sub(1)?).copied()
}

/// An extended attribute: its name and its value.
pub(crate) type Attribute = (Box<[u8]>, Box<[u8]>);

/// What is stored about a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub metadata: Metadata,
    /// The folder in which it was created; for a folder, the one that contains it.
    pub parent: FileId,
    /// The name under which it was created: recovery gives it to a file that no checkpoint has.
    pub name: Box<[u8]>,
    pub attributes: Vec<Attribute>,
}

impl Inode {
    pub fn new(new: &NewFile, parent: FileId, name: &[u8]) -> Inode {
        let metadata = Metadata::of_new(new);
        Inode { metadata, parent, name: name.into(), attributes: Vec::new() }
    }

    pub fn is_folder(&self) -> bool {
        self.metadata.kind == FileKind::Folder
    }

    /// Bytes that the extended attributes take.
    pub fn attribute_bytes(attributes: &[Attribute]) -> usize {
        attributes.iter().map(|(name, value)| 3 + name.len() + value.len()).sum()
    }

    /// Writes the inode to the first [`INODE_BYTES`] of `bytes`.
    pub fn write_to(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..INODE_BYTES];
        bytes.fill(0);
        let m = &self.metadata;
        bytes[0] = kind_byte(m.kind);
        bytes[1] = self.name.len() as u8;
        put16(bytes, 2, m.permissions);
        for (index, word) in [m.owner, m.group, m.links, m.device_number, self.parent.0].iter().enumerate() {
            put32(bytes, 4 + 4 * index, *word);
        }
        put64(bytes, 24, m.size);
        put64(bytes, 32, m.units);
        for (index, time) in [m.accessed, m.modified, m.changed, m.created].iter().enumerate() {
            put64(bytes, 40 + 12 * index, time.seconds as u64);
            put32(bytes, 48 + 12 * index, time.nanoseconds);
        }
        bytes[NAME_AT..NAME_AT + self.name.len()].copy_from_slice(&self.name);
        let mut at = ATTRIBUTES_AT;
        for (name, value) in &self.attributes {
            bytes[at] = name.len() as u8;
            put16(bytes, at + 1, value.len() as u16);
            bytes[at + 3..at + 3 + name.len()].copy_from_slice(name);
            at += 3 + name.len();
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        }
        let attribute_bytes = Inode::attribute_bytes(&self.attributes);
        assert_eq!(
            at - ATTRIBUTES_AT,
            attribute_bytes,
            "the attributes took other bytes than they were counted"
        );
    }

    /// Reads an inode from the first [`INODE_BYTES`] of `bytes`.
    pub fn read_from(bytes: &[u8]) -> Result<Inode, Damage> {
        let bytes = &bytes[..INODE_BYTES];
        let Some(kind) = kind_of(bytes[0]) else { return Err(Damage::NotA { expected: "an inode" }) };
        let time = |index: usize| Timestamp {
            seconds: get64(bytes, 40 + 12 * index) as i64,
            nanoseconds: get32(bytes, 48 + 12 * index),
        };
        let metadata = Metadata {
            kind,
            permissions: get16(bytes, 2),
            owner: get32(bytes, 4),
            group: get32(bytes, 8),
            links: get32(bytes, 12),
            size: get64(bytes, 24),
            units: get64(bytes, 32),
            accessed: time(0),
            modified: time(1),
            changed: time(2),
            created: time(3),
            device_number: get32(bytes, 16),
        };
        let name = bytes[NAME_AT..NAME_AT + usize::from(bytes[1])].into();
        let attributes = read_attributes(&bytes[ATTRIBUTES_AT..])?;
        Ok(Inode { metadata, parent: FileId(get32(bytes, 20)), name, attributes })
    }
}

fn read_attributes(bytes: &[u8]) -> Result<Vec<Attribute>, Damage> {
    let mut attributes = Vec::new();
    let mut at = 0;
    while at + 3 <= bytes.len() && bytes[at] != 0 {
        let name_end = at + 3 + usize::from(bytes[at]);
        let end = name_end + usize::from(get16(bytes, at + 1));
        if end > bytes.len() {
            let most = ATTRIBUTE_BYTES as u64;
            return Err(Damage::Beyond { what: "the end of an extended attribute", value: end as u64, most });
        }
        attributes.push((bytes[at + 3..name_end].into(), bytes[name_end..end].into()));
        at = end;
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_reads_back() {
        let new =
            NewFile { kind: FileKind::Fifo, permissions: 0o640, owner: 7, group: 8, ..NewFile::default() };
        let mut inode = Inode::new(&new, FileId(9), b"a name");
        inode.metadata.size = 1 << 44;
        inode.metadata.accessed = Timestamp { seconds: -5, nanoseconds: 999_999_999 };
        inode.attributes =
            vec![(b"user.a"[..].into(), vec![3; 900].into()), (b"user.b"[..].into(), [][..].into())];
        let mut bytes = [0xee; 4096];
        inode.write_to(&mut bytes);
        assert_eq!(Inode::read_from(&bytes), Ok(inode));
        assert_eq!((bytes[0], bytes[1], bytes[INODE_BYTES]), (4, 6, 0xee));
        assert_eq!(bytes[24..32], (1u64 << 44).to_le_bytes());
        bytes[352 + 1] = 0xff;
        assert!(matches!(Inode::read_from(&bytes), Err(Damage::Beyond { .. })));
        assert_eq!(Inode::read_from(&[0; 4096]), Err(Damage::NotA { expected: "an inode" }));
    }
}
