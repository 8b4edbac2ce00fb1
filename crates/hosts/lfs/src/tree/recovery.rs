//! What a mount reads: the anchor, the super root that it names, and the log after that.
//!
//! The log after the anchored super root is followed as long as partial segments are complete. The last super root found
//! counts. After it, contents and inodes of a file count up to its last sync.

use std::collections::BTreeMap;

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_canaries::guard;
use tantalum_drive::Client;
use tantalum_filesystem::FileId;
use tantalum_image::checksum_with;

use super::files::FILES;
use super::layout::{ANCHORS, Layout};
use super::lists::Behind;
use super::partial_segment::PartialSegment;
use super::summary::{Summary, What};
use super::super_root::{Anchor, SuperRoot};
use super::translation::Number;
use super::{HEAD, Tree};
use crate::bytes::{Page, get32, zeros};
use crate::error::{Damage, LfsError, Result};
use crate::index::Opened;
use crate::inode::INODE_BYTES;
use crate::segments::Log;

/// The log as a mount found it.
struct Found {
    root: SuperRoot,
    /// Partial segments after the super root, in order.
    behind: Vec<Summary>,
    /// Segments that a second recovery would read.
    segments: Vec<u32>,
    /// The checksum of the last summary, and where the log continues.
    end: (u32, Lpn),
}

/// A partial segment, with its own checksum.
struct Whole {
    summary: Summary,
    checksum: u32,
    /// The unit before the summary.
    last: Box<Page>,
}

impl Tree {
    /// The index according to the last checkpoint and the log after it. The caller takes a checkpoint before anything
    /// else is written.
    pub fn open(client: Client) -> Result<Opened> {
        let layout = Layout::plan(client.device().limits().capacity_units)?;
        let (mut log, mut tree) = (Tree::log(client, &layout), Tree::new(layout));
        let found = tree.find_log(&mut log)?;
        let orphans = read_orphans(&mut log, &found.root)?;
        tree.load_super_root(&mut log, found.root)?;
        found.segments.iter().for_each(|segment| log.segments.hold(*segment));
        let nameless = tree.roll_forward(&mut log, &found.behind)?;
        let (previous, next) = found.end;
        tree.partial = PartialSegment::after(previous, found.segments.len() as u32 - 1);
        let segment = log.segments.find(next).ok_or(LfsError::Damaged { lpn: next, damage: NO_SUMMARY })?;
        let used = next.0 - log.segments.first_lpn(segment).0;
        log.continue_head(HEAD, Some(segment), used, None);
        tree.behind = Behind::new(&found.behind, next);
        Ok(Opened { log, index: Box::new(tree), orphans, nameless })
    }

    /// The index of a snapshot, read-only.
    pub fn open_snapshot(client: Client, number: u32) -> Result<Opened> {
        let layout = Layout::plan(client.device().limits().capacity_units)?;
        let (mut log, mut tree) = (Tree::log(client, &layout), Tree::new(layout));
        let found = tree.find_log(&mut log)?;
        tree.load_super_root(&mut log, found.root)?;
        let mut readable = tree.snapshots.iter().filter(|one| !one.is_going);
        let Some(one) = readable.find(|one| one.snapshot.number == number) else {
            return Err(LfsError::NoSnapshot { number });
        };
        (tree.files_root, tree.files) = (one.root, one.snapshot.files);
        tree.mounted_snapshot = Some(number);
        Ok(Opened { log, index: Box::new(tree), orphans: Vec::new(), nameless: Vec::new() })
    }

    fn find_log(&mut self, log: &mut Log) -> Result<Found> {
        let Some(anchor) = newest_anchor(log)? else {
            let damage = Damage::NotA { expected: "an anchor, here or in the other place" };
            return Err(LfsError::Damaged { lpn: ANCHORS[0], damage });
        };
        let (summary, checksum, last) = anchored(log, anchor)?;
        let at = |lpn: Lpn| move |damage| LfsError::Damaged { lpn, damage };
        let root = SuperRoot::decode(&last, self.layout.branches).map_err(at(anchor.summary))?;
        let segments = log.segments.find(anchor.summary).into_iter().collect();
        let mut found = Found { root, behind: Vec::new(), segments, end: (checksum, summary.next) };
        let most = u64::from(log.segments.units()) * u64::from(log.segments.count());
        for _ in 0..most {
            let Some(whole) = next_partial(log, found.end)? else { break };
            let place = Lpn(whole.summary.start.0 + whole.summary.entries.len() as u32);
            found.segments.extend(log.segments.find(place));
            found.segments.dedup();
            found.end = (whole.checksum, whole.summary.next);
            if whole.summary.has_super_root() {
                found.root = SuperRoot::decode(&whole.last, self.layout.branches).map_err(at(place))?;
                found.behind.clear();
            } else {
                found.behind.push(whole.summary);
            }
        }
        found.segments.extend(log.segments.find(found.end.1));
        found.segments.dedup();
        Ok(found)
    }

    /// Applies what was synced after the super root. Returns the files that the super root does not have.
    fn roll_forward(&mut self, log: &mut Log, behind: &[Summary]) -> Result<Vec<FileId>> {
        self.is_recovering = true;
        let mut last_syncs = BTreeMap::new();
        for (index, summary) in behind.iter().enumerate() {
            last_syncs.extend(summary.synced.map(|file| (file, index)));
        }
        let mut applied = Vec::new();
        for (index, summary) in behind.iter().enumerate() {
            for (entry, lpn) in summary.entries.iter().zip((summary.start.0..).map(Lpn)) {
                if let What::Content { number, .. } | What::Moved { number, .. } = entry.what {
                    self.claimed.insert(number.0);
                }
                let (What::Content { file, .. } | What::Moved { file, .. } | What::Inode(file)) = entry.what
                else {
                    continue;
                };
                if last_syncs.get(&file).is_some_and(|last| index <= *last) {
                    applied.push((entry.what, lpn));
                }
            }
        }
        // Files come first: their inodes follow their contents.
        let mut nameless = Vec::new();
        for (what, _) in &applied {
            if let What::Inode(file) = *what
                && file != FILES
                && self.root_of(log, file)?.is_none()
            {
                self.add_file(log, file)?;
                nameless.push(file);
            }
        }
        applied.into_iter().try_for_each(|(what, lpn)| self.apply(log, what, lpn))?;
        Ok(nameless)
    }

    fn apply(&mut self, log: &mut Log, what: What, lpn: Lpn) -> Result<()> {
        match what {
            What::Content { file, unit, number } | What::Moved { file, unit, number } => {
                let is_sound = (1..self.layout.numbers).contains(&number.0)
                    && self.root_of(log, file)?.is_some()
                    && self.is_free_for(log, file, unit, number)?;
                match is_sound {
                    true => self.set_contents(log, file, unit, number, lpn),
                    false => Err(LfsError::Damaged { lpn, damage: Damage::NoUnit { number: number.0 } }),
                }
            }
            What::Inode(file) => {
                let root = self.own_root(log, file)?;
                let mut page = zeros();
                log.read(lpn, &mut page[..])?;
                self.change(log, root)?.page[..INODE_BYTES].copy_from_slice(&page[..INODE_BYTES]);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a number stands for a unit of a file, or for nothing.
    pub(super) fn is_free_for(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        number: Number,
    ) -> Result<bool> {
        let is_free = self.find_translation(log, number)?.is_none();
        Ok(is_free || self.number_of(log, file, unit)? == Some(number))
    }
}

/// Units read at once where a partial segment begins.
const LEAST_READ: usize = 8;

const NO_SUMMARY: Damage = Damage::NotA { expected: "a summary of a partial segment with a super root" };

fn newest_anchor(log: &mut Log) -> Result<Option<Anchor>> {
    let mut newest: Option<Anchor> = None;
    for lpn in ANCHORS {
        let mut page = zeros();
        log.read(lpn, &mut page[..])?;
        newest = newest.into_iter().chain(Anchor::decode(&page)).max_by_key(|anchor| anchor.number);
    }
    Ok(newest)
}

/// The partial segment that an anchor names, and its super root.
fn anchored(log: &mut Log, anchor: Anchor) -> Result<(Summary, u32, Box<Page>)> {
    let lpn = anchor.summary;
    let damaged = || LfsError::Damaged { lpn, damage: NO_SUMMARY };
    let first = log.segments.find(lpn).map(|segment| log.segments.first_lpn(segment));
    let (mut page, mut last) = (zeros(), zeros());
    if first.is_none_or(|first| first >= lpn) {
        return Err(damaged());
    }
    log.read(lpn, &mut page[..])?;
    log.read(Lpn(lpn.0 - 1), &mut last[..])?;
    let found = Summary::at(lpn, &page).filter(|(summary, _)| summary.has_super_root());
    found.map(|(summary, checksum)| (summary, checksum, last)).ok_or_else(damaged)
}

/// The partial segment that follows the last one, at the place that it names; `None` if it is not whole.
fn next_partial(log: &mut Log, (previous, start): (u32, Lpn)) -> Result<Option<Whole>> {
    let Some(segment) = log.segments.find(start) else { return Ok(None) };
    let left = (log.segments.first_lpn(segment).0 + log.segments.units() - start.0) as usize;
    let (mut data, mut searched) = (Vec::new(), 0);
    while searched < left {
        // Most partial segments are short.
        let end = (2 * searched).max(LEAST_READ).min(left);
        data.resize(end * UNIT_BYTES, 0);
        log.read(Lpn(start.0 + searched as u32), &mut data[searched * UNIT_BYTES..])?;
        let (pages, _) = data.as_chunks::<UNIT_BYTES>();
        for index in searched..end {
            let found = Summary::at(Lpn(start.0 + index as u32), &pages[index]);
            let follows =
                |(summary, _): &(Summary, u32)| summary.previous == previous && summary.start == start;
            if let Some((summary, checksum)) = found.filter(follows) {
                let described = summary.entries.len();
                assert_eq!(
                    described, index,
                    "the summary behind {index} units from {start} on describes others"
                );
                let last = Box::new(pages[index.saturating_sub(1)]);
                let is_whole = guard!(PartialUnchecked, is_whole(&summary, pages));
                return Ok(is_whole.then_some(Whole { summary, checksum, last }));
            }
        }
        searched = end;
    }
    Ok(None)
}

/// Whether all units that a summary describes are there.
fn is_whole(summary: &Summary, pages: &[Page]) -> bool {
    let written = summary.entries.iter().zip(pages).filter(|(entry, _)| !entry.is_unchecked);
    summary.checksum == written.fold(0, |checksum, (_, page)| checksum_with(checksum, page))
}

fn read_orphans(log: &mut Log, root: &SuperRoot) -> Result<Vec<FileId>> {
    let mut orphans = Vec::new();
    for lpn in root.orphan_units {
        let left = root.orphans as usize - orphans.len();
        if left == 0 {
            break;
        }
        let mut page = zeros();
        log.read(lpn, &mut page[..])?;
        orphans.extend((0..left.min(UNIT_BYTES / 4)).map(|index| FileId(get32(&page[..], 4 * index))));
    }
    let read = orphans.len();
    assert_eq!(read, root.orphans as usize, "super root {} names other orphans than its units", root.number);
    Ok(orphans)
}
