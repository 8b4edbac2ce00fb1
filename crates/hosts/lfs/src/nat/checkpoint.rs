//! Checkpoints: making the whole index durable in one step.

use tantalum::UNIT_BYTES;
use tantalum_canaries::guard;
use tantalum_filesystem::FileId;

use super::Nat;
use super::heads::FILE_NODES;
use super::layout::Layout;
use super::pack::{HeadPosition, Pack};
use crate::error::Result;
use crate::segments::Log;

impl Nat {
    /// Continues from a pack: loads both tables, and how much of each segment lives.
    pub(super) fn load_pack(&mut self, log: &mut Log, pack: &Pack) -> Result<()> {
        self.places.load(&pack.node_places);
        self.segment_table.load(&pack.segment_places);
        self.version = pack.version;
        self.last_node = pack.last_node;
        self.nodes_in_use = pack.nodes_in_use;
        self.files = pack.files;
        let most = log.segments.units();
        for segment in 0..log.segments.count() {
            let [live, low, high] = self.segment_table.get(log, segment)?;
            log.segments.load(segment, live.min(most), u64::from(high) << 32 | u64::from(low));
        }
        log.segments.load_clock(pack.clock, pack.reserved);
        Ok(())
    }

    /// Makes everything durable; see the invariants of [`super`].
    pub(super) fn take_checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()> {
        let changed: Vec<u32> = self.nodes.changed().iter().map(|(_, number)| *number).collect();
        for number in changed {
            self.append_node(log, number, false)?;
        }
        let left = self.nodes.changed();
        assert!(left.is_empty(), "checkpoint {} leaves nodes {left:?} out", self.version + 1);
        // A mount must know where the chain begins.
        log.ensure_position(FILE_NODES)?;
        for segment in log.segments.take_changed() {
            let entry = log.segments.get(segment);
            let words = [entry.live, entry.written as u32, (entry.written >> 32) as u32];
            self.segment_table.set(log, segment, words)?;
        }
        self.summaries.store(log)?;
        self.places.store(log)?;
        self.segment_table.store(log)?;
        guard!(PackBeforeTables(log)?, log.flush()?);
        let pack = self.pack(log, orphans, is_last);
        let version = guard!(PackInPlace, pack.version);
        assert_eq!(
            log.segments.changed_count(),
            0,
            "segments changed after their table was written for checkpoint {}",
            pack.version
        );
        let bytes = pack.encode();
        let (units, most) = (bytes.len().div_ceil(UNIT_BYTES), self.layout.pack_units as usize);
        assert!(units <= most, "pack {} has {units} units, and room for {most}", pack.version);
        log.write(Pack::place(version, &self.layout), &bytes, true)?;
        log.written.roots += (bytes.len() / UNIT_BYTES) as u64;
        self.version = pack.version;
        self.places.checkpointed();
        self.segment_table.checkpointed();
        self.lost_nodes.clear();
        self.freed.clear();
        self.chained = 0;
        self.is_recovering = false;
        Ok(())
    }

    fn pack(&self, log: &Log, orphans: &[FileId], is_last: bool) -> Pack {
        let position = |head: usize| {
            let head = &log.heads()[head];
            HeadPosition { segment: head.segment, used: head.used, following: head.following }
        };
        Pack {
            version: self.version + 1,
            clock: log.segments.clock(),
            reserved: log.segments.reserved(),
            last_node: self.last_node,
            nodes_in_use: self.nodes_in_use,
            files: self.files,
            is_last,
            heads: std::array::from_fn(position),
            segment_places: self.segment_table.places(),
            node_places: self.places.places(),
            orphans: orphans.to_vec(),
        }
    }

    /// The layout of the drive.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }
}
