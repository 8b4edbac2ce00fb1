//! What one `put` of the drive takes, and the room of the drive that must be left.

use tantalum::{Device, Footprint, UNIT_BYTES};

use crate::large::PART_BYTES;
use crate::record_store::Records;

/// Chunks of the nodes that a step of a large commit changes, unless one key changes more: 64 nodes of the usual size.
const STEP_NODES: u64 = 64 * 32;

/// Records of a step besides those that it changes: the records that it is logged in are deleted with it.
const STEP_SPARE_RECORDS: usize = 8;

/// For each chunk of the log of a transaction that deletes all of a drive, or each second key: this many bytes of the drive. A
/// record of its own takes 96 bytes at least, a step deletes a thousand, and its log takes 5 chunks, or 8 for each second key of two
/// thousand. A value in a leaf takes 49 bytes at least, and a step deletes some two thousand, with 13 chunks for each second one.
const BYTES_PER_CHUNK_OF_LOG: u64 = 16 << 10;

/// The same for each record of the log.
const BYTES_PER_RECORD_OF_LOG: u64 = 64 << 10;

/// For each chunk by which records may give back less than they took, while few of a block are gone: a unit of each MiB.
const BYTES_PER_CHUNK_OF_SLACK: u64 = 16 << 10;

/// Chunks of each block by which leaves that are written anew, with fewer keys than before, may take more than they give back: blocks
/// count in whole units what they hold, those that lose leaves as well as those that get them.
const CHUNKS_OF_SLACK_PER_BLOCK: u64 = 96;

/// What a `put` takes, and what must be left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Records in a `put`.
    pub records: usize,
    /// Bytes of their values.
    pub bytes: usize,
    /// What only deletes may use: a full store must be able to delete, any number of records at once, and in an ordered
    /// namespace that writes nodes.
    pub reserve: Footprint,
    /// The same beside it, once there is an ordered namespace.
    pub leaf_slack: Footprint,
}

impl Limits {
    /// Those of a drive.
    pub fn of(device: &Device) -> Limits {
        let put = device.limits().key_value;
        let capacity_bytes = device.profile().capacity_bytes;
        let slack = Footprint { chunks: capacity_bytes / BYTES_PER_CHUNK_OF_SLACK, entries: 0 };
        let geometry = device.profile().geometry().expect("the drive has one");
        let block_bytes = u64::from(geometry.units_per_block()) * UNIT_BYTES as u64;
        let blocks = capacity_bytes / block_bytes + u64::from(geometry.planes());
        let log = Footprint {
            chunks: capacity_bytes / BYTES_PER_CHUNK_OF_LOG,
            entries: capacity_bytes / BYTES_PER_RECORD_OF_LOG,
        };
        assert!(
            put.put_records as usize > STEP_SPARE_RECORDS && put.put_bytes as usize >= PART_BYTES,
            "a put of the drive takes {} records of {} bytes: too little for a step",
            put.put_records,
            put.put_bytes
        );
        let step = Footprint::of(0) * put.put_records.into() + Footprint { chunks: STEP_NODES, entries: 0 };
        Limits {
            records: put.put_records as usize,
            bytes: put.put_bytes as usize,
            reserve: log + slack + step,
            leaf_slack: Footprint { chunks: blocks * CHUNKS_OF_SLACK_PER_BLOCK, entries: 0 },
        }
    }

    /// Whether all of these fit in one `put`.
    pub fn hold(&self, records: &Records) -> bool {
        records.len() <= self.records && bytes_of(records) <= self.bytes
    }

    /// Whether the reserve has room for nodes that a `put` of deletes changes.
    pub fn reserve_holds(&self, nodes: Footprint) -> bool {
        nodes.chunks <= STEP_NODES
    }

    /// The most records that a step may change.
    pub fn step_records(&self) -> usize {
        self.records - STEP_SPARE_RECORDS
    }

    /// Whether these are a step, with nodes of these chunks.
    pub fn hold_step(&self, records: &Records, node_chunks: u64) -> bool {
        records.len() <= self.step_records() && bytes_of(records) <= self.bytes && node_chunks <= STEP_NODES
    }
}

/// Bytes of the values of records.
fn bytes_of(records: &Records) -> usize {
    records.iter().map(|(_, value)| value.as_ref().map_or(0, |value| value.len())).sum()
}
