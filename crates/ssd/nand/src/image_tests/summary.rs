//! The summary of page records that a clean shutdown leaves: opening finds what the records say, whether it is believed or not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tantalum_image::layout::Layout;
use tantalum_image::{
    Access, BlockId, HostCall, HostFailure, HostFault, MOVED, Mapping, MediumError, NandError, PageId,
    PageState, Ppn, REDO_LOG_BYTES, SplitMix64, TestHost, UNIT_SPARE_BYTES,
};

use crate::faults::Faults;
use crate::nand::Nand;
use crate::operations::Source;
use crate::test_support::{GEOMETRY, TIMING, data, program, read_tag, spare};

const PAGES: u32 = GEOMETRY.pages_per_block;

/// The summary's place in the redo log.
const SUMMARY_AT: u64 = 512;

fn layout() -> Layout {
    Layout::new(&GEOMETRY, 0, 0, REDO_LOG_BYTES)
}

fn summary_at() -> u64 {
    layout().log.unwrap().log_at + SUMMARY_AT
}

fn create(folder: &tempfile::TempDir, seed: u64) -> (PathBuf, TestHost) {
    let path = folder.path().join("drive.tantalum");
    drop(Nand::create(&path, GEOMETRY, TIMING, "a drive", 0).unwrap());
    (path, TestHost::new(Mapping::Never, seed))
}

fn open(path: &Path, host: &TestHost) -> Nand {
    Nand::open_on(path, Access::Ordered, host).unwrap()
}

/// An image with one page, which was shut down cleanly.
fn closed(folder: &tempfile::TempDir) -> (PathBuf, TestHost) {
    let (path, host) = create(folder, 1);
    let mut nand = open(&path, &host);
    program(&mut nand, 0, [1, 2], 0);
    nand.leave_summary().unwrap();
    (path, host)
}

fn write_at(path: &Path, bytes: &[u8], at: u64) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn read_at(path: &Path, bytes: usize, at: u64) -> Vec<u8> {
    let mut found = vec![0; bytes];
    File::open(path).unwrap().read_exact_at(&mut found, at).unwrap();
    found
}

/// Programs the next page of a random block, or erases a full one; some of the units are copies.
fn work(nand: &mut Nand, random: &mut SplitMix64, tag: &mut u64) {
    let block = BlockId(random.below(GEOMETRY.blocks().into()) as u32);
    if nand.is_bad(block) {
        return;
    }
    let next = nand.next_page(block);
    if next == PAGES {
        // a block of which an erase failed is not used again
        if nand.erase(block, 0).is_err() {
            nand.retire(block).unwrap();
        }
        return;
    }
    let owned = |entry: &u32| *entry != 0 && *entry & MOVED == 0;
    let mut sources = [Source::Padding; 2];
    for source in &mut sources {
        *tag += 1;
        let first = random.below(GEOMETRY.units().into()) as usize;
        let from = (first..GEOMETRY.units() as usize).find(|ppn| owned(&nand.slot_of[*ppn]));
        *source = match from {
            Some(from) if random.below(3) == 0 && nand.is_readable(Ppn(from as u32)) => {
                Source::Copy(Ppn(from as u32))
            }
            _ if random.below(8) == 0 => Source::Padding,
            _ => Source::Staged(nand.stage(&data(*tag)).unwrap()),
        };
    }
    if let [Source::Copy(one), Source::Copy(other)] = sources
        && one == other
    {
        sources[1] = Source::Padding;
    }
    // a failed program leaves an uncorrectable page
    let _ = nand.program(GEOMETRY.page(block, next), &sources, &[spare(*tag); 2], 0);
}

/// A medium after random work, a part of which is synced.
fn worked(path: &Path, host: &TestHost, seed: u64) -> Nand {
    let (mut nand, mut random, mut tag) = (open(path, host), SplitMix64(seed), 0);
    if seed.is_multiple_of(3) {
        let (program_failure_ppm, erase_failure_ppm) = (100_000, 300_000);
        nand.set_faults(Faults { seed, program_failure_ppm, erase_failure_ppm, ..Faults::default() });
    }
    for _ in 0..random.below(120) {
        work(&mut nand, &mut random, &mut tag);
        if random.below(10) == 0
            && let Some(sync) = nand.sync_begin().unwrap()
        {
            sync.run().unwrap();
            nand.sync_end().unwrap();
        }
    }
    nand
}

type Contents = (Vec<(PageState, Vec<u8>)>, Vec<(u32, u32, bool)>, Vec<Option<u64>>);

/// All that can be seen of a medium. Of units whose slots moved on nothing can be.
fn contents(nand: &mut Nand, owned: &[bool]) -> Contents {
    let mut pages = Vec::new();
    for page in (0..GEOMETRY.pages()).map(PageId) {
        let mut spares = [[0; UNIT_SPARE_BYTES]; 2];
        let state = nand.read_spares(page, &mut spares, 0).unwrap().0;
        pages.push((state, spares.concat()));
    }
    let blocks = (0..GEOMETRY.blocks()).map(BlockId);
    let blocks = blocks.map(|block| (nand.next_page(block), nand.erase_count(block), nand.is_bad(block)));
    let blocks = blocks.collect();
    let tags = (0..GEOMETRY.units())
        .map(|ppn| (owned[ppn as usize] && nand.is_readable(Ppn(ppn))).then(|| read_tag(nand, ppn)));
    let tags = tags.collect();
    (pages, blocks, tags)
}

fn owned(nand: &Nand) -> Vec<bool> {
    nand.slot_of.iter().map(|entry| *entry != 0 && *entry & MOVED == 0).collect()
}

/// What a reading of all page records finds.
fn contents_by_records(path: &Path, owned: &[bool]) -> Contents {
    contents(&mut Nand::examine(path, Access::Overlay).unwrap().0, owned)
}

/// How many calls opening takes to read, and the medium.
fn opened(path: &Path, host: &TestHost) -> (usize, Nand) {
    let before = host.faults.call_count();
    let nand = open(path, host);
    (host.faults.calls_since(before).into_iter().filter(|call| *call == HostCall::Read).count(), nand)
}

#[test]
fn opening_finds_in_the_summary_what_the_page_records_say_and_does_not_read_them() {
    let (mut moved, mut spoiled) = (0, 0);
    for seed in 0..90 {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = create(&folder, seed);
        let mut nand = worked(&path, &host, seed);
        nand.leave_summary().unwrap();
        let owned = owned(&nand);
        let expected = contents(&mut nand, &owned);
        moved += nand.slot_of.iter().filter(|entry| **entry & MOVED != 0).count();
        spoiled += expected.0.iter().filter(|page| page.0 == PageState::Uncorrectable).count();
        drop(nand);
        assert!(expected == contents_by_records(&path, &owned), "seed {seed}: records");
        let (reads, mut nand) = opened(&path, &host);
        assert!(expected == contents(&mut nand, &owned), "seed {seed}: summary");
        let (slots, operations) = (nand.slots_in_use(), nand.operations());
        drop(nand);
        write_at(&path, &[0; 48], summary_at());
        let (reads_without, nand) = opened(&path, &host);
        let with_pages = expected.1.iter().filter(|block| block.0 > 0 && !block.2).count();
        assert!(
            reads < reads_without || with_pages < 4,
            "seed {seed}: {reads} reads, {reads_without} without"
        );
        assert!(slots <= nand.slots_in_use(), "seed {seed}: slots that nobody names are in use");
        assert!(
            operations >= nand.operations(),
            "seed {seed}: a later program would seem to be an earlier one"
        );
    }
    assert!(moved > 100 && spoiled > 50, "{moved} units moved, {spoiled} pages are uncorrectable");
}

/// As a program does that knows no summaries, killed anywhere: also between the record and the second tally, when what the
/// summary says still adds up to the first.
#[test]
fn a_summary_of_an_image_that_was_changed_since_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = closed(&folder);
    let as_closed = std::fs::read(&path).unwrap();
    let mut programmed = [0; 2];
    for stores in 0.. {
        std::fs::write(&path, &as_closed).unwrap();
        let host = TestHost::new(Mapping::Never, stores);
        let mut nand = Nand::open_on(&path, Access::Write, &host).unwrap();
        host.life.end_after(Some(stores));
        let slots = [3, 4].map(|tag| nand.stage(&data(tag)));
        if let [Ok(one), Ok(other)] = slots {
            let sources = [Source::Staged(one), Source::Staged(other)];
            let _ = nand.program(PageId(1), &sources, &[3, 4].map(spare), 0);
        }
        let is_over = host.life.is_over();
        host.life.end();
        drop(nand);
        let (mut nand, _) = Nand::examine(&path, Access::Overlay).unwrap();
        let owned = owned(&nand);
        let expected = contents(&mut nand, &owned);
        drop(nand);
        let mut nand = Nand::open_as(&path, Access::Overlay).unwrap();
        assert!(expected == contents(&mut nand, &owned), "killed after {stores} stores");
        programmed[usize::from(expected.0[1].0 == PageState::Programmed)] += 1;
        if !is_over {
            break;
        }
    }
    assert!(programmed.iter().all(|count| *count > 1), "{programmed:?}");
}

#[test]
fn a_damaged_summary_is_ignored() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = create(&folder, seed);
        let mut nand = worked(&path, &host, 4 + 3 * seed);
        nand.leave_summary().unwrap();
        let owned = owned(&nand);
        drop(nand);
        let expected = contents_by_records(&path, &owned);
        let bytes = read_at(&path, 48, summary_at())[12..16].try_into().unwrap();
        let bytes = 48 + u64::from(u32::from_le_bytes(bytes));
        assert!(bytes > 200, "seed {seed}: {bytes} bytes");
        let as_closed = std::fs::read(&path).unwrap();
        for at in (0..bytes).step_by(3) {
            let byte = as_closed[(summary_at() + at) as usize];
            write_at(&path, &[byte ^ 1 << (at % 8)], summary_at() + at);
            let mut nand = Nand::open_as(&path, Access::Overlay).unwrap();
            assert!(expected == contents(&mut nand, &owned), "seed {seed}: byte {at}");
            write_at(&path, &[byte], summary_at() + at);
        }
    }
}

/// Nobody looked at the page records when the image was opened.
#[test]
fn damaged_page_records_are_noticed_when_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = create(&folder, 1);
    let mut nand = open(&path, &host);
    for page in 0..3 {
        program(&mut nand, page, [10, 20], 0);
    }
    nand.erase(BlockId(1), 0).unwrap();
    nand.leave_summary().unwrap();
    drop(nand);
    let record_at = layout().page_at(PageId(1));
    let record = read_at(&path, layout().page_record_bytes, record_at);
    let mut flipped = record.clone();
    flipped[100] ^= 1;
    for damaged in [flipped, vec![0; record.len()]] {
        write_at(&path, &damaged, record_at);
        let mut nand = open(&path, &host);
        let mut spares = [[0; UNIT_SPARE_BYTES]; 2];
        nand.read_spares(PageId(0), &mut spares, 0).unwrap();
        let is_damage = |error: NandError| matches!(error, NandError::PageRecords { block: BlockId(0) });
        assert!(is_damage(nand.read_spares(PageId(1), &mut spares, 0).unwrap_err()));
        assert!(is_damage(nand.block_spares(BlockId(0), &mut Vec::new()).map(drop).unwrap_err()));
        assert!(is_damage(nand.block_spare_ends(BlockId(0), &mut Vec::new()).map(drop).unwrap_err()));
        assert_eq!(read_tag(&mut nand, 2), 10, "the data are there");
        drop(nand);
        assert!(!Nand::examine(&path, Access::Overlay).unwrap().1.findings.is_empty());
    }
}

/// An old entry of a block has a right checksum, and what the summary says of the block would be believed.
#[test]
fn a_block_entry_that_was_put_back_to_an_older_one_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = create(&folder, 1);
    let mut nand = open(&path, &host);
    program(&mut nand, 0, [1, 2], 0);
    nand.sync_in_place().unwrap();
    let older = read_at(&path, 32, layout().block_at(BlockId(0)));
    nand.erase(BlockId(0), 0).unwrap();
    program(&mut nand, 0, [3, 4], 0);
    nand.leave_summary().unwrap();
    drop(nand);
    write_at(&path, &older, layout().block_at(BlockId(0)));
    assert!(matches!(Nand::open(&path), Err(MediumError::Tally { .. })));
}

/// Whatever fails while an image is closed, and if the machine is lost then, it is as it was synced.
#[test]
fn a_host_that_fails_while_an_image_is_closed_loses_nothing() {
    let mut found = [0; 2];
    for seed in 0..12 {
        for after in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let (path, host) = create(&folder, seed);
            let mut nand = worked(&path, &host, 1 + 3 * seed);
            if let Some(sync) = nand.sync_begin().unwrap() {
                sync.run().unwrap();
                nand.sync_end().unwrap();
            }
            let owned = owned(&nand);
            let expected = contents(&mut nand, &owned);
            let failure = [HostFailure::NoSpace, HostFailure::Io][after as usize % 2];
            host.faults.fail(HostFault { after: after / 2, failure, lasts: after % 4 < 2 });
            let _ = nand.leave_summary();
            let is_over = host.faults.armed().is_some() && host.faults.failed().is_none();
            drop(nand);
            host.faults.heal();
            if after % 3 > 0 {
                host.faults.lose_machine(&path).unwrap();
            }
            assert!(expected == contents_by_records(&path, &owned), "seed {seed}, call {after}: records");
            let has_summary = read_at(&path, 8, summary_at()) == *b"TANTSUM1";
            assert!(expected == contents(&mut open(&path, &host), &owned), "seed {seed}, call {after}");
            found[usize::from(has_summary)] += 1;
            if is_over {
                break;
            }
        }
    }
    assert!(found.iter().all(|count| *count > 20), "{found:?}");
}

/// The lost machine had written the records, and not the page of the host's cache with the tally. The summary knew nothing of the
/// records, and what an ordered session then made durable was refused after it was killed.
#[test]
fn what_a_lost_machine_leaves_of_a_session_without_a_log_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = closed(&folder);
    let tally_page = read_at(&path, 4096, 0);
    let mut nand = Nand::open_as(&path, Access::Write).unwrap();
    program(&mut nand, 1, [3, 4], 0);
    drop(nand);
    write_at(&path, &tally_page, 0);
    let refused = Nand::open_on(&path, Access::Ordered, &host).map(drop).unwrap_err();
    assert!(matches!(refused, MediumError::Tally { .. }), "{refused}");
}

/// The summary is ended on the disk, or the image is not opened for such a session.
#[test]
fn a_session_without_a_log_that_cannot_end_the_summary_does_not_begin() {
    let mut refused = 0;
    for after in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = closed(&folder);
        host.faults.fail(HostFault { after, failure: HostFailure::Io, lasts: false });
        let opened = Nand::open_on(&path, Access::Write, &host);
        let failed = host.faults.failed();
        host.faults.heal();
        if opened.is_ok() {
            drop(opened);
            host.faults.lose_machine(&path).unwrap();
            assert_eq!(read_at(&path, 8, summary_at()), [0; 8], "call {after}: {failed:?}");
        }
        refused += u32::from(failed == Some(HostCall::Sync));
        if failed.is_none() {
            break;
        }
    }
    assert_eq!(refused, 1);
}
