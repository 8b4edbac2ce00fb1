//! Where an index is: in DRAM, on flash, or both; and the space that it takes in a checkpoint.

use tantalum_canaries::guard;

use super::index::Index;

pub(super) const NAMESPACE_BYTES: usize = 40;
pub(super) const ENTRY_BYTES: usize = 16;

/// Bytes of this many namespaces with this many entries, besides the head.
pub(super) fn checkpoint_bytes(namespaces: u64, entries: u64) -> u64 {
    NAMESPACE_BYTES as u64 * namespaces + ENTRY_BYTES as u64 * entries
}

/// The position of an index in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InCheckpoint {
    /// Its first byte in the checkpoint.
    pub first_byte: u64,
    pub entries: u64,
    pub checksum: u32,
}

impl InCheckpoint {
    /// Its bytes in the checkpoint.
    pub fn bytes(&self) -> std::ops::Range<u64> {
        self.first_byte..self.first_byte + checkpoint_bytes(0, self.entries)
    }
}

/// An index in DRAM, on flash, or both.
#[derive(Clone, Debug)]
pub(crate) struct Residence {
    /// `None` while it is only on flash.
    pub index: Option<Index>,
    /// Its position in the last checkpoint; `None` if it has changed since.
    pub in_checkpoint: Option<InCheckpoint>,
    /// Bytes of DRAM that it took when it was swapped out.
    pub swapped_bytes: u64,
    /// The number of its last use, among uses of all indexes.
    pub used: u64,
}

impl Residence {
    pub fn new(index: Index) -> Residence {
        Residence { index: Some(index), in_checkpoint: None, swapped_bytes: 0, used: 0 }
    }

    /// The index, which must be in DRAM.
    #[inline]
    pub fn get(&self) -> &Index {
        self.index.as_ref().expect("an index is loaded before it is used")
    }

    /// The same, mutable.
    #[inline]
    pub fn get_mut(&mut self) -> &mut Index {
        guard!(ChangedIndexSwappedOut, self.in_checkpoint = None);
        self.index.as_mut().expect("an index is loaded before it is changed")
    }

    /// Whether it is only on flash.
    pub fn is_swapped_out(&self) -> bool {
        self.index.is_none()
    }

    /// Number of entries, in DRAM or not.
    pub fn entries(&self) -> u64 {
        match (&self.index, self.in_checkpoint) {
            (Some(index), _) => index.len(),
            (None, place) => place.map_or(0, |place| place.entries),
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn dram_bytes(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.dram_bytes() as u64)
    }

    /// Its position while it is only on flash.
    pub(super) fn on_flash(&self) -> Option<InCheckpoint> {
        if self.is_swapped_out() { self.in_checkpoint } else { None }
    }

    /// Drops it from DRAM, if the last checkpoint has it.
    pub fn swap_out(&mut self) {
        if self.in_checkpoint.is_some() {
            self.swapped_bytes = self.dram_bytes();
            self.index = None;
        }
    }
}
