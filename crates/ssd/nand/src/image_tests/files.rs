//! Images in files: what survives the process, who may open them, and what is refused.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;
use zerocopy::{FromBytes, IntoBytes};

use crate::faults::Faults;
use crate::in_flight::{InFlight, Operation, Outcome};
use crate::nand::Nand;
use crate::operations::Source;
use crate::test_support::{GEOMETRY, TIMING, data, program, read_tag, spare};
use tantalum_image::PageState;
use tantalum_image::Slot;
use tantalum_image::layout::Layout;
use tantalum_image::tally::{self, Tally};
use tantalum_image::{Access, ImageFinding, MAX_DESCRIPTION_BYTES, MAX_PROTECTED_BYTES, Mapping, TestHost};
use tantalum_image::{BlockId, Geometry, PageId, Ppn, UNIT_BYTES, UnitSpare, spare_ends};
use tantalum_image::{HostError, MediumError, NandError};

const PROTECTED: u64 = 10_000;

struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Folder {
        Folder { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("drive.tantalum")
    }

    fn create(&self) -> Nand {
        Nand::create(&self.path(), GEOMETRY, TIMING, "a drive", PROTECTED).unwrap()
    }

    /// Opens the image; the previous process has vanished without closing it.
    fn open(&self) -> Nand {
        Nand::open(&self.path()).unwrap()
    }
}

fn write_at(path: &Path, bytes: &[u8], at: u64) {
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn copy(nand: &mut Nand, page: u32, from: u32) {
    nand.program(PageId(page), &[Source::Copy(Ppn(from)), Source::Padding], &[spare(0); 2], 0).unwrap();
}

// -- what survives ----------------------------------------------------------------------------------------------

/// Garbage collection and the erase rule read a block's spare areas at once.
#[test]
fn spare_areas_of_a_block_in_a_file_are_those_of_its_units() {
    let folder = Folder::new();
    let mut nand = folder.create();
    for page in [0, 1, 4, 5] {
        program(&mut nand, page, [10 + u64::from(page), 20 + u64::from(page)], 0);
    }
    for (block, first) in [(0, 0), (1, 8)] {
        let expected: Vec<(Ppn, UnitSpare)> =
            (first..first + 4).map(|ppn| (Ppn(ppn), nand.spare(Ppn(ppn)).unwrap())).collect();
        let mut scratch = Vec::new();
        let spares = nand.block_spares(BlockId(block), &mut scratch).unwrap();
        assert_eq!(spares.map(|(ppn, spare)| (ppn, *spare)).collect::<Vec<_>>(), expected);
        let mut scratch = Vec::new();
        let ends = nand.block_spare_ends(BlockId(block), &mut scratch).unwrap();
        assert_eq!(ends[..4], expected.iter().map(|(_, spare)| spare_ends(spare)).collect::<Vec<_>>());
    }
}

/// Power failed before the erase had begun, or while it was in progress: the file has the block's records again, or some
/// of them, whatever was to be programmed afterwards, and it opens.
#[test]
fn an_erase_that_did_not_happen_leaves_its_pages_in_the_file() {
    let outcomes = [Outcome::NotStarted, Outcome::Torn, Outcome::Completed];
    let cases = outcomes.iter().flat_map(|outcome| (0..6).map(move |case| (*outcome, case % 3, case >= 3)));
    for (outcome, draw, programs) in cases {
        let folder = Folder::new();
        let mut nand = folder.create();
        // the records of what was there before count no longer
        for page in 0..4 {
            program(&mut nand, page, [5, 6], 0);
        }
        nand.erase(BlockId(0), nand.idle_ns()).unwrap();
        program(&mut nand, 0, [1, 2], 0);
        program(&mut nand, 1, [3, 4], 0);
        let now_ns = nand.idle_ns();
        nand.advance(now_ns);
        nand.erase(BlockId(0), now_ns).unwrap();
        if programs {
            program(&mut nand, 0, [8, 9], now_ns);
        }
        nand.power_fail(now_ns + 1);
        let mut erase_only = |in_flight: &InFlight| match in_flight.operation {
            Operation::Program(_) => Outcome::NotStarted,
            _ => outcome,
        };
        nand.resolve(&mut erase_only, &mut || draw).unwrap();
        drop(nand);
        let mut nand = folder.open();
        if outcome == Outcome::NotStarted {
            assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 3)), (1, 4));
            assert_eq!(nand.spare(Ppn(1)).unwrap(), spare(2));
        }
        let next_page = if outcome == Outcome::Completed { 0 } else { 2 };
        assert!(nand.next_page(BlockId(0)) >= next_page);
    }
}

#[test]
fn what_was_programmed_is_there_when_the_process_ends_without_a_word() {
    let folder = Folder::new();
    let mut nand = folder.create();
    program(&mut nand, 0, [1, 2], 0);
    program(&mut nand, 1, [3, 4], 0);
    nand.erase(BlockId(4), 0).unwrap();
    nand.retire(BlockId(5)).unwrap();
    nand.mark_uncorrectable(PageId(1)).unwrap();
    nand.stage(&data(9)).unwrap();
    drop(nand);
    let mut nand = folder.open();
    assert_eq!((nand.description(), nand.geometry(), nand.timing()), ("a drive", &GEOMETRY, &TIMING));
    assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 1)), (1, 2));
    assert_eq!(nand.spare(Ppn(1)).unwrap(), spare(2));
    assert_eq!(nand.page_state(PageId(1)), PageState::Uncorrectable);
    assert_eq!([0, 1, 4].map(|block| nand.next_page(BlockId(block))), [2, 0, 0]);
    assert_eq!((nand.erase_count(BlockId(4)), nand.is_bad(BlockId(5))), (1, true));
    assert_eq!((nand.slots_in_use(), nand.operations()), (4, 2), "the staged unit was DRAM");
    program(&mut nand, 2, [5, 6], 0);
    assert_eq!((read_tag(&mut nand, 4), read_tag(&mut nand, 0)), (5, 1));
}

#[test]
fn an_erased_block_reads_as_erased_and_its_old_records_do_not_count() {
    let folder = Folder::new();
    let mut nand = folder.create();
    (0..4).for_each(|page| {
        program(&mut nand, page, [1, 2], 0);
    });
    nand.erase(BlockId(0), 0).unwrap();
    program(&mut nand, 0, [3, 4], 0);
    drop(nand);
    let mut nand = folder.open();
    assert_eq!((nand.next_page(BlockId(0)), nand.page_state(PageId(1))), (1, PageState::Erased));
    assert_eq!((read_tag(&mut nand, 0), nand.slots_in_use()), (3, 2));
}

#[test]
fn the_last_copy_owns_the_bytes_after_opening_wherever_it_lies() {
    let folder = Folder::new();
    let mut nand = folder.create();
    program(&mut nand, 12, [1, 2], 0);
    copy(&mut nand, 24, 24);
    copy(&mut nand, 0, 48);
    drop(nand);
    let mut nand = folder.open();
    assert_eq!(nand.slots_in_use(), 2);
    nand.erase(BlockId(3), 0).unwrap();
    nand.erase(BlockId(6), 0).unwrap();
    nand.advance(u64::MAX);
    assert_eq!(nand.slots_in_use(), 1, "only the unit that was not copied is gone");
    program(&mut nand, 1, [7, 8], 0);
    assert_eq!(read_tag(&mut nand, 0), 1);
}

#[test]
fn torn_and_failed_erases_are_remembered() {
    let folder = Folder::new();
    let mut nand = folder.create();
    program(&mut nand, 0, [1, 2], 0);
    program(&mut nand, 1, [3, 4], 0);
    nand.set_faults(Faults { erase_failure_ppm: 1_000_000, ..Faults::default() });
    assert!(nand.erase(BlockId(3), 0).is_err());
    nand.set_faults(Faults::default());
    nand.cut_after(Some(1));
    assert!(nand.erase(BlockId(0), 20_000).is_err());
    let mut draws = [0, 1, 2, 0].into_iter();
    nand.resolve(&mut |_| Outcome::Torn, &mut || draws.next().unwrap()).unwrap();
    drop(nand);
    let mut nand = folder.open();
    use PageState::{Erased, Programmed, Uncorrectable};
    let states = [0, 1, 2, 3, 12].map(|page| nand.page_state(PageId(page)));
    assert_eq!(states, [Programmed, Erased, Uncorrectable, Erased, Uncorrectable]);
    assert_eq!((nand.next_page(BlockId(0)), nand.next_page(BlockId(3))), (4, 4));
    assert_eq!(read_tag(&mut nand, 1), 2);
    assert_eq!(nand.slots_in_use(), 2);
}

#[test]
fn protected_dram_survives_and_is_bounded() {
    let folder = Folder::new();
    let mut nand = folder.create();
    nand.write_protected(PROTECTED - 3, &[1, 2, 3]).unwrap();
    let beyond = nand.write_protected(PROTECTED - 2, &[1, 2, 3]).unwrap_err();
    assert_eq!(beyond.to_string(), "3 bytes at 9998 exceed the 10000 bytes of protected DRAM");
    assert!(matches!(nand.read_protected(u64::MAX, &mut [0]), Err(NandError::ProtectedRange { .. })));
    program(&mut nand, 0, [1, 2], 0);
    drop(nand);
    let mut nand = folder.open();
    let mut bytes = [9; 4];
    nand.read_protected(PROTECTED - 4, &mut bytes).unwrap();
    assert_eq!((bytes, nand.protected_bytes(), read_tag(&mut nand, 0)), ([0, 1, 2, 3], PROTECTED, 1));
}

#[test]
fn protected_dram_in_memory_reads_as_written_and_else_as_zeros() {
    let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
    nand.write_protected(5, &[7]).unwrap();
    let mut bytes = [9; 4];
    nand.read_protected(4, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 7, 0, 0]);
    nand.read_protected(1 << 20, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4]);
    assert!(nand.write_protected(MAX_PROTECTED_BYTES, &[1]).is_err());
}

// -- who may open it --------------------------------------------------------------------------------------------

#[test]
fn an_image_is_opened_once_at_a_time_and_never_overwritten() {
    let folder = Folder::new();
    let nand = folder.create();
    assert!(nand.try_clone().is_none());
    let locked = Nand::open(&folder.path()).unwrap_err();
    assert!(matches!(&locked, MediumError::Locked { path, .. } if *path == folder.path()), "{locked}");
    assert!(matches!(Nand::create(&folder.path(), GEOMETRY, TIMING, "", 0), Err(MediumError::Exists { .. })));
    drop(nand);
    let _open = folder.open();
    assert!(matches!(Nand::open(&folder.path()), Err(MediumError::Locked { .. })));
}

#[test]
fn an_image_that_cannot_be_leaves_no_file() {
    let folder = Folder::new();
    let path = folder.path();
    let geometry = Geometry { page_bytes: 5000, ..GEOMETRY };
    assert!(matches!(Nand::create(&path, geometry, TIMING, "", 0), Err(MediumError::Geometry(_))));
    let long = "x".repeat(MAX_DESCRIPTION_BYTES + 1);
    let refused = Nand::create(&path, GEOMETRY, TIMING, &long, 0);
    assert!(matches!(refused, Err(MediumError::DescriptionTooLong { bytes: 65_537, limit: 65_536 })));
    let refused = Nand::create(&path, GEOMETRY, TIMING, "", MAX_PROTECTED_BYTES + 1);
    assert!(matches!(refused, Err(MediumError::ProtectedTooLarge { .. })));
    assert!(!path.exists());
    let nowhere = path.join("below/a/file");
    assert!(matches!(
        Nand::create(&nowhere, GEOMETRY, TIMING, "", 0),
        Err(MediumError::Nand(NandError::Host(HostError { .. })))
    ));
}

// -- what is refused --------------------------------------------------------------------------------------------

#[test]
fn a_truncated_image_is_refused_at_any_length_and_never_panics() {
    let folder = Folder::new();
    let path = folder.path();
    let mut nand = folder.create();
    program(&mut nand, 0, [1, 2], 0);
    drop(nand);
    let whole = Layout::new(&GEOMETRY, PROTECTED, 0, tantalum_image::REDO_LOG_BYTES).bytes;
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let lengths =
        [whole - 1, whole / 2].into_iter().chain((120..75_000).rev().step_by(37)).chain((0..120).rev());
    for bytes in lengths {
        file.set_len(bytes).unwrap();
        match Nand::open(&path).unwrap_err() {
            MediumError::Truncated { bytes: found, expected, .. } => {
                assert!(found == bytes && expected > bytes)
            }
            MediumError::NotAnImage { .. } => assert!(bytes < 8),
            error => panic!("{bytes} bytes: {error}"),
        }
    }
}

#[test]
fn units_staged_beyond_the_flash_must_be_there_too() {
    let folder = Folder::new();
    let path = folder.path();
    let mut nand = folder.create();
    let staged: Vec<Slot> = (0..100).map(|tag| nand.stage(&data(tag)).unwrap()).collect();
    let sources = [Source::Staged(staged[99]), Source::Staged(staged[98])];
    nand.program(PageId(0), &sources, &[spare(0); 2], 0).unwrap();
    drop(nand);
    assert_eq!(read_tag(&mut folder.open(), 0), 99);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    assert!(matches!(Nand::open(&path), Err(MediumError::Truncated { .. })));
}

#[test]
fn other_files_versions_and_damaged_headers_are_told_apart() {
    let folder = Folder::new();
    let path = folder.path();
    drop(folder.create());
    let header = std::fs::read(&path).unwrap()[..88].to_vec();
    write_at(&path, b"SQLite format 3\0", 0);
    assert!(matches!(Nand::open(&path), Err(MediumError::NotAnImage { .. })));
    write_at(&path, &header, 0);
    write_at(&path, &[2], 8);
    assert!(matches!(Nand::open(&path), Err(MediumError::Version { found: 2, supported: 4, .. })));
    for byte in 12..88 {
        write_at(&path, &header, 0);
        write_at(&path, &[header[byte] ^ 0x81], byte as u64);
        assert!(matches!(Nand::open(&path), Err(MediumError::HeaderChecksum { .. })), "byte {byte}");
    }
    write_at(&path, &header, 0);
    write_at(&path, b"A", 4096);
    assert!(matches!(Nand::open(&path), Err(MediumError::HeaderChecksum { .. })));
    write_at(&path, b"a", 4096);
    assert!(Nand::open(&path).is_ok());
    let directory = Nand::open(folder.folder.path());
    assert!(matches!(
        directory,
        Err(MediumError::Nand(NandError::Host(HostError { action: "open the image", .. })))
    ));
    assert!(matches!(
        Nand::open(&folder.folder.path().join("none")),
        Err(MediumError::Nand(NandError::Host(HostError { .. })))
    ));
}

#[test]
fn a_header_with_a_right_checksum_and_an_absurd_shape_allocates_nothing() {
    use tantalum_image::layout::Header;
    use zerocopy::IntoBytes;
    let folder = Folder::new();
    let path = folder.path();
    drop(folder.create());
    let absurd = [
        (Geometry { blocks_per_plane: u32::MAX, ..GEOMETRY }, 0),
        (Geometry { page_bytes: 3, ..GEOMETRY }, 0),
        (Geometry { channels: 0, ..GEOMETRY }, 0),
        (GEOMETRY, u64::MAX),
    ];
    for (geometry, protected_bytes) in absurd {
        let header = Header::new(&geometry, &TIMING, "a drive", protected_bytes, false);
        write_at(&path, header.as_bytes(), 0);
        assert!(matches!(Nand::open(&path), Err(MediumError::ImpossibleHeader { .. })));
    }
    let large = Geometry { blocks_per_plane: 1 << 20, ..GEOMETRY };
    write_at(&path, Header::new(&large, &TIMING, "a drive", 0, false).as_bytes(), 0);
    assert!(matches!(Nand::open(&path), Err(MediumError::Truncated { .. })));
    write_at(&path, Header::new(&GEOMETRY, &TIMING, "a drive", PROTECTED, false).as_bytes(), 0);
    write_at(&path, &[0xFF], 4096);
    assert!(matches!(Nand::open(&path), Err(MediumError::HeaderChecksum { .. })));
}

// -- what is damaged --------------------------------------------------------------------------------------------

/// Two full pages in block 0, and a third in block 1.
fn three_pages(folder: &Folder) {
    let mut nand = folder.create();
    program(&mut nand, 0, [1, 2], 0);
    program(&mut nand, 1, [3, 4], 0);
    program(&mut nand, 4, [5, 6], 0);
}

fn layout() -> Layout {
    Layout::new(&GEOMETRY, PROTECTED, 0, tantalum_image::REDO_LOG_BYTES)
}

fn stored_record(path: &Path, page: u32) -> Vec<u8> {
    let mut bytes = vec![0; layout().page_record_bytes];
    std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, layout().page_at(PageId(page))).unwrap();
    bytes
}

#[test]
fn a_damaged_page_record_is_refused_and_uncorrectable_once_it_is_repaired() {
    let folder = Folder::new();
    let path = folder.path();
    three_pages(&folder);
    write_at(&path, &[0xEE; 20], layout().page_at(PageId(0)) + 100);
    assert!(matches!(Nand::open(&path), Err(MediumError::PageChecksum { page: PageId(0), .. })));
    let before = std::fs::read(&path).unwrap();
    let page = ImageFinding::Page { page: PageId(0), block: BlockId(0) };
    for access in [Access::Overlay, Access::Write] {
        let (mut nand, examination) = Nand::examine(&path, access).unwrap();
        assert_eq!((&examination.findings, nand.damaged_pages()), (&vec![page.clone()], &[PageId(0)][..]));
        assert_eq!(nand.page_state(PageId(0)), PageState::Uncorrectable);
        assert_eq!((read_tag(&mut nand, 3), nand.next_page(BlockId(0))), (4, 2));
        drop(nand);
        assert_eq!(std::fs::read(&path).unwrap() == before, access == Access::Overlay);
    }
    let mut nand = folder.open();
    assert_eq!((nand.page_state(PageId(0)), nand.damaged_pages()), (PageState::Uncorrectable, &[][..]));
    assert_eq!(read_tag(&mut nand, 8), 5);
}

/// Another page programmed there would be programmed twice.
#[test]
fn the_next_page_is_behind_a_damaged_one() {
    for (page, next_pages) in [(1, [2, 1]), (4, [2, 1])] {
        let folder = Folder::new();
        three_pages(&folder);
        write_at(&folder.path(), &[0xEE; 20], layout().page_at(PageId(page)) + 100);
        let (nand, _) = Nand::examine(&folder.path(), Access::Overlay).unwrap();
        assert_eq!([0, 1].map(|block| nand.next_page(BlockId(block))), next_pages, "page {page}");
    }
}

/// Pages that the repair had not reached once passed for erased ones. The last record written is one of them.
#[test]
fn a_repair_that_is_killed_is_gone_on_with() {
    let folder = Folder::new();
    let (path, killed) = (folder.path(), folder.folder.path().join("killed.tantalum"));
    three_pages(&folder);
    let pages = [0, 4];
    for page in pages {
        write_at(&path, &[0xEE; 20], layout().page_at(PageId(page)) + 100);
    }
    let read_all = || std::fs::read(&path).unwrap();
    let before = read_all();
    let (nand, examination) = Nand::examine(&path, Access::Write).unwrap();
    assert_eq!(examination.damaged_pages().map(|page| page.0).collect::<Vec<_>>(), pages);
    drop(nand);
    let after = read_all();
    let stored = |place: usize| {
        Tally::read_from_bytes(&before[tally::PLACES[place] as usize..][..size_of::<Tally>()]).unwrap()
    };
    let newest = Tally::newest([stored(0), stored(1)]).unwrap().place();
    let older = tally::PLACES[usize::from(newest == tally::PLACES[0])];
    let no_tally = |at| Part { at, bytes: vec![0; size_of::<Tally>()] };
    let is_gone = |place: &u64| after[*place as usize..][..size_of::<Tally>()].iter().all(|byte| *byte == 0);
    assert_eq!(
        tally::PLACES.iter().filter(|place| is_gone(place)).count(),
        1,
        "one new tally, and nothing else"
    );
    let records =
        pages.map(|page| Part::of(&after, layout().page_at(PageId(page)), layout().page_record_bytes));
    std::fs::write(&killed, &before).unwrap();
    for part in [no_tally(older), no_tally(newest)].into_iter().chain(records) {
        write_at(&killed, &part.bytes, part.at);
        let (mut nand, _) = Nand::examine(&killed, Access::Overlay).unwrap();
        assert_eq!(pages.map(|page| nand.page_state(PageId(page))), [PageState::Uncorrectable; 2]);
        assert_eq!(read_tag(&mut nand, 3), 4);
    }
    drop(Nand::examine(&killed, Access::Write).unwrap());
    let nand = Nand::open(&killed).unwrap();
    assert_eq!(pages.map(|page| nand.page_state(PageId(page))), [PageState::Uncorrectable; 2]);
}

#[test]
fn a_damaged_record_that_was_erased_is_no_damage() {
    let folder = Folder::new();
    three_pages(&folder);
    folder.open().erase(BlockId(0), 0).unwrap();
    let mut nand = folder.open();
    program(&mut nand, 0, [7, 8], 0);
    drop(nand);
    write_at(&folder.path(), &[0xEE], layout().page_at(PageId(1)) + 60);
    let mut nand = folder.open();
    assert_eq!((nand.page_state(PageId(1)), nand.next_page(BlockId(0))), (PageState::Erased, 1));
    program(&mut nand, 1, [9, 10], 0);
    drop(nand);
    assert_eq!(read_tag(&mut folder.open(), 2), 9);
}

#[test]
fn records_that_are_put_back_to_older_ones_are_noticed() {
    let folder = Folder::new();
    let path = folder.path();
    three_pages(&folder);
    let old = stored_record(&path, 0);
    let mut nand = folder.open();
    nand.erase(BlockId(0), 0).unwrap();
    program(&mut nand, 0, [7, 8], 0);
    drop(nand);
    let new = stored_record(&path, 0);
    for older in [old, vec![0; new.len()]] {
        write_at(&path, &older, layout().page_at(PageId(0)));
        assert!(matches!(Nand::open(&path), Err(MediumError::Tally { .. })));
        let (_, examination) = Nand::examine(&path, Access::Overlay).unwrap();
        assert_eq!(examination.findings, [ImageFinding::Replaced]);
        assert!(!ImageFinding::Replaced.is_repairable());
    }
    write_at(&path, &new, layout().page_at(PageId(0)));
    assert_eq!(read_tag(&mut folder.open(), 0), 7);
}

#[test]
fn a_damaged_tally_is_refused_and_made_new_by_a_repair() {
    let folder = Folder::new();
    let path = folder.path();
    three_pages(&folder);
    write_at(&path, &[0xEE], tally::PLACES[0] + 9);
    drop(folder.open());
    write_at(&path, &[0xEE], tally::PLACES[1] + 9);
    assert!(matches!(Nand::open(&path), Err(MediumError::TallyChecksum { .. })));
    let (nand, examination) = Nand::examine(&path, Access::Write).unwrap();
    assert_eq!(examination.findings, [ImageFinding::Tally]);
    drop(nand);
    assert_eq!(read_tag(&mut folder.open(), 8), 5);
}

#[test]
fn a_damaged_unit_is_uncorrectable_wherever_it_was_moved() {
    let folder = Folder::new();
    let path = folder.path();
    three_pages(&folder);
    let slot = u32::from_le_bytes(stored_record(&path, 0)[16..20].try_into().unwrap());
    write_at(&path, &[0xEE], layout().slot_at(Slot(slot)) + 4000);
    let mut nand = folder.open();
    let unreadable = |nand: &mut Nand, ppn| nand.read(Ppn(ppn), &mut data(0), 0);
    assert!(matches!(unreadable(&mut nand, 0), Err(NandError::Uncorrectable { ppn: Ppn(0) })));
    assert_eq!(read_tag(&mut nand, 1), 2);
    copy(&mut nand, 12, 0);
    assert!(matches!(unreadable(&mut nand, 24), Err(NandError::Uncorrectable { ppn: Ppn(24) })));
    drop(nand);
    assert!(matches!(unreadable(&mut folder.open(), 24), Err(NandError::Uncorrectable { .. })));
}

/// What lies at `at` of an image.
struct Part {
    at: u64,
    bytes: Vec<u8>,
}

impl Part {
    fn of(image: &[u8], at: u64, length: usize) -> Part {
        Part { at, bytes: image[at as usize..][..length].to_vec() }
    }
}

/// Tallies and records are written byte by byte, and in that order: a process that is killed leaves any part of one of
/// them, and all of those before.
#[test]
fn a_process_killed_while_it_writes_a_record_leaves_the_page_erased_or_programmed() {
    let folder = Folder::new();
    let (path, killed) = (folder.path(), folder.folder.path().join("killed.tantalum"));
    // one that was erased is under the new one
    three_pages(&folder);
    let mut nand = folder.open();
    nand.erase(BlockId(0), 0).unwrap();
    let before = std::fs::read(&path).unwrap();
    program(&mut nand, 0, [7, 8], 0);
    drop(nand);
    let after = std::fs::read(&path).unwrap();
    let tally = |image: &[u8], place: usize| Part::of(image, tally::PLACES[place], size_of::<Tally>());
    let [first, second] = [0, 1].map(|place| tally(&after, place));
    let newest =
        Tally::newest([&first, &second].map(|part| Tally::read_from_bytes(&part.bytes).unwrap())).unwrap();
    let (announced, settled) = if newest.place() == first.at { (second, first) } else { (first, second) };
    let record = Part::of(&after, layout().page_at(PageId(0)), layout().page_record_bytes);
    let parts = [announced, record, settled];
    let mut states = [0; 2];
    std::fs::write(&killed, &before).unwrap();
    let log_at = layout().log.unwrap().log_at as usize;
    for (number, part) in parts.iter().enumerate() {
        for stored in 0..=part.bytes.len() {
            for is_from_the_end in [false, true] {
                write_at(&killed, &before[..log_at], 0);
                // its data were there already
                write_at(&killed, &after[layout().slots_at as usize..], layout().slots_at);
                parts[..number].iter().for_each(|part| write_at(&killed, &part.bytes, part.at));
                let from = if is_from_the_end { part.bytes.len() - stored } else { 0 };
                write_at(&killed, &part.bytes[from..][..stored], part.at + from as u64);
                let mut nand = Nand::open(&killed).unwrap_or_else(|error| {
                    panic!("{stored} bytes of part {number}, from the end: {is_from_the_end}: {error}")
                });
                let is_programmed = nand.page_state(PageId(0)) == PageState::Programmed;
                assert_eq!(is_programmed, nand.next_page(BlockId(0)) == 1);
                assert!(!is_programmed || read_tag(&mut nand, 1) == 8);
                assert_eq!(read_tag(&mut nand, 8), 5);
                if !is_programmed {
                    program(&mut nand, 0, [9, 10], 0);
                    drop(nand);
                    assert_eq!(read_tag(&mut Nand::open(&killed).unwrap(), 1), 10);
                }
                states[usize::from(is_programmed)] += 1;
            }
        }
    }
    assert!(states.into_iter().all(|count| count > 20), "{states:?}");
}

/// A life ends between any two stores, whatever the medium is doing.
#[test]
fn an_image_is_right_after_any_store_that_a_life_ended_with() {
    let folder = Folder::new();
    let mut interrupted = 0;
    for stores in 0.. {
        let host = TestHost::new(Mapping::Allowed, stores);
        let life = &host.life;
        let path = folder.folder.path().join(format!("{stores}.tantalum"));
        drop(Nand::create(&path, GEOMETRY, TIMING, "a drive", PROTECTED).unwrap());
        let mut nand = Nand::open_on(&path, Access::Write, &host).unwrap();
        life.end_after(Some(stores));
        let staged = |nand: &mut Nand, page, tag| -> Result<(), NandError> {
            let slots = [nand.stage(&data(tag))?, nand.stage(&data(tag + 1))?];
            nand.program(PageId(page), &slots.map(Source::Staged), &[spare(tag), spare(tag + 1)], 0).map(drop)
        };
        type Step<'a> = &'a dyn Fn(&mut Nand) -> Result<(), NandError>;
        let steps: [Step<'_>; 4] = [
            &|nand| staged(nand, 0, 1),
            &|nand| nand.write_protected(0, &[7; 5000]),
            &|nand| nand.erase(BlockId(0), 0).map(drop),
            &|nand| staged(nand, 0, 5),
        ];
        let done = steps.iter().take_while(|step| step(&mut nand).is_ok()).count();
        assert_eq!(done < steps.len(), life.is_over());
        drop(nand);
        let mut nand = Nand::open(&path).unwrap_or_else(|error| panic!("after {stores} stores: {error}"));
        let held = match nand.page_state(PageId(0)) {
            PageState::Programmed => Some(read_tag(&mut nand, 1)),
            _ => None,
        };
        let possible: &[Option<u64>] = match done {
            0 => &[None, Some(2)],
            1 => &[Some(2)],
            2 => &[Some(2), None],
            3 => &[None, Some(6)],
            _ => &[Some(6)],
        };
        assert!(possible.contains(&held), "after {stores} stores, {done} steps: {held:?}");
        if done == steps.len() {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 15, "{interrupted}");
}

#[test]
fn the_record_that_was_written_last_is_missed_though_the_process_was_killed() {
    let folder = Folder::new();
    let killed = folder.folder.path().join("killed.tantalum");
    three_pages(&folder);
    let mut nand = folder.open();
    program(&mut nand, 5, [7, 8], 0);
    std::fs::copy(folder.path(), &killed).unwrap();
    assert_eq!(read_tag(&mut Nand::open(&killed).unwrap(), 10), 7);
    let record_at = layout().page_at(PageId(5));
    write_at(&killed, &[0xEE], record_at);
    assert!(matches!(Nand::open(&killed), Err(MediumError::PageChecksum { page: PageId(5), .. })));
    write_at(&killed, &vec![0; layout().page_record_bytes], record_at);
    assert!(matches!(Nand::open(&killed), Err(MediumError::Tally { .. })));
}

fn stored_entry(path: &Path, block: u32) -> [u8; 32] {
    let mut entry = [0; 32];
    let at = layout().block_at(BlockId(block));
    std::fs::File::open(path).unwrap().read_exact_at(&mut entry, at).unwrap();
    entry
}

#[test]
fn an_erase_says_that_pages_may_follow_and_the_first_of_them_writes_no_entry() {
    let folder = Folder::new();
    let mut nand = folder.create();
    nand.erase(BlockId(4), 0).unwrap();
    let erased = stored_entry(&folder.path(), 4);
    program(&mut nand, 16, [1, 2], 0);
    assert_eq!(stored_entry(&folder.path(), 4), erased);
    program(&mut nand, 20, [3, 4], 0);
    assert_ne!(stored_entry(&folder.path(), 5), [0; 32], "a block that was never erased");
    drop(nand);
    let mut nand = folder.open();
    assert_eq!((read_tag(&mut nand, 33), read_tag(&mut nand, 41)), (2, 4));
}

// entries of erased blocks formerly did not say so, and such images still exist
#[test]
fn an_erased_blocks_entry_that_does_not_say_so_is_written_before_its_first_page() {
    let folder = Folder::new();
    folder.create().erase(BlockId(4), 0).unwrap();
    let mut entry = stored_entry(&folder.path(), 4);
    entry[8] = 0;
    let checksum = crate::checksum_of(&entry[4..]);
    entry[..4].copy_from_slice(&checksum.to_le_bytes());
    write_at(&folder.path(), &entry, layout().block_at(BlockId(4)));
    let sum = tally::of_block(BlockId(4), checksum);
    let settled = Tally::new(100, sum, sum);
    write_at(&folder.path(), settled.as_bytes(), settled.place());
    let mut nand = folder.open();
    program(&mut nand, 16, [1, 2], 0);
    drop(nand);
    assert_eq!(read_tag(&mut folder.open(), 33), 2);
}

#[test]
fn a_damaged_block_entry_is_refused_and_cannot_be_repaired() {
    let folder = Folder::new();
    three_pages(&folder);
    write_at(&folder.path(), &[0xEE], layout().block_at(BlockId(0)) + 5);
    assert!(matches!(Nand::open(&folder.path()), Err(MediumError::BlockChecksum { block: BlockId(0), .. })));
    let (_, examination) = Nand::examine(&folder.path(), Access::Overlay).unwrap();
    assert!(examination.findings.contains(&ImageFinding::Block { block: BlockId(0) }));
    assert!(examination.findings.iter().any(|finding| !finding.is_repairable()));
}

#[test]
fn an_overlay_works_like_the_image_and_leaves_the_file_as_it_was() {
    let folder = Folder::new();
    let path = folder.path();
    three_pages(&folder);
    let before = std::fs::read(&path).unwrap();
    let mut nand = Nand::open_as(&path, Access::Overlay).unwrap();
    program(&mut nand, 5, [7, 8], 0);
    nand.erase(BlockId(0), 0).unwrap();
    program(&mut nand, 0, [9, 10], 0);
    assert_eq!((read_tag(&mut nand, 10), read_tag(&mut nand, 0), read_tag(&mut nand, 8)), (7, 9, 5));
    assert!(matches!(Nand::open(&path), Err(MediumError::Locked { .. })));
    let mut second = Nand::open_as(&path, Access::Overlay).unwrap();
    assert_eq!(read_tag(&mut second, 0), 1, "it sees nothing of the first one's changes");
    drop((nand, second));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

// -- size -------------------------------------------------------------------------------------------------------

#[test]
fn an_image_of_a_tebibyte_is_made_and_opened_in_no_time() {
    let geometry = Geometry {
        channels: 8,
        dies_per_channel: 4,
        planes_per_die: 4,
        blocks_per_plane: 2048,
        pages_per_block: 256,
        page_bytes: 16384,
    };
    assert_eq!(u64::from(geometry.units()) * 4096, 1 << 40);
    let folder = Folder::new();
    let started = Instant::now();
    let mut nand = Nand::create(&folder.path(), geometry, TIMING, "", 0).unwrap();
    let created = started.elapsed();
    let last = PageId(geometry.pages() - geometry.pages_per_block);
    let sources: [Source; 4] =
        std::array::from_fn(|tag| Source::Staged(nand.stage(&data(tag as u64)).unwrap()));
    nand.program(last, &sources, &[spare(0); 4], 0).unwrap();
    drop(nand);
    let started = Instant::now();
    let mut nand = folder.open();
    let opened = started.elapsed();
    assert_eq!(read_tag(&mut nand, geometry.unit(last, 3).0), 3);
    println!("created in {created:?}, opened in {opened:?}");
    assert!(created.as_secs_f64() < 1.0 && opened.as_secs_f64() < 3.0, "{created:?} {opened:?}");
}

/// A host that learns that a unit already has its bytes does not write them.
#[test]
fn a_buffer_holds_what_is_in_it_and_nothing_else() {
    let folder = Folder::new();
    let mut nand = folder.create();
    for byte in [7, 0] {
        let slot = nand.stage(&[byte; UNIT_BYTES]).unwrap();
        assert!(nand.slot_holds(slot, &[byte; UNIT_BYTES]));
        assert!(!nand.slot_holds(slot, &[byte ^ 7; UNIT_BYTES]));
        let mut other = [byte; UNIT_BYTES];
        other[UNIT_BYTES - 1] ^= 1;
        assert!(!nand.slot_holds(slot, &other));
    }
}
