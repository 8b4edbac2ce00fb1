//! A write of the size that is all or nothing, wherever it lies, however it reaches flash, and whatever happens to its units
//! while they wait: after a cut at any operation all of it is there or none.

use tantalum::{CacheMode, Command, Device, Lpn, Outcome, Plp, PowerLoss, Profile, ShareRange, UNIT_BYTES};

use crate::host::Host;
use crate::small_drive::{profiles, small_drive};

const OLD: u8 = 1;
const NEW: u8 = 2;

/// From here on units hold 4, to be shared or moved.
const SOURCES: u32 = 90;

/// Drives on which writes of five units are all or nothing, with pages of one, two and four units.
fn drives() -> Vec<Profile> {
    let mut drives = Vec::new();
    for mut profile in profiles() {
        for page_bytes in [4096, 8192, 16384] {
            profile.flash.page_bytes = page_bytes;
            profile.power.dump_bytes = if profile.power.plp == Plp::Capacitor { 2 << 20 } else { 0 };
            profile.limits.atomic_write_units = 5;
            drives.push(profile.clone());
        }
    }
    drives
}

fn write(host: &mut Host, first: u32, units: usize, byte: u8, fua: bool) {
    let data = vec![byte; units * UNIT_BYTES];
    let _ = host.submit(Command::Write { lpn: Lpn(first), data: &data, fua, handle: None });
}

/// Runs `work` on copies of a drive whose units hold 1, cuts power at each of its operations with each fate of what
/// is in flight, and gives what `units` then hold to `judge`. Returns the number of cuts.
fn cut_everywhere(
    profile: &Profile,
    units: std::ops::Range<u32>,
    work: impl Fn(&mut Host),
    mut judge: impl FnMut(&[u8]),
) -> u64 {
    let mut host = Host::new(profile);
    (0..100).for_each(|lpn| host.write(lpn, if lpn < SOURCES { OLD } else { 4 }));
    host.flush();
    let (mut cuts, mut after) = (0, 1);
    loop {
        let mut at = host.fork();
        at.device.cut_after(Some(after));
        work(&mut at);
        let over = at.device.has_power();
        if over {
            at.device.cut_power(at.now_ns);
        }
        for fate in [Outcome::NotStarted, Outcome::Completed, Outcome::Torn] {
            let mut cut = at.fork();
            power_on(&mut cut, PowerLoss::all(fate));
            let found: Vec<u8> = units.clone().map(|lpn| cut.read(lpn)).collect();
            judge(&found);
            cuts += 1;
        }
        for seed in 0..8 {
            let mut cut = at.fork();
            power_on(&mut cut, PowerLoss::seeded(seed));
            let found: Vec<u8> = units.clone().map(|lpn| cut.read(lpn)).collect();
            judge(&found);
            cuts += 1;
        }
        if over {
            return cuts;
        }
        after += 1;
    }
}

fn power_on(host: &mut Host, mut loss: PowerLoss) {
    host.device.power_on(&mut loss).unwrap();
    host.device.audit();
    host.now_ns = host.device.time_ns();
}

fn is_torn(found: &[u8]) -> bool {
    found.iter().any(|byte| *byte != found[0])
}

/// Pushes what waits out of the cache, with other writes and then with a flush.
fn push_out(host: &mut Host) {
    for first in (20..80).step_by(3) {
        write(host, first, 3, 9, false);
    }
    let _ = host.submit(Command::Flush);
}

#[test]
fn a_write_of_the_size_is_never_torn() {
    for profile in drives() {
        for (units, fua) in [(2, false), (3, true), (4, false), (5, false), (5, true)] {
            let work = |host: &mut Host| {
                write(host, 7, units, NEW, fua);
                push_out(host);
            };
            let (mut old, mut new) = (0, 0);
            let cuts = cut_everywhere(&profile, 7..7 + units as u32, work, |found| {
                assert!(!is_torn(found), "{units} units, fua {fua}, {profile:?}: {found:?}");
                old += u32::from(found[0] == OLD);
                new += u32::from(found[0] == NEW);
            });
            assert!(cuts > 20 && new > 0, "{cuts} cuts, {old} old, {new} new");
            let durable = profile.power.plp == Plp::Capacitor;
            assert!(old > 0 || durable, "{cuts} cuts, {old} old, {new} new");
        }
    }
}

/// A simulation in which no write is torn would show no host that relies on more than the drive promises.
#[test]
fn a_larger_write_is_torn_in_units() {
    for profile in drives().iter().filter(|profile| profile.power.plp == Plp::None) {
        let mut torn = 0;
        let work = |host: &mut Host| {
            write(host, 7, 6, NEW, false);
            push_out(host);
        };
        cut_everywhere(profile, 7..13, work, |found| torn += u32::from(is_torn(found)));
        // a page of four and one of two are torn less often than six pages
        assert!(torn > 0, "{profile:?}");
    }
}

/// The older write is torn if what is left of it is there and what took the place of the rest is not.
#[test]
fn a_newer_write_of_a_part_does_not_tear_an_older_one() {
    for profile in drives() {
        for (first, units, fua) in [(9, 1, false), (10, 4, false), (4, 5, false), (9, 1, true), (9, 4, true)]
        {
            let work = |host: &mut Host| {
                write(host, 7, 5, NEW, false);
                write(host, first, units, 3, fua);
                push_out(host);
            };
            let covered = first..first + units as u32;
            cut_everywhere(&profile, 7..12, work, |found| {
                let rest =
                    |byte| (7..).zip(found).any(|(lpn, found)| *found == byte && !covered.contains(&lpn));
                let under =
                    |byte| (7..).zip(found).any(|(lpn, found)| *found == byte && covered.contains(&lpn));
                let context = format!("over {covered:?}, fua {fua}, {profile:?}: {found:?}");
                assert!(!(rest(NEW) && (rest(OLD) || under(OLD))), "the older write is torn, {context}");
                assert!(!(under(NEW) && rest(OLD)), "the older write is torn, {context}");
                assert!(!(under(3) && (under(OLD) || under(NEW))), "the newer write is torn, {context}");
            });
        }
    }
}

/// Half of the write is unmapped, shared over or replaced in another step, and the cut takes that back.
#[test]
fn what_takes_the_place_of_a_part_does_not_tear_the_rest() {
    let trim = |host: &mut Host| drop(host.submit(Command::Trim { lpn: Lpn(9), units: 3 }));
    let share = |host: &mut Host| {
        let ranges = [ShareRange { dst: Lpn(9), src: Lpn(SOURCES), units: 3 }];
        drop(host.submit(Command::Share { ranges: &ranges, deferred: true }));
    };
    let remap =
        |host: &mut Host| drop(host.submit(Command::Remap { src: Lpn(SOURCES), dst: Lpn(10), units: 1 }));
    let batch = |host: &mut Host| {
        let data = [5; UNIT_BYTES];
        let writes: [(Lpn, &[u8]); 2] = [(Lpn(8), &data), (Lpn(50), &data)];
        drop(host.submit(Command::WriteAtomic { writes: &writes }));
    };
    let steps: [&dyn Fn(&mut Host); 4] = [&trim, &share, &remap, &batch];
    for profile in drives() {
        for (number, step) in steps.iter().enumerate() {
            let work = |host: &mut Host| {
                write(host, 7, 5, NEW, false);
                step(host);
                push_out(host);
            };
            cut_everywhere(&profile, 7..12, work, |found| {
                let replaced: &[usize] = [&[2, 3, 4][..], &[2, 3, 4], &[3], &[1]][number];
                let rest: Vec<u8> =
                    (0..5).filter(|unit| !replaced.contains(unit)).map(|unit| found[unit]).collect();
                assert!(!is_torn(&rest), "step {number}, {profile:?}: {found:?}");
                let has_new = found.contains(&NEW);
                let is_back = replaced.iter().any(|unit| found[*unit] == OLD);
                assert!(!(has_new && is_back), "step {number}, {profile:?}: {found:?}");
            });
        }
    }
}

/// The drive has a queue, and the host does not wait: the write is taken in while others wait for room.
#[test]
fn a_write_that_waits_for_room_is_never_torn() {
    for profile in drives() {
        let work = |host: &mut Host| {
            let now_ns = host.now_ns;
            for first in (20..90).step_by(5) {
                let data = vec![9; 5 * UNIT_BYTES];
                let _ = host.device.submit(
                    Command::Write { lpn: Lpn(first), data: &data, fua: false, handle: None },
                    now_ns,
                );
            }
            let data = vec![NEW; 5 * UNIT_BYTES];
            let _ = host
                .device
                .submit(Command::Write { lpn: Lpn(7), data: &data, fua: false, handle: None }, now_ns);
        };
        let (mut old, mut new) = (0, 0);
        cut_everywhere(&profile, 7..12, work, |found| {
            assert!(!is_torn(found), "{profile:?}: {found:?}");
            old += u32::from(found[0] == OLD);
            new += u32::from(found[0] == NEW);
        });
        assert!(old > 0 && (new > 0 || profile.cache.mode == CacheMode::Volatile), "{old} old, {new} new");
    }
}

/// Until the cache is full, the promise costs nothing: neither time nor flash. The link takes the data in one piece, which
/// rounds once.
#[test]
fn within_the_cache_a_write_of_the_size_takes_as_long_as_before() {
    let times = |atomic_write_units| {
        let mut profile = small_drive("tlc-nvme", 4 << 20, 100.0, Plp::None);
        profile.limits.atomic_write_units = atomic_write_units;
        let mut host = Host { device: Device::in_memory(&profile).unwrap(), now_ns: 0 };
        let done = |first: u32| {
            write(&mut host, first, 4, NEW, false);
            host.now_ns
        };
        let times: Vec<u64> = (0..64).step_by(4).map(done).collect();
        host.flush();
        (times, host.now_ns, host.device.smart().counters.flash_units.host)
    };
    let ((whole, flushed_ns, programmed), (before, before_ns, before_programmed)) = (times(4), times(1));
    assert!(whole.iter().zip(&before).all(|(whole, before)| whole <= before), "{whole:?}, {before:?}");
    assert!(flushed_ns <= before_ns, "{flushed_ns} ns instead of {before_ns}");
    assert_eq!(programmed, before_programmed);
}
