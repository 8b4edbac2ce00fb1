//! Flash that no drive wrote: spare areas, journal pages and checkpoints with arbitrary contents under valid checksums.
//!
//! An image's checksums detect damage. These tests bypass them: whatever recovery is given, it returns either a drive
//! that can be audited or an error, and never panics.

use tantalum_nand::{
    BlockId, MAX_UNITS_PER_PAGE, Nand, PageId, PageState, Source, SplitMix64, UNIT_BYTES, UnitSpare,
    checksum_of,
};

use crate::control::Ftl;
use crate::host_unit::HostUnit;
use crate::metadata::{CheckpointBytes, Facts};
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::units::{KeptChunks, UnitsKept};
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::{Generation, Hint, Lpn, SEQ_LIMIT, Seq, ShareRange};

/// A number below a limit.
fn below(random: &mut SplitMix64, limit: usize) -> usize {
    random.below(limit as u64) as usize
}

/// A drive on which everything has left its traces, some of them after its last checkpoint.
fn worked_on() -> Nand {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    for round in 0..12_u32 {
        for lpn in 0..12 {
            write(&mut ftl, (round * 5 + lpn * 3) % 64, None);
        }
        let ranges = [ShareRange { dst: Lpn(100 + round), src: Lpn((round * 5 + 3) % 64), units: 1 }];
        ftl.share(&ranges, 0).unwrap();
        ftl.trim(Lpn(round), 2, 0).unwrap();
        batch(&mut ftl);
        transaction(&mut ftl, round);
        log(&mut ftl);
        ftl.flush_journal(0).unwrap();
        // the last rounds come after the last checkpoint
        if round < 9 {
            ftl.maintain(0).unwrap();
        }
    }
    ftl.nand_mut().advance(u64::MAX);
    ftl.into_nand()
}

fn host_unit(ftl: &mut Ftl, lpn: u32, hint: Option<Hint>) -> HostUnit {
    let slot = ftl.nand_mut().stage(&[lpn as u8; UNIT_BYTES]).unwrap();
    HostUnit { hint, ..HostUnit::plain(slot, Lpn(lpn), ftl.next_seq()) }
}

fn write(ftl: &mut Ftl, lpn: u32, hint: Option<Hint>) {
    let unit = host_unit(ftl, lpn, hint);
    ftl.write_page(&[unit], 0).unwrap();
}

fn batch(ftl: &mut Ftl) {
    let units: Vec<HostUnit> = (64..70).map(|lpn| host_unit(ftl, lpn, None)).collect();
    ftl.write_batch(&units, &[], 0).unwrap();
}

fn transaction(ftl: &mut Ftl, round: u32) {
    let (tx, _) = ftl.begin_transaction(0).unwrap();
    let slots = [70, 71].map(|lpn| (tx, Lpn(lpn), ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap()));
    ftl.write_transaction_page(&slots, 0).unwrap();
    if round.is_multiple_of(3) {
        ftl.abort(tx);
    } else {
        ftl.commit(tx, 0).unwrap();
    }
}

fn log(ftl: &mut Ftl) {
    let (generation, _) = ftl.begin_log(0).unwrap().unwrap();
    for slot in 1..=4_u32 {
        let home = Some(Lpn(80 + slot));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: slot == 4, home };
        ftl.check_hint(&hint).unwrap();
        ftl.accept_hint(&hint);
        write(ftl, 90 + slot, Some(hint));
    }
}

/// One page as it is on flash.
struct Page {
    page: PageId,
    spares: Vec<UnitSpare>,
    data: Vec<u8>,
}

fn pages_of(nand: &mut Nand) -> Vec<Page> {
    let units = GEOMETRY.units_per_page();
    let mut pages = Vec::new();
    for page in (0..GEOMETRY.pages()).map(PageId) {
        if nand.page_state(page) != PageState::Programmed {
            continue;
        }
        let mut data = vec![0; GEOMETRY.page_bytes as usize];
        for (unit, bytes) in (0..units).zip(data.chunks_mut(UNIT_BYTES)) {
            nand.read(GEOMETRY.unit(page, unit), bytes, 0).unwrap();
        }
        let spares = (0..units).map(|unit| nand.spare(GEOMETRY.unit(page, unit)).unwrap()).collect();
        pages.push(Page { page, spares, data });
    }
    pages
}

/// Programs the pages onto a new medium. Padding becomes a unit of zeros, which reads the same.
fn medium_of(pages: &[Page]) -> Nand {
    let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
    for Page { page, spares, data } in pages {
        let block = GEOMETRY.block_of(*page);
        assert_eq!(
            GEOMETRY.page(block, nand.next_page(block)),
            *page,
            "blocks are filled from their first page"
        );
        let mut sources = [Source::Padding; MAX_UNITS_PER_PAGE];
        for (source, unit) in sources.iter_mut().zip(data.chunks(UNIT_BYTES)) {
            *source = Source::Staged(nand.stage(unit).unwrap());
        }
        nand.program(*page, &sources[..spares.len()], spares, 0).unwrap();
    }
    nand.advance(u64::MAX);
    nand
}

/// Recovers, and audits the drive. Returns whether recovery succeeded.
fn recovers(nand: Nand) -> bool {
    let Ok((mut ftl, _)) = Ftl::recover(nand, CONFIG, 0) else { return false };
    let mut audit = ftl.audit_maps();
    ftl.audit_units(0..CONFIG.logical_units, 0, &mut audit).unwrap();
    true
}

fn put_back(bytes: &mut [u8], at: usize, random: &mut SplitMix64) {
    match below(random, 3) {
        0 => bytes[at] ^= 1 << below(random, 8),
        1 => bytes[at] = random.next_u64() as u8,
        _ => bytes[at] = 0xFF,
    }
}

/// Draws pages with forged bytes and counts how many yield a drive.
fn try_many(count: u64, forge: impl Fn(&mut Vec<Page>, &mut SplitMix64)) -> (u64, u64) {
    let mut original = worked_on();
    let mut recovered = 0;
    for seed in 0..count {
        println!("seed {seed}");
        let mut pages = pages_of(&mut original);
        forge(&mut pages, &mut SplitMix64(seed));
        recovered += u64::from(recovers(medium_of(&pages)));
    }
    (recovered, count - recovered)
}

#[test]
fn what_a_drive_wrote_recovers() {
    assert_eq!(try_many(1, |_, _| {}), (1, 0));
}

#[test]
fn forged_spare_areas_are_an_error_or_a_drive() {
    let (recovered, refused) = try_many(600, |pages, random| {
        for _ in 0..1 + below(random, 3) {
            let page = below(random, pages.len());
            let unit = below(random, pages[page].spares.len());
            // everything except the metadata
            let at = below(random, 96);
            put_back(&mut pages[page].spares[unit], at, random);
        }
    });
    assert!(recovered > 0 && refused > 0, "{recovered} recovered, {refused} refused");
}

#[test]
fn forged_journal_pages_are_an_error_or_a_drive() {
    let (recovered, refused) = try_many(400, |pages, random| {
        let mut journal: Vec<(Seq, usize)> = (0..pages.len())
            .filter_map(|page| Some((Spare::decode(&pages[page].spares[0])?, page)))
            .filter(|(spare, _)| spare.kind == Kind::Journal)
            .map(|(spare, page)| (spare.step, page))
            .collect();
        journal.sort_unstable();
        let newest = journal.split_off(journal.len() - 3);
        for _ in 0..1 + below(random, 3) {
            let page = &mut pages[newest[below(random, newest.len())].1];
            // the head and the first records
            let at = below(random, 120);
            put_back(&mut page.data, at, random);
        }
    });
    assert!(recovered > 0 && refused > 0, "{recovered} recovered, {refused} refused");
}

#[test]
fn forged_checkpoints_are_an_error_or_a_drive() {
    let (recovered, refused) = try_many(400, |pages, random| {
        let parts = newest_checkpoint(pages);
        let mut bytes: Vec<u8> = parts.iter().flat_map(|page| pages[*page].data.clone()).collect();
        let length = 24 + u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
        for _ in 0..1 + below(random, 3) {
            let at = 24 + below(random, length - 24);
            put_back(&mut bytes[..length], at, random);
        }
        let checksum = checksum_of(&bytes[24..length]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        for (page, data) in parts.into_iter().zip(bytes.chunks(GEOMETRY.page_bytes as usize)) {
            pages[page].data.copy_from_slice(data);
        }
    });
    assert!(recovered > 0 && refused > 0, "{recovered} recovered, {refused} refused");
}

/// Entries beyond the flash, chunks twice, hints beyond the last slot: each is refused by itself.
#[test]
fn a_checkpoint_that_no_drive_can_have_written_is_known() {
    let sound = UnitsKept { chunks: KeptChunks::of(&[(0, vec![1, 0, 512])]), ..UnitsKept::default() };
    let is_possible = |kept: &UnitsKept| kept.is_possible(128, GEOMETRY.units());
    assert!(is_possible(&sound));
    for entries in [vec![513], vec![u32::MAX], vec![0; 129]] {
        assert!(!is_possible(&UnitsKept { chunks: KeptChunks::of(&[(0, entries)]), ..sound.clone() }));
    }
    let chunk = (0, vec![1]);
    assert!(!is_possible(&UnitsKept { chunks: KeptChunks::of(&[chunk.clone(), chunk]), ..sound.clone() }));
    assert!(!is_possible(&UnitsKept { chunks: KeptChunks::of(&[(u32::MAX, vec![1])]), ..sound.clone() }));
    assert!(!is_possible(&UnitsKept { versions: vec![(Lpn(128), Seq(1))], ..sound.clone() }));
    assert!(!is_possible(&UnitsKept { runs: vec![(Generation(1), 0, u32::MAX)], ..sound }));
}

/// A checkpoint whose numbers continue beyond the last valid one is refused; the nonexistent open blocks of another one
/// are ignored.
#[test]
fn facts_that_no_drive_can_have_written_are_known() {
    let forge = |change: fn(&mut Facts)| {
        let mut pages = pages_of(&mut worked_on());
        forge_facts(&mut pages, change);
        recovers(medium_of(&pages))
    };
    assert!(forge(|_| {}));
    assert!(forge(|facts| facts.open_blocks[0] = BlockId(u32::MAX)));
    assert!(!forge(|facts| facts.seq = SEQ_LIMIT));
    assert!(!forge(|facts| facts.logical_units += 1));
}

/// Changes the facts of the newest checkpoint.
fn forge_facts(pages: &mut [Page], change: fn(&mut Facts)) {
    let parts = newest_checkpoint(pages);
    let bytes: Vec<u8> = parts.iter().flat_map(|page| pages[*page].data.clone()).collect();
    let (mut facts, rest, _) = Facts::decode(&bytes, 0, None).unwrap();
    change(&mut facts);
    let mut forged = CheckpointBytes::new(true);
    facts.encode(&mut forged);
    forged.extend(rest);
    let mut forged = forged.into_bytes();
    forged.resize(bytes.len(), 0);
    for (page, data) in parts.into_iter().zip(forged.chunks(GEOMETRY.page_bytes as usize)) {
        pages[page].data.copy_from_slice(data);
    }
}

/// Its pages, in the order of its bytes.
fn newest_checkpoint(pages: &[Page]) -> Vec<usize> {
    let part = |page: usize| match Spare::decode(&pages[page].spares[0])? {
        Spare { kind: Kind::Checkpoint, mark: Mark::Batch(part), .. } => Some((part.id, part.index, page)),
        _ => None,
    };
    let mut parts: Vec<(Seq, u32, usize)> = (0..pages.len()).filter_map(part).collect();
    parts.sort_unstable();
    let newest = parts.last().expect("there is a checkpoint").0;
    parts.into_iter().filter(|part| part.0 == newest).map(|part| part.2).collect()
}
