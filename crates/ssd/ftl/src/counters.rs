//! What a drive has done since it was created: the one list of its counters.
//!
//! A counter is a line here. The checkpoint stores all of them in this order, SMART and its JSON use these names, and
//! the command line shows these descriptions.

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, little_endian};

/// Declares counters: a name and a description. Groups of counters come first, in brackets.
macro_rules! counters {
    (
        $(#[$about:meta])*
        pub struct $name:ident [ $( $(#[$about_group:meta])* $group:ident: $kind:ty, )* ] {
            $( $(#[$about_counter:meta])* $counter:ident: $words:literal, )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name {
            $( $(#[$about_group])* pub $group: $kind, )*
            $( $(#[$about_counter])* pub $counter: u64, )*
        }

        impl $name {
            /// Each counter with its description; those of groups are not included.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( ($words, self.$counter), )*].into_iter()
            }

            /// The increase since then; zero for a counter that went back, as it may when power is lost.
            #[must_use]
            pub fn since(&self, before: &$name) -> $name {
                $name {
                    $( $group: self.$group.since(&before.$group), )*
                    $( $counter: self.$counter.saturating_sub(before.$counter), )*
                }
            }
        }
    };
}

counters! {
    /// Flash units programmed, by cause.
    pub struct FlashUnits [] {
        /// Host data.
        host: "host data",
        /// Records of key-value namespaces, and tombstones. Omitted if there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        key_value: "records",
        /// Units into which garbage collection packed records. Omitted if there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        key_value_copyback: "records moved",
        /// The empty rest of partly filled pages.
        padding: "padding",
        /// Valid units moved by garbage collection and wear levelling.
        copyback: "copyback",
        /// Journal pages.
        journal: "journal",
        /// Checkpoints.
        checkpoint: "checkpoint",
        /// Units dumped by the capacitor when power failed.
        dump: "dump",
    }
}

counters! {
    /// Counters since the drive was created, as of the last checkpoint when power was lost. Units are 4 KiB.
    pub struct Counters [
        /// Units programmed, by cause.
        flash_units: FlashUnits,
    ] {
        /// Units the host wrote.
        host_units_written: "host units written",
        /// Units the host read.
        host_units_read: "host units read",
        /// Units that hosts changed by commands without data, as far as a server counts them: NVMe's Write Zeroes and Write
        /// Uncorrectable, and Copy where it shares.
        #[serde(default)]
        host_units_without_data: "host units changed without data",
        /// Records put into key-value namespaces.
        records_put: "records put",
        /// Bytes of their keys and values.
        record_bytes_put: "bytes of records put",
        /// Records deleted.
        records_deleted: "records deleted",
        /// Records read.
        records_got: "records got",
        /// Bytes of their values.
        record_bytes_got: "bytes of values got",
        /// Atomic batches of units and records.
        batches_with_records: "batches of units and records",
        /// Times that the index of a namespace was dropped from DRAM, to be on flash only.
        indexes_swapped_out: "indexes swapped out",
        /// Times that such an index was loaded again.
        indexes_swapped_in: "indexes swapped in",
        /// Flash units read for indexes that are on flash only: to load them, and to copy them into the next checkpoint.
        index_units_read: "units of indexes read",
        /// Checkpoints taken so that a changed index could be dropped from DRAM. Their units are among those of
        /// checkpoints.
        index_checkpoints: "checkpoints for indexes",
        /// Blocks erased.
        blocks_erased: "blocks erased",
        /// Blocks emptied by garbage collection and wear levelling.
        collections: "blocks collected",
        /// Checkpoints taken.
        checkpoints: "checkpoints",
        /// Units whose mapping was shared.
        units_shared: "units shared",
        /// Of these, units whose hint brought them home without a journal record.
        units_brought_home: "units brought home",
        /// Units whose mapping was moved (`remap`).
        units_remapped: "units remapped",
        /// Transactions committed.
        transactions_committed: "transactions committed",
        /// Flush commands.
        flushes: "flushes",
        /// Times that power was lost without a shutdown.
        unsafe_shutdowns: "unsafe shutdowns",
        /// Programs that failed.
        program_failures: "program failures",
        /// Erases that failed.
        erase_failures: "erase failures",
        /// Reads of units that found their flash page uncorrectable.
        uncorrectable_reads: "uncorrectable reads",
    }
}

/// Counters as a checkpoint stores them.
pub(crate) type StoredCounters = [little_endian::U64; size_of::<Counters>() / size_of::<u64>()];

fn is_zero(units: &u64) -> bool {
    *units == 0
}

impl FlashUnits {
    /// Units programmed for any reason.
    pub fn total(&self) -> u64 {
        self.each().map(|(_, units)| units).sum()
    }
}

impl Counters {
    pub(crate) fn stored(&self) -> StoredCounters {
        let counters: [u64; size_of::<Counters>() / size_of::<u64>()] = zerocopy::transmute!(*self);
        counters.map(little_endian::U64::new)
    }

    pub(crate) fn of_stored(stored: &StoredCounters) -> Counters {
        zerocopy::transmute!(stored.map(little_endian::U64::get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_stored_in_their_order() {
        let flash_units = FlashUnits { host: 1, dump: 8, ..FlashUnits::default() };
        let counters = Counters {
            flash_units,
            host_units_written: 9,
            uncorrectable_reads: 1 << 40,
            ..Counters::default()
        };
        let stored = counters.stored();
        assert_eq!(stored.as_bytes().len(), 33 * 8);
        assert_eq!([stored[0], stored[7], stored[8], stored[32]].map(|word| word.get()), [1, 8, 9, 1 << 40]);
        assert_eq!(stored[32].as_bytes(), [0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(Counters::of_stored(&stored), counters);
    }

    #[test]
    fn every_counter_has_words_and_the_causes_add_up() {
        let counters = Counters::of_stored(&std::array::from_fn(|at| little_endian::U64::new(at as u64)));
        assert!(counters.each().map(|(_, count)| count).eq(8..33));
        assert_eq!(counters.flash_units.total(), (0..8).sum::<u64>());
    }
}
