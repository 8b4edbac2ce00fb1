//! The super root, from which everything else is reached; and the anchor, which says where to look for it.
//!
//! A super root is the last unit of a partial segment that ends a checkpoint. Layout, little-endian: checksum (4), magic
//! (8), number of the checkpoint, clock, promised units (8 each), root of the tree of files, number of the next snapshot,
//! last file, files, last virtual number, nodes, nodes that are promised a copy, orphans, snapshots, branches (4 each),
//! places of up to 4 units of orphans (4 each); from 96 on, 24 bytes for each of up to 64 snapshots: its number, root of
//! its tree of files, files (4 each), when it was made (8 and 4), the upper bit of the number of nanoseconds set if it is
//! being deleted; from 1632 on, places of the table's branches (4 each).
//!
//! An anchor: checksum (4), magic (8), number of the checkpoint (8), place of its summary (4). There are two, and each
//! overwrites the older one.

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::Timestamp;

use super::translation::Number;
use crate::bytes::{Page, get32, get64, put32, put64, seal, verify, zeros};
use crate::error::Damage;
use crate::index::{MOST_ORPHANS, Snapshot};

const MAGIC: [u8; 8] = *b"TANTROOT";
const ANCHOR_MAGIC: [u8; 8] = *b"TANTANCH";
const SNAPSHOTS_AT: usize = 96;
const SNAPSHOT_BYTES: usize = 24;
const BRANCHES_AT: usize = SNAPSHOTS_AT + MOST_SNAPSHOTS * SNAPSHOT_BYTES;
const GOING: u32 = 1 << 31;

/// Maximum number of snapshots.
pub(super) const MOST_SNAPSHOTS: usize = 64;

/// Maximum number of branches of the table.
pub(super) const MOST_BRANCHES: usize = (UNIT_BYTES - BRANCHES_AT) / 4;

/// Maximum number of units of orphans.
pub(super) const MOST_ORPHAN_UNITS: usize = MOST_ORPHANS / (UNIT_BYTES / 4);

/// A snapshot as the trees know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frozen {
    pub snapshot: Snapshot,
    /// The root of its tree of files.
    pub root: Number,
    /// It is being deleted, and cannot be read any more.
    pub is_going: bool,
}

/// The contents of a super root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SuperRoot {
    /// The number of the checkpoint.
    pub number: u64,
    pub clock: u64,
    pub reserved: u64,
    /// The root of the tree of files.
    pub root: Number,
    /// The number of the next snapshot.
    pub epoch: u32,
    pub last_file: u32,
    pub files: u32,
    pub last_number: u32,
    pub nodes: u32,
    /// Nodes that a snapshot shares with the present.
    pub shared_nodes: u32,
    pub orphans: u32,
    pub orphan_units: [Lpn; MOST_ORPHAN_UNITS],
    pub snapshots: Vec<Frozen>,
    pub branches: Vec<u32>,
}

const _: () = assert!(MOST_ORPHAN_UNITS * (UNIT_BYTES / 4) == MOST_ORPHANS, "the units name all orphans");
const _: () = assert!(36 + 4 * (10 + MOST_ORPHAN_UNITS) <= SNAPSHOTS_AT, "words end before the snapshots");

impl SuperRoot {
    pub fn encode(&self) -> Box<Page> {
        assert!(
            self.snapshots.len() <= MOST_SNAPSHOTS && self.branches.len() <= MOST_BRANCHES,
            "super root {} has {} snapshots and {} branches",
            self.number,
            self.snapshots.len(),
            self.branches.len()
        );
        let mut page = zeros();
        let bytes = &mut page[..];
        bytes[4..12].copy_from_slice(&MAGIC);
        put64(bytes, 12, self.number);
        put64(bytes, 20, self.clock);
        put64(bytes, 28, self.reserved);
        let counts = [self.orphans, self.snapshots.len() as u32, self.branches.len() as u32];
        let words = [
            self.root.0,
            self.epoch,
            self.last_file,
            self.files,
            self.last_number,
            self.nodes,
            self.shared_nodes,
        ];
        let words = words.into_iter().chain(counts).chain(self.orphan_units.map(|lpn| lpn.0));
        words.enumerate().for_each(|(index, word)| put32(bytes, 36 + 4 * index, word));
        for (one, at) in self.snapshots.iter().zip((SNAPSHOTS_AT..).step_by(SNAPSHOT_BYTES)) {
            let Snapshot { number, files, created } = one.snapshot;
            put32(bytes, at, number);
            put32(bytes, at + 4, one.root.0);
            put32(bytes, at + 8, files);
            put64(bytes, at + 12, created.seconds as u64);
            put32(bytes, at + 20, created.nanoseconds | if one.is_going { GOING } else { 0 });
        }
        for (branch, at) in self.branches.iter().zip((BRANCHES_AT..).step_by(4)) {
            put32(bytes, at, *branch);
        }
        seal(bytes);
        page
    }

    /// The super root in a unit, of a table with `branches` branches.
    pub fn decode(page: &Page, table_branches: u32) -> Result<SuperRoot, Damage> {
        verify(page)?;
        let word = |index: usize| get32(page, 36 + 4 * index);
        let (orphans, snapshots, branches) = (word(7), word(8) as usize, word(9) as usize);
        let is_sound = page[4..12] == MAGIC
            && orphans as usize <= MOST_ORPHANS
            && snapshots <= MOST_SNAPSHOTS
            && branches == table_branches as usize;
        if !is_sound {
            return Err(Damage::NotA { expected: "a super root" });
        }
        let snapshot = |index: usize| {
            let at = SNAPSHOTS_AT + index * SNAPSHOT_BYTES;
            let nanoseconds = get32(page, at + 20);
            let created =
                Timestamp { seconds: get64(page, at + 12) as i64, nanoseconds: nanoseconds & !GOING };
            Frozen {
                snapshot: Snapshot { number: get32(page, at), files: get32(page, at + 8), created },
                root: Number(get32(page, at + 4)),
                is_going: nanoseconds & GOING != 0,
            }
        };
        Ok(SuperRoot {
            number: get64(page, 12),
            clock: get64(page, 20),
            reserved: get64(page, 28),
            root: Number(word(0)),
            epoch: word(1),
            last_file: word(2),
            files: word(3),
            last_number: word(4),
            nodes: word(5),
            shared_nodes: word(6),
            orphans,
            orphan_units: std::array::from_fn(|index| Lpn(word(10 + index))),
            snapshots: (0..snapshots).map(snapshot).collect(),
            branches: (0..branches).map(|index| get32(page, BRANCHES_AT + 4 * index)).collect(),
        })
    }
}

/// Where to look for the last super root: there, or further on in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Anchor {
    /// The number of the checkpoint.
    pub number: u64,
    /// The summary of the partial segment that ends with the super root.
    pub summary: Lpn,
}

impl Anchor {
    pub fn encode(&self) -> Box<Page> {
        let mut page = zeros();
        page[4..12].copy_from_slice(&ANCHOR_MAGIC);
        put64(&mut page[..], 12, self.number);
        put32(&mut page[..], 20, self.summary.0);
        seal(&mut page[..]);
        page
    }

    /// The anchor in a unit, if there is a whole one.
    pub fn decode(page: &Page) -> Option<Anchor> {
        let is_whole = page[4..12] == ANCHOR_MAGIC && verify(page).is_ok();
        is_whole.then(|| Anchor { number: get64(page, 12), summary: Lpn(get32(page, 20)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_root_and_an_anchor_read_back_whole_or_not_at_all() {
        let snapshot =
            Snapshot { number: 1, files: 3, created: Timestamp { seconds: -1, nanoseconds: 999_999_999 } };
        let frozen = |is_going| Frozen { snapshot, root: Number(8), is_going };
        let super_root = SuperRoot {
            number: 1 << 40,
            clock: 2,
            reserved: 3,
            root: Number(4),
            epoch: 5,
            last_file: 6,
            files: 7,
            last_number: 8,
            nodes: 9,
            shared_nodes: 10,
            orphans: 11,
            orphan_units: [Lpn(12), Lpn(0), Lpn(0), Lpn(13)],
            snapshots: vec![frozen(false), frozen(true)],
            branches: vec![99; 3],
        };
        let mut page = super_root.encode();
        assert_eq!((SNAPSHOTS_AT, BRANCHES_AT, &page[4..12]), (96, 1632, &MAGIC[..]));
        assert_eq!(page[36..40], 4u32.to_le_bytes());
        assert_eq!(SuperRoot::decode(&page, 3), Ok(super_root));
        assert!(SuperRoot::decode(&page, 4).is_err());
        page[1000] ^= 1;
        assert!(SuperRoot::decode(&page, 3).is_err());
        let anchor = Anchor { number: 7, summary: Lpn(8) };
        let mut page = anchor.encode();
        assert_eq!(Anchor::decode(&page), Some(anchor));
        page[12] ^= 1;
        assert_eq!(Anchor::decode(&page), None);
    }
}
