//! A node: one unit of the index, addressed by a number; and the shape of the tree that a file's nodes form.
//!
//! An inode has pointers to units of the file and to roots: two direct nodes, two indirect, five double indirect ones.
//! A direct node has pointers to units, an indirect one to direct nodes, a double indirect one to indirect nodes. A
//! pointer to a unit is its place, or [`RESERVED`]; a pointer to a node is its number; 0 is neither.
//!
//! Every node ends with a footer of 32 bytes, little-endian: checksum of everything else, number, file, first unit
//! (4 each), level, flags (1 each), 2 zeros, version of the last checkpoint (8), place of the next node (4).

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;
use tantalum_image::checksum_of;

use super::layout::MOST_UNITS;
use super::summary::NODE;
use crate::bytes::{Page, get32, get64, put32, put64, zeros};
use crate::error::Damage;
use crate::index::BlockPointer;
use crate::inode::INODE_BYTES;

const FOOTER_AT: usize = UNIT_BYTES - 32;

/// Pointers of a node other than an inode.
const POINTERS: usize = FOOTER_AT / 4;

/// Roots in an inode.
const ROOTS: usize = 9;

/// Pointers of an inode: roots, then units.
const INODE_POINTERS: usize = (FOOTER_AT - INODE_BYTES) / 4;

/// Units to which an inode points.
pub(super) const INODE_UNITS: usize = INODE_POINTERS - ROOTS;

const _: () = assert!(INODE_BYTES + 4 * INODE_POINTERS <= FOOTER_AT, "the pointers end before the footer");
const _: () = assert!(POINTERS < NODE as usize, "a summary can tell the last pointer from the node itself");
const _: () = assert!(
    INODE_UNITS as u64 + 2 * (reach(Direct) + reach(Indirect)) + (ROOTS as u64 - 4) * reach(DoubleIndirect)
        >= reach(Inode),
    "the roots of an inode reach all units of the largest file"
);
const _: () = assert!(MOST_UNITS < RESERVED as u64, "no place on a drive is taken for a reserved unit");

/// A pointer to a unit that has space but no place yet.
pub(super) const RESERVED: u32 = u32::MAX;

/// The node is the last one of a sync: those of its file up to here are valid together.
pub(super) const SYNCED: u8 = 1;

/// The node belongs to a folder.
pub(super) const OF_FOLDER: u8 = 2;

/// What a node's pointers point to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    Direct,
    Indirect,
    DoubleIndirect,
    Inode,
}

use Level::{Direct, DoubleIndirect, Indirect, Inode};

impl Level {
    fn from_byte(byte: u8) -> Option<Level> {
        [Direct, Indirect, DoubleIndirect, Inode].get(usize::from(byte)).copied()
    }
}

/// A pointer: its index, the first unit that it reaches, the number of units, and the node that it points to, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    pub index: usize,
    pub first: u64,
    pub units: u64,
    pub child: Option<Level>,
}

/// Units that a node of a level reaches.
pub(super) const fn reach(level: Level) -> u64 {
    let pointers = POINTERS as u64;
    match level {
        Direct => pointers,
        Indirect => pointers * pointers,
        DoubleIndirect => pointers * pointers * pointers,
        Inode => 1 << 32,
    }
}

/// The pointer of a node that reaches `unit`. The node's first unit is `first`.
pub(super) fn pointer_to(level: Level, first: u64, unit: u64) -> Pointer {
    let child = match level {
        Direct => None,
        Indirect => Some(Direct),
        DoubleIndirect => Some(Indirect),
        Inode => return inode_pointer_to(unit),
    };
    debug_assert!(
        (first..first + reach(level)).contains(&unit),
        "a node of level {level:?} at unit {first} does not reach unit {unit}"
    );
    let units = child.map_or(1, reach);
    let index = (unit - first) / units;
    Pointer { index: index as usize, first: first + index * units, units, child }
}

fn inode_pointer_to(unit: u64) -> Pointer {
    if unit < INODE_UNITS as u64 {
        return Pointer { index: ROOTS + unit as usize, first: unit, units: 1, child: None };
    }
    let mut first = INODE_UNITS as u64;
    for root in 0..ROOTS {
        let child = match root {
            0..2 => Direct,
            2..4 => Indirect,
            _ => DoubleIndirect,
        };
        let units = reach(child);
        if unit < first + units {
            return Pointer { index: root, first, units, child: Some(child) };
        }
        first += units;
    }
    panic!("unit {unit} is beyond the largest file");
}

/// A node in memory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub page: Box<Page>,
}

impl Node {
    pub fn new(number: u32, file: FileId, first: u32, level: Level, is_folder: bool) -> Node {
        let mut page = zeros();
        put32(&mut page[..], FOOTER_AT + 4, number);
        put32(&mut page[..], FOOTER_AT + 8, file.0);
        put32(&mut page[..], FOOTER_AT + 12, first);
        page[FOOTER_AT + 16] = level as u8;
        page[FOOTER_AT + 17] = if is_folder { OF_FOLDER } else { 0 };
        Node { page }
    }

    pub fn number(&self) -> u32 {
        get32(&self.page[..], FOOTER_AT + 4)
    }

    pub fn file(&self) -> FileId {
        FileId(get32(&self.page[..], FOOTER_AT + 8))
    }

    /// The first unit of the file that it reaches.
    pub fn first(&self) -> u64 {
        u64::from(get32(&self.page[..], FOOTER_AT + 12))
    }

    pub fn level(&self) -> Level {
        Level::from_byte(self.page[FOOTER_AT + 16]).expect("a node was checked when it was read")
    }

    pub fn flags(&self) -> u8 {
        self.page[FOOTER_AT + 17]
    }

    /// The last checkpoint when it was written.
    pub fn version(&self) -> u64 {
        get64(&self.page[..], FOOTER_AT + 20)
    }

    /// Where the next node of the same log was to be written.
    pub fn next(&self) -> Lpn {
        Lpn(get32(&self.page[..], FOOTER_AT + 28))
    }

    /// Completes the node for the place where it is written.
    pub fn seal(&mut self, version: u64, next: Lpn, is_synced: bool) {
        let page = &mut self.page[..];
        page[FOOTER_AT + 17] = page[FOOTER_AT + 17] & !SYNCED | if is_synced { SYNCED } else { 0 };
        put64(page, FOOTER_AT + 20, version);
        put32(page, FOOTER_AT + 28, next.0);
        let checksum = Node::checksum(page);
        put32(page, FOOTER_AT, checksum);
    }

    fn checksum(page: &[u8]) -> u32 {
        checksum_of(&page[..FOOTER_AT]) ^ checksum_of(&page[FOOTER_AT + 4..]).rotate_left(16)
    }

    /// The node in a unit.
    pub fn parse(page: Box<Page>) -> Result<Node, Damage> {
        let (found, computed) = (get32(&page[..], FOOTER_AT), Node::checksum(&page[..]));
        if found != computed {
            return Err(Damage::Checksum { found, computed });
        }
        match Level::from_byte(page[FOOTER_AT + 16]) {
            Some(_) => Ok(Node { page }),
            None => Err(Damage::NotA { expected: "a node" }),
        }
    }

    /// All pointers, whatever they point to.
    pub fn pointers(&self) -> usize {
        if self.level() == Inode { INODE_POINTERS } else { POINTERS }
    }

    /// The pointers to units, by index.
    pub fn unit_pointers(&self) -> std::ops::Range<usize> {
        match self.level() {
            Direct => 0..POINTERS,
            Inode => ROOTS..INODE_POINTERS,
            Indirect | DoubleIndirect => 0..0,
        }
    }

    /// The unit to which a pointer to a unit belongs.
    pub fn unit_of(&self, index: usize) -> u32 {
        debug_assert!(
            self.unit_pointers().contains(&index),
            "pointer {index} of node {} of level {:?} leads to no unit",
            self.number(),
            self.level()
        );
        let before = self.unit_pointers().start;
        (self.first() + (index - before) as u64) as u32
    }

    fn at(&self, index: usize) -> usize {
        debug_assert!(
            index < self.pointers(),
            "node {} of level {:?} has no pointer {index}",
            self.number(),
            self.level()
        );
        let start = if self.level() == Inode { INODE_BYTES } else { 0 };
        start + 4 * index
    }

    pub fn pointer(&self, index: usize) -> u32 {
        get32(&self.page[..], self.at(index))
    }

    pub fn set_pointer(&mut self, index: usize, value: u32) {
        let at = self.at(index);
        put32(&mut self.page[..], at, value);
    }

    pub fn is_empty(&self) -> bool {
        (0..self.pointers()).all(|index| self.pointer(index) == 0)
    }
}

/// A block pointer as a node stores it.
pub(super) fn encode_pointer(pointer: BlockPointer) -> u32 {
    match pointer {
        BlockPointer::Hole => 0,
        BlockPointer::Reserved => RESERVED,
        BlockPointer::At(lpn) => {
            debug_assert!(!matches!(lpn.0, 0 | RESERVED), "place {lpn} cannot be told from no place");
            lpn.0
        }
    }
}

/// The block pointer that a node stores as this number.
pub(super) fn decode_pointer(pointer: u32) -> BlockPointer {
    match pointer {
        0 => BlockPointer::Hole,
        RESERVED => BlockPointer::Reserved,
        lpn => BlockPointer::At(Lpn(lpn)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_up_to_16_tib_has_one_pointer() {
        let units = [0, 662, 663, 1678, 1679, 2695, 3_000_000, 1 << 31, (1u64 << 32) - 1];
        for unit in units {
            let (mut level, mut first) = (Inode, 0);
            for _ in 0..4 {
                let pointer = pointer_to(level, first, unit);
                assert!(
                    (pointer.first..pointer.first + pointer.units).contains(&unit),
                    "{unit}: {pointer:?}"
                );
                let Some(child) = pointer.child else {
                    assert_eq!(pointer.first, unit);
                    break;
                };
                (level, first) = (child, pointer.first);
            }
        }
        assert_eq!(
            (INODE_UNITS, pointer_to(Inode, 0, 663).index, pointer_to(Inode, 0, u64::from(u32::MAX)).index),
            (663, 0, 8)
        );
    }

    #[test]
    fn a_node_reads_back_and_notices_every_damage() {
        let mut node = Node::new(7, FileId(5), 663, Direct, true);
        node.set_pointer(1015, 99);
        node.seal(3, Lpn(1234), true);
        let read = Node::parse(node.page.clone()).unwrap();
        assert_eq!((read.number(), read.file(), read.first(), read.level()), (7, FileId(5), 663, Direct));
        assert_eq!((read.version(), read.next(), read.flags()), (3, Lpn(1234), SYNCED | OF_FOLDER));
        assert_eq!((read.pointer(1015), read.unit_of(1015)), (99, 663 + 1015));
        assert_eq!(node.page[FOOTER_AT + 4..FOOTER_AT + 18], *b"\x07\0\0\0\x05\0\0\0\x97\x02\0\0\0\x03");
        for byte in [0, FOOTER_AT - 1, FOOTER_AT, FOOTER_AT + 4, UNIT_BYTES - 1] {
            let mut page = node.page.clone();
            page[byte] ^= 1;
            assert!(Node::parse(page).is_err(), "byte {byte}");
        }
    }
}
