//! What a file system wrote, from its counters and its drive's.

use tantalum::Nanoseconds;
use tantalum_filesystem::FileSystem;
use tantalum_lfs::{LogFs, SyncCounters, WrittenCounters};

/// What a file system and its drive have done so far.
#[derive(Clone, Copy)]
pub struct Done {
    pub host_units: u64,
    pub read_units: u64,
    /// What the file system wrote, by kind.
    pub written: WrittenCounters,
    pub flash_units: u64,
    pub content_units: u64,
    pub syncs: SyncCounters,
    pub now_ns: Nanoseconds,
}

impl Done {
    pub fn by(fs: &LogFs) -> Done {
        let device = fs.client().device();
        let counters = device.smart().counters;
        let flash_units = counters.flash_units.total();
        drop(device);
        Done {
            host_units: counters.host_units_written,
            read_units: counters.host_units_read,
            written: fs.written(),
            flash_units,
            content_units: fs.content_units_written(),
            syncs: fs.syncs(),
            now_ns: fs.client().now_ns(),
        }
    }
}

/// What syncs cost between two moments, for the tables.
pub struct Cost {
    pub amplification: f64,
    /// Per unit of contents: units of the index (of these, nodes and summaries), and flash units programmed.
    pub index: f64,
    pub nodes: f64,
    pub summaries: f64,
    pub flash: f64,
    /// The percentage of syncs that wrote only contents.
    pub listed_percent: f64,
    pub checkpoints: f64,
}

impl Cost {
    pub fn between(before: Done, after: Done) -> Cost {
        let contents = (after.content_units - before.content_units) as f64;
        let amplification = (after.host_units - before.host_units) as f64 / contents;
        let listed = (after.syncs.listed - before.syncs.listed) as f64;
        let indexed = (after.syncs.indexed - before.syncs.indexed) as f64;
        Cost {
            amplification,
            index: amplification - 1.0,
            nodes: (after.written.nodes - before.written.nodes) as f64 / contents,
            summaries: (after.written.summaries - before.written.summaries) as f64 / contents,
            flash: (after.flash_units - before.flash_units) as f64 / contents,
            listed_percent: 100.0 * listed / (listed + indexed).max(1.0),
            checkpoints: (after.syncs.checkpoints - before.syncs.checkpoints) as f64,
        }
    }
}
