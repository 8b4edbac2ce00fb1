//! Space of an image that goes back to the host's file system, and machines that are lost around it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tantalum_image::{Access, BlockId, Mapping, SplitMix64, TestHost};

use crate::in_flight::Outcome;
use crate::nand::Nand;
use crate::test_support::{GEOMETRY, TIMING, program, read_tag};

const PAGES: u32 = GEOMETRY.pages_per_block;
const UNITS: u32 = PAGES * 2;

/// Everything that was erased is so for good from then on.
const LATER_NS: u64 = 1 << 40;

fn open(path: &Path, host: &TestHost) -> Nand {
    Nand::open_on(path, Access::Ordered, host).unwrap()
}

fn create(folder: &tempfile::TempDir, seed: u64) -> (std::path::PathBuf, TestHost) {
    let path = folder.path().join("drive.tantalum");
    drop(Nand::create(&path, GEOMETRY, TIMING, "a drive", 0).unwrap());
    (path, TestHost::new(Mapping::Never, seed))
}

fn sync(nand: &mut Nand) {
    if let Some(sync) = nand.sync_begin().unwrap() {
        sync.run().unwrap();
        nand.sync_end().unwrap();
    }
}

/// Fills a block with units of tags from one on.
fn fill(nand: &mut Nand, block: u32, tag: u64) {
    for page in 0..PAGES {
        let tags = [0, 1].map(|unit| tag + u64::from(page) * 2 + unit);
        program(nand, block * PAGES + page, tags, 0);
    }
}

fn has(nand: &mut Nand, block: u32, tag: u64) -> bool {
    (0..UNITS).all(|unit| {
        let ppn = block * UNITS + unit;
        nand.is_readable(tantalum_image::Ppn(ppn)) && read_tag(nand, ppn) == tag + u64::from(unit)
    })
}

fn is_erased(nand: &Nand, block: u32) -> bool {
    nand.next_page(BlockId(block)) == 0
}

fn on_disk(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

/// Whatever is lost, a block that was erased is erased, or has all that it held.
#[test]
fn space_goes_back_only_when_a_machine_that_is_lost_does_not_need_it() {
    let mut found = [0; 2];
    for seed in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = create(&folder, seed);
        let (mut nand, mut random) = (open(&path, &host), SplitMix64(seed));
        fill(&mut nand, 0, 100);
        fill(&mut nand, 1, 200);
        sync(&mut nand);
        nand.erase(BlockId(0), 0).unwrap();
        nand.advance(LATER_NS);
        let mut is_durable = false;
        for _ in 0..random.below(4) {
            nand.give_space_back(0, random.below(5) as u32).unwrap();
            match random.below(6) {
                0 => nand.sync_in_place().unwrap(),
                // it may have reached the disk, or not
                1 => break,
                _ => sync(&mut nand),
            }
            is_durable = true;
        }
        nand.give_space_back(0, 9).unwrap();
        if random.below(3) == 0 {
            fill(&mut nand, 2, 300);
        }
        host.life.end();
        drop(nand);
        host.life.end_after(None);
        host.faults.lose_machine(&path).unwrap();
        let mut nand = open(&path, &host);
        let erased = is_erased(&nand, 0);
        assert!(erased || !is_durable, "seed {seed}: the erase is lost");
        assert!(erased || has(&mut nand, 0, 100), "seed {seed}: what the block held is lost");
        assert!(has(&mut nand, 1, 200), "seed {seed}");
        found[usize::from(erased)] += 1;
    }
    assert!(found.iter().all(|count| *count > 8), "{found:?}");
}

#[test]
fn erased_blocks_take_no_space_after_two_syncs_or_one_in_place() {
    for in_place in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = create(&folder, 1);
        let mut nand = open(&path, &host);
        (0..4).for_each(|block| fill(&mut nand, block, 100));
        sync(&mut nand);
        for block in 0..3 {
            nand.erase(BlockId(block), 0).unwrap();
        }
        assert_eq!(nand.slots_being_erased(), 3 * UNITS);
        nand.advance(LATER_NS);
        assert_eq!((nand.slots_being_erased(), nand.slots_in_use()), (0, UNITS));
        if in_place {
            nand.sync_in_place().unwrap();
        }
        for syncs in 0..if in_place { 0 } else { 2 } {
            assert!(!nand.give_space_back(0, 9).unwrap());
            assert_eq!((nand.idle_slots(), nand.slots_that_wait()), (0, 3 * UNITS), "{syncs}");
            program(&mut nand, 4 * PAGES + syncs, [1, 2], LATER_NS);
            sync(&mut nand);
        }
        let idle = nand.idle_slots();
        assert!(idle >= 3 * UNITS - 4 && nand.slots_that_wait() == 0, "{idle} are idle");
        // the lowest ones stay
        assert!(!nand.give_space_back(5, 9).unwrap());
        assert_eq!(nand.idle_slots(), 5);
        (0..2).for_each(|block| fill(&mut nand, block, 500));
        sync(&mut nand);
        nand.sync_in_place().unwrap();
        drop(nand);
        let mut nand = open(&path, &host);
        assert!(has(&mut nand, 0, 500) && has(&mut nand, 1, 500) && has(&mut nand, 3, 100));
        assert!(is_erased(&nand, 2));
    }
}

/// The records of an erase that is undone are written anew, over the hole if there is one already.
#[test]
fn an_erase_that_is_undone_after_space_went_back_leaves_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = create(&folder, 1);
    let mut nand = open(&path, &host);
    fill(&mut nand, 0, 100);
    nand.erase(BlockId(0), 0).unwrap();
    nand.advance(LATER_NS);
    fill(&mut nand, 0, 700);
    nand.sync_in_place().unwrap();
    nand.erase(BlockId(0), LATER_NS).unwrap();
    nand.give_space_back(0, 9).unwrap();
    nand.sync_in_place().unwrap();
    nand.give_space_back(0, 9).unwrap();
    nand.power_fail(LATER_NS);
    nand.resolve(&mut |_| Outcome::NotStarted, &mut || 0).unwrap();
    assert!(has(&mut nand, 0, 700));
    nand.sync_in_place().unwrap();
    drop(nand);
    assert!(has(&mut open(&path, &host), 0, 700));
}

/// What an earlier process left idle is found when the image is opened.
#[test]
fn idle_slots_of_an_earlier_process_go_back_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tantalum");
    let geometry = tantalum_image::Geometry { pages_per_block: 128, ..GEOMETRY };
    drop(Nand::create(&path, geometry, TIMING, "a drive", 0).unwrap());
    let host = TestHost::new(Mapping::Never, 1);
    let mut nand = open(&path, &host);
    for block in 0..8 {
        for page in 0..128 {
            program(&mut nand, block * 128 + page, [1, 2], 0);
        }
    }
    for block in 1..8 {
        nand.erase(BlockId(block), 0).unwrap();
    }
    nand.advance(LATER_NS);
    drop(nand);
    let full = on_disk(&path);
    let mut nand = open(&path, &host);
    assert!(nand.idle_slots() >= 7 * 256);
    assert!(!nand.give_space_back(0, 9).unwrap());
    nand.sync_in_place().unwrap();
    assert!(full - on_disk(&path) >= 7 * 256 * 4096 + 7 * 128 * 512);
    drop(nand);
    let mut nand = open(&path, &host);
    assert_eq!(nand.idle_slots(), 0, "so little is not looked for");
    assert_eq!((0..256).filter(|unit| read_tag(&mut nand, *unit) == u64::from(unit % 2) + 1).count(), 256);
    assert_eq!(nand.next_page(BlockId(3)), 0);
}
