//! The superblock: says that the drive has a log-structured file system, and of which kind. Unit 0, with a copy in unit 1.
//!
//! Layout, little-endian: checksum, version (4 each), magic (8), capacity in units (8), kind (1), cleaning (1),
//! indexing (1).

use tantalum::{Command, Device, Lpn, UNIT_BYTES};

use crate::bytes::{Page, get32, get64, put32, put64, seal, verify, zeros};
use crate::error::{Damage, LfsError, Result};

const MAGIC: [u8; 8] = *b"TANTLFS\n";

/// The layout version of this program.
const VERSION: u32 = 2;

/// Where the superblock and its copy are.
pub(crate) const PLACES: [Lpn; 2] = [Lpn(0), Lpn(1)];

/// How files are indexed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LfsKind {
    /// Nodes addressed by number, as in F2FS.
    Nat,
    /// Trees under a super root, as in NILFS2.
    Tree,
}

/// How the cleaner moves live units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleaning {
    /// It reads and writes.
    #[default]
    Copy,
    /// The drive maps the new place to the same flash page, and gives up the old place after the next checkpoint.
    Remap,
}

/// How a sync of a file makes durable where its contents are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Indexing {
    /// It writes the file's part of the index, as file systems of that kind do. Like F2FS, [`LfsKind::Nat`] writes contents that
    /// have a place in place, so that nothing in the index changes.
    #[default]
    Conventional,
    /// It writes the file's part of the index, and all contents are appended, as F2FS did before Linux 3.18, and does with
    /// `mode=lfs`.
    Appended,
    /// It writes only contents: the drive lists in non-volatile memory where they belong (Jin's thesis, section 4.3.2).
    Nvm,
}

/// What the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub capacity_units: u64,
    pub kind: LfsKind,
    pub cleaning: Cleaning,
    pub indexing: Indexing,
}

impl Superblock {
    /// Whether a sync writes contents in place. Trees cannot: they have checksums of contents, and snapshots that see
    /// them.
    pub fn overwrites(&self) -> bool {
        self.kind == LfsKind::Nat && self.indexing == Indexing::Conventional
    }

    pub fn encode(&self) -> Box<Page> {
        let mut page = zeros();
        put32(&mut page[..], 4, VERSION);
        page[8..16].copy_from_slice(&MAGIC);
        put64(&mut page[..], 16, self.capacity_units);
        page[24] = match self.kind {
            LfsKind::Nat => 0,
            LfsKind::Tree => 1,
        };
        page[25] = match self.cleaning {
            Cleaning::Copy => 0,
            Cleaning::Remap => 1,
        };
        page[26] = match self.indexing {
            Indexing::Conventional => 0,
            Indexing::Nvm => 1,
            Indexing::Appended => 2,
        };
        seal(&mut page[..]);
        page
    }

    fn decode(lpn: Lpn, page: &Page, drive_units: u64) -> Result<Superblock> {
        if page[8..16] != MAGIC {
            return Err(LfsError::NotFormatted);
        }
        let damaged = |damage| LfsError::Damaged { lpn, damage };
        verify(page).map_err(damaged)?;
        let found = get32(page, 4);
        if found != VERSION {
            return Err(LfsError::OtherVersion { found, supported: VERSION });
        }
        let formatted_units = get64(page, 16);
        if formatted_units != drive_units {
            return Err(LfsError::OtherCapacity { formatted_units, drive_units });
        }
        let kind = match page[24] {
            0 => LfsKind::Nat,
            1 => LfsKind::Tree,
            _ => return Err(damaged(Damage::NotA { expected: "a known kind of index" })),
        };
        let cleaning = match page[25] {
            0 => Cleaning::Copy,
            1 => Cleaning::Remap,
            _ => return Err(damaged(Damage::NotA { expected: "a known way of cleaning" })),
        };
        let indexing = match page[26] {
            0 => Indexing::Conventional,
            1 => Indexing::Nvm,
            2 => Indexing::Appended,
            _ => return Err(damaged(Damage::NotA { expected: "a known way of indexing" })),
        };
        Ok(Superblock { capacity_units: formatted_units, kind, cleaning, indexing })
    }

    /// Reads the superblock, or its copy if that is damaged.
    pub fn read(device: &mut Device) -> Result<Superblock> {
        let drive_units = device.limits().capacity_units;
        let [first, copy] = PLACES.map(|lpn| {
            let page = read_unit(device, lpn)?;
            Superblock::decode(lpn, &page, drive_units)
        });
        match first {
            Err(LfsError::Damaged { .. } | LfsError::NotFormatted) => copy.or(first),
            first => first,
        }
    }

    /// The kind of a drive's file system; `None` if the drive does not claim to have one.
    pub fn kind_on(device: &mut Device) -> Result<Option<LfsKind>> {
        match Superblock::is_there(device)? {
            true => Ok(Some(Superblock::read(device)?.kind)),
            false => Ok(None),
        }
    }

    /// Whether the drive claims to have such a file system, whole or damaged.
    pub fn is_there(device: &mut Device) -> Result<bool> {
        for lpn in PLACES {
            if read_unit(device, lpn)?[8..16] == MAGIC {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn read_unit(device: &mut Device, lpn: Lpn) -> Result<Box<Page>> {
    let mut page = Box::new([0; UNIT_BYTES]);
    let at_ns = device.time_ns();
    device.submit(Command::Read { lpn, data: &mut page[..] }, at_ns)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_pinned_and_reads_back() {
        let (cleaning, indexing) = (Cleaning::Remap, Indexing::Nvm);
        let superblock = Superblock { capacity_units: 0x1234, kind: LfsKind::Nat, cleaning, indexing };
        let mut page = superblock.encode();
        assert_eq!(page[4..27], *b"\x02\0\0\0TANTLFS\n\x34\x12\0\0\0\0\0\0\0\x01\x01");
        let read = |page: &Page, units| Superblock::decode(Lpn(0), page, units);
        assert_eq!(read(&page, 0x1234), Ok(superblock));
        assert_eq!(read(&page, 9), Err(LfsError::OtherCapacity { formatted_units: 0x1234, drive_units: 9 }));
        for indexing in [Indexing::Conventional, Indexing::Appended] {
            let other = Superblock { indexing, ..superblock };
            assert_eq!(read(&other.encode(), 0x1234), Ok(other));
        }
        page[99] = 1;
        assert!(matches!(read(&page, 0x1234), Err(LfsError::Damaged { .. })));
        assert_eq!(read(&[0; UNIT_BYTES], 9), Err(LfsError::NotFormatted));
    }
}
