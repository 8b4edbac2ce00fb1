//! Checkpoints: making everything durable in one step.

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_canaries::guard;
use tantalum_filesystem::FileId;

use super::layout::ANCHORS;
use super::summary::What;
use super::super_root::{Anchor, MOST_ORPHAN_UNITS, SuperRoot};
use super::{CheckpointDelta, Tree};
use crate::bytes::{put32, zeros};
use crate::error::Result;
use crate::segments::Log;

/// Segments of log after an anchor after which the next checkpoint writes a new anchor.
const ANCHOR_SEGMENTS: u32 = 4;

impl Tree {
    /// Continues from a super root: loads the table, and how much of each segment lives.
    pub(super) fn load_super_root(&mut self, log: &mut Log, root: SuperRoot) -> Result<()> {
        self.number = root.number;
        self.files_root = root.root;
        self.epoch = root.epoch;
        self.snapshots = root.snapshots;
        self.last_file = root.last_file;
        self.files = root.files;
        self.last_number = root.last_number;
        self.node_count = root.nodes;
        self.shared_nodes = root.shared_nodes;
        self.table.load(log, &root.branches)?;
        let most = log.segments.units();
        for segment in 0..log.segments.count() {
            let entry = self.layout.entry_of_segment(segment);
            let [live, low, high] = self.table.get(log, entry)?;
            let apart = log.segments.get(segment).apart;
            log.segments.load(segment, live.min(most - apart), u64::from(high) << 32 | u64::from(low));
        }
        log.segments.load_clock(root.clock, root.reserved);
        Ok(())
    }

    /// Makes everything durable; see the invariants of [`super`].
    pub(super) fn take_checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()> {
        self.write_nodes(log)?;
        for segment in log.segments.take_changed() {
            let entry = log.segments.get(segment);
            // A mount recounts the table's own units: otherwise writing them would change the table.
            let words = [entry.live - entry.apart, entry.written as u32, (entry.written >> 32) as u32];
            self.table.set(log, self.layout.entry_of_segment(segment), words)?;
        }
        self.table.store(log, &mut self.partial)?;
        let left = self.nodes.changed();
        assert!(left.is_empty(), "checkpoint {} leaves nodes {left:?} out", self.number + 1);
        let summary = self.write_super_root(log, orphans)?;
        let is_anchored = is_last
            || self.number == 0
            || log.segments.waiting_segments() > 0
            || self.partial.segments_begun() > ANCHOR_SEGMENTS;
        match is_anchored {
            true => guard!(AnchorBeforeSuperRoot(log)?, self.partial.write_durably(log)?),
            false => self.partial.write_durably(log)?,
        }
        self.number += 1;
        if is_anchored {
            let anchor = Anchor { number: self.number, summary };
            log.write(ANCHORS[(self.number % 2) as usize], &anchor.encode()[..], true)?;
            log.written.roots += 1;
            self.partial.anchored();
        }
        let waiting = log.segments.waiting_segments();
        assert!(
            is_anchored || waiting == 0,
            "checkpoint {} without an anchor frees {waiting} segments that a mount may read",
            self.number
        );
        self.quarantined = 0;
        self.since = CheckpointDelta::default();
        self.claimed.clear();
        self.is_recovering = false;
        self.table.forget_some();
        Ok(())
    }

    /// Ends the checkpoint's partial segment with files without names, which are in the same segment, and the super root.
    fn write_super_root(&mut self, log: &mut Log, orphans: &[FileId]) -> Result<Lpn> {
        let lists = orphans.chunks(UNIT_BYTES / 4);
        assert!(
            lists.len() <= MOST_ORPHAN_UNITS,
            "{} files without names take {} units, and a super root names {MOST_ORPHAN_UNITS}",
            orphans.len(),
            lists.len()
        );
        self.partial.ensure_room(log, lists.len() + 1)?;
        let mut orphan_units = [Lpn(0); MOST_ORPHAN_UNITS];
        for (list, lpn) in lists.zip(&mut orphan_units) {
            let mut page = zeros();
            list.iter().enumerate().for_each(|(index, file)| put32(&mut page[..], 4 * index, file.0));
            *lpn = self.partial.append(log, What::Orphans, &page)?;
        }
        let root = SuperRoot {
            number: self.number + 1,
            clock: log.segments.clock(),
            // Promises for contents in memory go with them.
            reserved: log.segments.reserved().saturating_sub(self.promised.len() as u64),
            root: self.files_root,
            epoch: self.epoch,
            last_file: self.last_file,
            files: self.files,
            last_number: self.last_number,
            nodes: self.node_count,
            shared_nodes: self.shared_nodes,
            orphans: orphans.len() as u32,
            orphan_units,
            snapshots: self.snapshots.clone(),
            branches: self.table.branches().to_vec(),
        };
        let lpn = self.partial.append(log, What::SuperRoot, &root.encode())?;
        let summary = self.partial.seal(log, None)?;
        assert_eq!(summary.0, lpn.0 + 1, "the anchor finds the super root at {lpn} before its summary");
        Ok(summary)
    }
}
