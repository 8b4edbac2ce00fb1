//! Commands of the drive, and steps inside them, fail, each in one of the ways in which they can, in the middle of what the file
//! system does. Then what was synced is there after a crash, and everything agrees; until then the file system refuses
//! changes and syncs if a change failed half way. `LFS_SEED=17` runs one seed, `LFS_SEEDS=100` runs 100.

use crate::common;

use common::SOUND;
use common::run::{Plan, Run, SNAPSHOT_ODDS};
use common::{LARGE_CACHE, ROOT, SMALL_CACHE, fs, new};
use tantalum::{CommandFailure, Status};
use tantalum_filesystem::{Content, Errno, FileKind, FileSystem, Names, Ranges};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

const UNIT: usize = 4096;

/// Operations that failed, those of them with a step inside a command, and those that stopped the file system.
fn run(kind: LfsKind, seed: u64) -> (u32, u32, u32) {
    let indexing = [Indexing::Conventional, Indexing::Appended, Indexing::Nvm][seed as usize % 3];
    let plan = Plan {
        kind,
        capacity_mib: 16,
        cache_bytes: if seed.is_multiple_of(2) { SMALL_CACHE } else { LARGE_CACHE },
        cleaning: if seed % 4 < 2 { Cleaning::Copy } else { Cleaning::Remap },
        indexing,
        cut_within: None,
        most_bytes: 200_000,
        left_units: None,
        faults: SOUND,
        snapshot_odds: SNAPSHOT_ODDS,
    };
    let mut run = Run::new(seed, plan);
    run.commands_fail([1, 4, 15][seed as usize % 3]);
    (0..200).for_each(|_| run.step());
    let run = run.finish();
    (run.failed, run.failed_steps, run.stopped)
}

fn whichever_command_fails_what_was_synced_is_there(kind: LfsKind) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = number("LFS_SEED").map_or(0..number("LFS_SEEDS").unwrap_or(16), |seed| seed..seed + 1);
    let is_one = seeds.end - seeds.start == 1;
    let (mut failed, mut steps, mut stopped) = (0, 0, 0);
    for seed in seeds {
        let ended = std::panic::catch_unwind(|| run(kind, seed));
        let (more_failed, more_steps, more_stopped) = ended.unwrap_or_else(|panic| {
            eprintln!("{kind:?} failed with LFS_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        (failed, steps, stopped) = (failed + more_failed, steps + more_steps, stopped + more_stopped);
    }
    println!("{kind:?}: {failed} operations failed, {steps} in a step, {stopped} stopped the file system");
    assert!(
        is_one || failed > 50 && steps > 15 && stopped > 30,
        "{failed} failed, {steps}, {stopped} stopped"
    );
}

#[test]
fn whichever_command_fails_what_was_synced_is_there_with_nat() {
    whichever_command_fails_what_was_synced_is_there(LfsKind::Nat);
}

#[test]
fn whichever_command_fails_what_was_synced_is_there_with_trees() {
    whichever_command_fails_what_was_synced_is_there(LfsKind::Tree);
}

fn fail(fs: &LogFs, command: u64, failure: CommandFailure) {
    fs.client().device().fail_command(Some((command, failure)));
}

/// A sync that failed in the middle was followed by one that succeeded, with half of what the first had changed.
#[test]
fn after_a_sync_that_failed_no_other_succeeds() {
    for kind in [LfsKind::Nat, LfsKind::Tree] {
        let mut fs = fs(kind, 16, Cleaning::Copy, LARGE_CACHE);
        let file = fs.create_in(ROOT, b"a", &new(FileKind::File)).unwrap();
        fs.write(file, 0, &[1; 3 * UNIT]).unwrap();
        fail(&fs, 1, CommandFailure::CapacityExceeded);
        assert_eq!(fs.sync(file), Err(Errno::ENOSPC));
        assert_eq!(fs.stopped(), Some(Status::CapacityExceeded));
        assert_eq!(fs.sync(file), Err(Errno::EROFS));
        assert_eq!(fs.write(file, 0, &[2; 5]), Err(Errno::EROFS));
        let mut data = [0; 3 * UNIT];
        assert_eq!((fs.read(file, 0, &mut data, None), data), (Ok(3 * UNIT), [1; 3 * UNIT]));
        let failed = fs.unmount().unwrap_err().1;
        assert!(failed.to_string().contains("no more changes"), "{failed}");
    }
}

/// Pages with what was written last were thrown away before the step that could fail.
#[test]
fn what_could_not_be_zeroed_or_given_up_still_reads_as_it_was() {
    for kind in [LfsKind::Nat, LfsKind::Tree] {
        for command in 1.. {
            let mut fs = fs(kind, 16, Cleaning::Copy, LARGE_CACHE);
            let file = fs.create_in(ROOT, b"a", &new(FileKind::File)).unwrap();
            // so many units that the index does not have all of them in memory after the mount
            fs.write(file, 0, &vec![1; 3000 * UNIT]).unwrap();
            fs.sync(file).unwrap();
            let client = fs.unmount().unwrap();
            let mut fs = LogFs::mount(client, LARGE_CACHE).unwrap();
            fs.write(file, 1000 * UNIT as u64, &vec![2; 4 * UNIT]).unwrap();
            fail(&fs, command, CommandFailure::Unreadable);
            let done = match command % 2 {
                0 => fs.punch_hole(file, 0, 3000 * UNIT as u64),
                _ => fs.zero_range(file, 0, 3000 * UNIT as u64, true),
            };
            fs.client().device().fail_command(None);
            if done.is_ok() {
                assert!(command > 1, "nothing was read");
                break;
            }
            let mut data = vec![0; 4 * UNIT];
            fs.read(file, 1000 * UNIT as u64, &mut data, None).unwrap();
            let is_whole = |unit: &[u8]| unit.iter().all(|byte| *byte == unit[0] && *byte != 1);
            assert!(data.chunks(UNIT).all(is_whole), "{kind:?}, command {command}: old contents came back");
        }
    }
}
