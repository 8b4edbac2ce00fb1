//! What the completion of each kind of command that makes something durable waits for: flash programs and erases in turn,
//! read from its latency. A host's command waits for what its promise needs, and for nothing else.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, FlashScheduling, Generation, Key, KvRecord, Lpn, Nanoseconds, NvmProfile, Plp, Profile,
    ShareRange, UNIT_BYTES, result_of,
};

use crate::host::{Host, hint};
use crate::small_drive::small_drive;

/// So far apart that a latency is a number of each, and so long that transfers, reads and firmware do not count.
const PROGRAM_NS: Nanoseconds = 100_000_000;
const ERASE_NS: Nanoseconds = 1000 * PROGRAM_NS;

/// Erases and programs in turn.
type Waited = (u64, u64);

fn profile(plp: Plp) -> Profile {
    let name = if plp == Plp::Nvm { "pebblessd" } else { "tlc-nvme" };
    let mut profile = small_drive(name, 4 << 20, 100.0, plp);
    if plp == Plp::Nvm {
        let nvm = NvmProfile { bytes: 1 << 20, latency_ns: 500, bytes_per_second: 3_000_000_000, files: 0 };
        profile.nvm = Some(nvm);
    }
    (profile.flash.program_ns, profile.flash.erase_ns) = (PROGRAM_NS, ERASE_NS);
    (profile.flash.read_ns, profile.flash.scheduling) = (50_000, FlashScheduling::ReadFirst);
    (profile.flash.suspend_ns, profile.flash.suspensions) = (None, None);
    profile
}

/// Issues a command, and returns what its completion waited for.
fn waited(host: &mut Host, command: Command<'_>) -> Waited {
    let start_ns = host.now_ns;
    host.submit(command).unwrap();
    let took_ns = host.now_ns - start_ns;
    (took_ns / ERASE_NS, took_ns % ERASE_NS / PROGRAM_NS)
}

/// Nothing is in flight.
fn idle(host: &mut Host) {
    host.now_ns += 100 * ERASE_NS;
}

const DATA: [u8; UNIT_BYTES] = [7; UNIT_BYTES];

fn write(lpn: u32, fua: bool) -> Command<'static> {
    Command::Write { lpn: Lpn(lpn), data: &DATA, fua, handle: None }
}

/// A drive with a namespace, an open log, and data in units 0 to 15.
fn prepared(plp: Plp) -> (Host, Generation) {
    let mut host = Host::new(&profile(plp));
    host.create_namespace();
    (0..16).for_each(|lpn| host.write(lpn, 1));
    host.flush();
    // with a capacitor too, nothing waits after this
    host.write(30, 1);
    host.share(31, 30);
    let log = host.begin_log();
    idle(&mut host);
    (host, log)
}

/// Each command with its preparation, on an idle drive whose blocks need no erase.
#[test]
fn a_command_on_an_idle_drive_waits_for_its_own_pages() {
    type Kind = (&'static str, [Waited; 3], fn(&mut Host, Generation) -> Waited);
    // without a capacitor, with one, and with the metadata log in memory
    let kinds: [Kind; 18] = [
        ("a flush of nothing", [(0, 0); 3], |host, _| waited(host, Command::Flush)),
        ("a write and a flush", [(0, 1), (0, 0), (0, 1)], |host, _| {
            waited(host, write(3, false));
            waited(host, Command::Flush)
        }),
        ("a durable write", [(0, 1), (0, 0), (0, 1)], |host, _| waited(host, write(3, true))),
        ("a share", [(0, 1), (0, 0), (0, 0)], |host, _| share(host, 20, 1, false)),
        ("a share of what waits: the unit, then the record", [(0, 2), (0, 1), (0, 1)], |host, _| {
            waited(host, write(3, false));
            share(host, 20, 3, false)
        }),
        ("a deferred share", [(0, 0); 3], |host, _| share(host, 20, 1, true)),
        ("a deferred share and a flush", [(0, 1), (0, 0), (0, 0)], |host, _| {
            share(host, 20, 1, true);
            waited(host, Command::Flush)
        }),
        ("a remap", [(0, 1), (0, 0), (0, 0)], |host, _| {
            waited(host, Command::Remap { src: Lpn(1), dst: Lpn(20), units: 1 })
        }),
        ("a trim", [(0, 0); 3], |host, _| waited(host, Command::Trim { lpn: Lpn(1), units: 2 })),
        ("a trim and a flush", [(0, 1), (0, 0), (0, 0)], |host, _| {
            waited(host, Command::Trim { lpn: Lpn(1), units: 2 });
            waited(host, Command::Flush)
        }),
        ("a batch of a page on each plane", [(0, 1); 3], |host, _| {
            let writes: Vec<(Lpn, &[u8])> = (0..4).map(|lpn| (Lpn(2 * lpn), &DATA[..])).collect();
            waited(host, Command::WriteAtomic { writes: &writes })
        }),
        ("a page of a transaction, then its records", [(0, 2), (0, 1), (0, 1)], |host, _| {
            let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
            waited(host, Command::TxWrite { tx, lpn: Lpn(1), data: &DATA });
            waited(host, Command::Commit { tx })
        }),
        ("pages of a log and a flush", [(0, 1), (0, 0), (0, 1)], |host, log| {
            (1..=4).for_each(|slot| write_log(host, log, slot));
            waited(host, Command::Flush)
        }),
        (
            "what comes home from a log; with a capacitor the page still waits",
            [(0, 0), (0, 1), (0, 0)],
            |host, log| {
                write_log(host, log, 1);
                host.flush();
                idle(host);
                share(host, 1, 41, false)
            },
        ),
        (
            "a durable write over a page of a log: the page, and the end of its claim",
            [(0, 2), (0, 0), (0, 1)],
            |host, log| {
                write_log(host, log, 1);
                host.flush();
                idle(host);
                waited(host, write(41, true))
            },
        ),
        ("a put", [(0, 1), (0, 0), (0, 1)], |host, _| put(host, Some(&DATA[..100]))),
        ("a put of a page on each plane", [(0, 1), (0, 0), (0, 1)], |host, _| {
            put(host, Some(&[1; 3 * UNIT_BYTES]))
        }),
        ("a delete of a key", [(0, 1), (0, 0), (0, 1)], |host, _| {
            put(host, Some(&DATA[..100]));
            idle(host);
            let namespace = host.device.namespaces()[0].namespace;
            waited(host, Command::KvDelete { namespace, key: Key::new(b"key").unwrap() })
        }),
    ];
    for (name, expected, kind) in kinds {
        let found = [Plp::None, Plp::Capacitor, Plp::Nvm].map(|plp| {
            let (mut host, log) = prepared(plp);
            kind(&mut host, log)
        });
        assert_eq!(found, expected, "{name}");
    }
}

fn write_log(host: &mut Host, log: Generation, slot: u32) {
    host.write_page(40 + slot, 2, hint(log, slot, slot)).unwrap();
}

fn share(host: &mut Host, dst: u32, src: u32, deferred: bool) -> Waited {
    waited(
        host,
        Command::Share { ranges: &[ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }], deferred },
    )
}

fn put(host: &mut Host, value: Option<&[u8]>) -> Waited {
    let namespace = host.device.namespaces()[0].namespace;
    let records = [KvRecord { namespace, key: Key::new(b"key").unwrap(), value }];
    waited(host, Command::KvPut { records: &records })
}

/// How many commands waited for what.
type Waits = BTreeMap<Waited, u32>;

/// Writes a log in transactions of four pages, each flushed, again and again; between its lives, all pages come home.
/// Returns what the flushes waited for, and how many pages the journal took.
fn log_on_a_full_drive(profile: &Profile) -> (Waits, u64) {
    let mut host = Host::new(profile);
    let (mut waits, pages) = (Waits::new(), 64);
    let before = host.device.smart().counters;
    for _ in 0..60 {
        let log = host.begin_log();
        for slot in 1..=pages {
            host.write_page(500 + slot, slot as u8, hint(log, slot, slot)).unwrap();
            if slot % 4 == 0 {
                idle(&mut host);
                *waits.entry(waited(&mut host, Command::Flush)).or_default() += 1;
            }
        }
        for slot in 1..=pages {
            share(&mut host, slot, 500 + slot, true);
        }
        host.flush();
    }
    let after = host.device.smart().counters;
    assert!(after.blocks_erased > before.blocks_erased + 100, "blocks are used again");
    (waits, (after.flash_units.journal - before.flash_units.journal) / 2)
}

/// Each erase of a block with pages of a log recorded its whole run again, and a flush waited for that page and for the
/// erase behind it.
#[test]
fn a_flush_of_a_log_waits_for_its_pages_although_blocks_are_erased() {
    let (waits, journal) = log_on_a_full_drive(&profile(Plp::None));
    // four units are a page on each of two planes, or two pages on one of them
    assert!(waits.keys().all(|waited| [(0, 1), (0, 2)].contains(waited)), "{waits:?}");
    assert!(journal <= 2, "{journal} pages of the journal");
}

/// Small random writes to a full drive, each flushed, while garbage collection moves most of each block and checkpoints
/// are taken.
fn writes_on_a_full_drive(profile: &Profile, mut command: impl FnMut(&mut Host, u32) -> Waited) -> Waits {
    let mut host = Host::new(profile);
    let units = host.device.limits().capacity_units as u32;
    for lpn in 0..units {
        host.write(lpn, 1);
    }
    host.flush();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut waits = Waits::new();
    for _ in 0..3 * units {
        let lpn = random.random_range(1..units);
        idle(&mut host);
        *waits.entry(command(&mut host, lpn)).or_default() += 1;
    }
    let counters = host.device.smart().counters;
    assert!(counters.flash_units.copyback > u64::from(units), "garbage was collected");
    assert!(counters.checkpoints > 20, "{} checkpoints", counters.checkpoints);
    waits
}

#[test]
fn a_flush_does_not_wait_for_garbage_collection() {
    for plp in [Plp::None, Plp::Nvm] {
        let mut profile = profile(plp);
        (profile.over_provisioning_percent, profile.ftl.checkpoint_interval_pages) = (40.0, Some(60));
        let waits = writes_on_a_full_drive(&profile, |host, lpn| {
            host.write(lpn, 2);
            waited(host, Command::Flush)
        });
        let all: u32 = waits.values().sum();
        assert!(waits[&(0, 1)] > all / 20 * 19, "only pages in a block just opened wait for more: {waits:?}");
    }
}

/// After each flush a checkpoint is taken, and the next one follows at once.
#[test]
fn a_flush_does_not_wait_for_a_checkpoint() {
    let mut profile = profile(Plp::None);
    profile.ftl.checkpoint_interval_pages = Some(1);
    let mut host = Host::new(&profile);
    let mut waits = Waits::new();
    for lpn in 0..100 {
        host.write(lpn, 2);
        *waits.entry(waited(&mut host, Command::Flush)).or_default() += 1;
    }
    assert!(host.device.smart().counters.checkpoints >= 50);
    // its own page, behind one of the checkpoint that has begun
    assert!(waits.keys().all(|(erases, programs)| (*erases, *programs <= 2) == (0, true)), "{waits:?}");
}
