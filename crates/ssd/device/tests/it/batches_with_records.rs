//! One command writes units and puts and deletes records: all or nothing, whatever happens to the power, and durable when
//! it is done.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::{profiles, small_drive};
use tantalum::{
    CacheMode, Command, Completion, Faults, Hint, Key, KvRecord, Lpn, NamespaceAttributes, NamespaceId,
    Outcome, Plp, PowerLoss, Profile, ShareRange, Status, UNIT_BYTES, result_of,
};

/// A short key, and one that the drive identifies by its record.
const KEYS: [&[u8]; 3] = [b"short", b"a long key 16 by", b"third"];

/// Bytes of the records' values: small, of several segments, and small.
const BYTES: [usize; 3] = [100, 9000, 700];

const UNITS: [u32; 3] = [5, 300, 41];

fn record<'a>(namespace: NamespaceId, key: &[u8], value: Option<&'a [u8]>) -> KvRecord<'a> {
    KvRecord { namespace, key: Key::new(key).unwrap(), value }
}

/// Gives [`UNITS`] and the first two keys this byte, and deletes the third.
fn batch(host: &mut Host, namespaces: [NamespaceId; 2], byte: u8) -> Result<Completion, Status> {
    let (unit, values) = ([byte; UNIT_BYTES], BYTES.map(|bytes| vec![byte; bytes]));
    let writes = UNITS.map(|lpn| (Lpn(lpn), &unit[..]));
    let records = [
        record(namespaces[0], KEYS[0], Some(&values[0])),
        record(namespaces[1], KEYS[1], Some(&values[1])),
        record(namespaces[0], KEYS[2], None),
    ];
    host.submit(Command::WriteBatch { writes: &writes, records: &records })
}

/// The byte of a value; 0 if there is none.
fn get(host: &mut Host, namespace: NamespaceId, key: &[u8]) -> u8 {
    let mut value = Vec::new();
    match host.submit(Command::KvGet { namespace, key: Key::new(key).unwrap(), value: &mut value }) {
        Err(Status::NoSuchKey { .. }) => 0,
        got => {
            got.unwrap();
            assert!(value.iter().all(|byte| *byte == value[0]), "the value of {key:?} is torn");
            value[0]
        }
    }
}

/// What the units and keys of a batch hold.
fn found(host: &mut Host, namespaces: [NamespaceId; 2]) -> [u8; 6] {
    let [one, two, three] = host.read_all(UNITS);
    let [first, second] = [0, 1].map(|index| get(host, namespaces[index], KEYS[index]));
    [one, two, three, first, second, get(host, namespaces[0], KEYS[2])]
}

const OLD: [u8; 6] = [1, 1, 1, 1, 1, 1];
const NEW: [u8; 6] = [2, 2, 2, 2, 2, 0];

/// A drive where everything that the batch replaces exists and waits in the cache, if there is one. One namespace has
/// its own log if the drive has room for that.
fn with_old(profile: &Profile) -> (Host, [NamespaceId; 2]) {
    let mut host = Host::new(profile);
    let attributes = NamespaceAttributes { logs: 1, ..Default::default() };
    let own = result_of(|namespace| host.submit(Command::CreateNamespace { attributes, namespace }));
    let own = match own {
        Err(Status::OverLimit { .. }) => host.create_namespace(),
        made => made.unwrap(),
    };
    let namespaces = [host.create_namespace(), own];
    for lpn in 600..700 {
        host.write(lpn, 9);
    }
    host.flush();
    for lpn in UNITS {
        host.write(lpn, 1);
    }
    for (index, namespace) in [0, 1, 0].into_iter().enumerate() {
        let value = vec![1; BYTES[index]];
        let records = [record(namespaces[namespace], KEYS[index], Some(&value))];
        host.submit(Command::KvPut { records: &records }).unwrap();
    }
    (host, namespaces)
}

fn all_profiles() -> Vec<Profile> {
    let one_unit_pages = profiles().map(|mut profile| {
        profile.flash.page_bytes = 4096;
        profile
    });
    profiles().into_iter().chain(one_unit_pages).collect()
}

#[test]
fn a_batch_is_done_and_durable_on_every_drive() {
    for profile in all_profiles() {
        let (mut host, namespaces) = with_old(&profile);
        let before = host.device.smart().counters;
        batch(&mut host, namespaces, 2).unwrap();
        assert_eq!(found(&mut host, namespaces), NEW);
        let did = host.device.smart().counters.since(&before);
        assert_eq!(did.batches_with_records, 1);
        assert_eq!((did.host_units_written, did.records_put, did.records_deleted), (3, 2, 1));
        host.device.audit();
        // power fails at the moment when the host learns that it is done
        host.cut();
        assert_eq!(found(&mut host, namespaces), NEW, "{:?}", profile.cache);
    }
}

/// Power fails at every flash operation of the batch, and each operation in flight is undone, torn or complete.
#[test]
fn a_batch_is_all_or_nothing_at_every_cut() {
    for profile in all_profiles() {
        let (host, namespaces) = with_old(&profile);
        let mut seen = [0; 2];
        for operation in 1.. {
            let mut cut = host.fork();
            cut.device.cut_after(Some(operation));
            match batch(&mut cut, namespaces, 2) {
                Ok(_) => break,
                Err(status) => assert_eq!(status, Status::PowerLost),
            }
            let under_way = cut.device.in_flight().len();
            let fixed = [Outcome::NotStarted, Outcome::Torn, Outcome::Completed].map(PowerLoss::all);
            let alone = (0..under_way).flat_map(|alone| {
                [(Outcome::Completed, Outcome::NotStarted), (Outcome::NotStarted, Outcome::Completed)].map(
                    |(one, others)| {
                        let mut fates = vec![others; under_way];
                        fates[alone] = one;
                        PowerLoss::listed(&fates, 0)
                    },
                )
            });
            for mut loss in fixed.into_iter().chain(alone) {
                let mut cut = cut.fork();
                cut.device.power_on(&mut loss).unwrap();
                cut.device.audit();
                cut.now_ns = cut.device.time_ns();
                let found = found(&mut cut, namespaces);
                // without a capacitor or FUA, units that only waited may have their old contents
                let is_old = found[3..] == OLD[3..] && found[..3].iter().all(|byte| *byte <= 1);
                assert!(found == NEW || is_old, "{:?}, operation {operation}: {found:?}", profile.cache);
                if profile.power.plp == Plp::Capacitor || profile.cache.mode == CacheMode::Off {
                    assert!(found == NEW || found == OLD, "operation {operation}: {found:?}");
                }
                seen[usize::from(found == NEW)] += 1;
            }
        }
        assert!(seen[0] >= 4, "power went before the batch was there: {seen:?}");
    }
}

/// Power fails at any moment between the first page and the last, when all of them are issued.
#[test]
fn a_batch_in_flight_is_all_or_nothing() {
    for profile in all_profiles() {
        let (mut host, namespaces) = with_old(&profile);
        host.flush();
        let start_ns = host.now_ns;
        let done_ns = batch(&mut host, namespaces, 2).unwrap().done_ns;
        let mut seen = [0; 2];
        for part in 0..40 {
            for seed in 0..6 {
                let mut cut = host.fork();
                cut.device.cut_power(start_ns + (done_ns - start_ns) * part / 40);
                cut.device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
                cut.now_ns = cut.device.time_ns();
                let found = found(&mut cut, namespaces);
                assert!(found == OLD || found == NEW, "{:?}, part {part}: {found:?}", profile.cache);
                seen[usize::from(found == NEW)] += 1;
            }
        }
        assert!(seen[0] > 0, "{seen:?}");
    }
}

/// A drive filled with units and records: all units below the number are written, and there are equally many records.
fn full() -> (Host, NamespaceId, u32) {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 30.0, Plp::None);
    profile.cache.mode = CacheMode::Off;
    let mut host = Host::new(&profile);
    let namespace = host.create_namespace();
    for number in 0..400 {
        host.put(namespace, number, 3000).unwrap();
    }
    for lpn in 0.. {
        match host.submit(Command::Write { lpn: Lpn(lpn), data: &[1; UNIT_BYTES], fua: true, handle: None }) {
            Ok(_) => {}
            Err(Status::CapacityExceeded) => return (host, namespace, lpn),
            Err(other) => panic!("unit {lpn}: {other}"),
        }
    }
    unreachable!("the drive is not full")
}

fn number(number: u32) -> Key {
    Key::new(&number.to_le_bytes()).unwrap()
}

/// Neither kind has changed, now or after a cut.
#[test]
fn a_refused_batch_has_changed_nothing() {
    let (mut host, namespace, end) = full();
    let (unit, value) = ([2; UNIT_BYTES], [2; 3000]);
    let new_record = [KvRecord { namespace, key: number(1000), value: Some(&value) }];
    let old_record = [KvRecord { namespace, key: number(7), value: Some(&value) }];
    let gone = KvRecord { namespace, key: number(8), value: None };
    let refusals: [(u32, &[KvRecord<'_>]); 3] =
        [(3, &new_record), (end, &old_record), (end, &[old_record[0], gone])];
    for (lpn, records) in refusals {
        let writes = [(Lpn(3), &unit[..]), (Lpn(if lpn == 3 { 4 } else { lpn }), &unit[..])];
        let refused = host.submit(Command::WriteBatch { writes: &writes, records });
        assert_eq!(refused.map(drop), Err(Status::CapacityExceeded));
    }
    host.device.audit();
    for is_cut in [false, true] {
        if is_cut {
            host.cut();
        }
        assert_eq!(host.read_all([3, 4, end]), [1, 1, 0]);
        assert_eq!([7, 8, 1000].map(|key| get(&mut host, namespace, &u32::to_le_bytes(key))), [5, 5, 0]);
    }
    // what takes no more room is done, and what makes room
    let overwrite = [(Lpn(3), &unit[..])];
    host.submit(Command::WriteBatch { writes: &overwrite, records: &[gone] }).unwrap();
    assert_eq!(host.read(3), 2);
    assert_eq!(get(&mut host, namespace, &8_u32.to_le_bytes()), 0);
}

/// Admitted separately, both took the same room.
#[test]
fn units_and_records_of_a_batch_have_room_together_or_are_refused() {
    let (mut host, namespace, end) = full();
    host.trim(end - 6);
    host.trim(end - 5);
    host.trim(end - 4);
    host.trim(end - 3);
    let (unit, value) = ([2; UNIT_BYTES], [2; 3000]);
    let records: Vec<KvRecord<'_>> =
        (1000..1004).map(|key| KvRecord { namespace, key: number(key), value: Some(&value) }).collect();
    let writes: Vec<(Lpn, &[u8])> = (end - 6..end - 2).map(|lpn| (Lpn(lpn), &unit[..])).collect();
    // each kind alone has room
    for command in [
        Command::WriteBatch { writes: &writes, records: &[] },
        Command::WriteBatch { writes: &[], records: &records[..3] },
    ] {
        host.fork().submit(command).unwrap();
    }
    let both = Command::WriteBatch { writes: &writes, records: &records[..3] };
    assert_eq!(host.submit(both).map(drop), Err(Status::CapacityExceeded));
    host.device.audit();
    host.submit(Command::WriteBatch { writes: &writes[..1], records: &records[..1] }).unwrap();
    host.cut();
    assert_eq!(host.read(end - 6), 2);
}

#[test]
fn what_no_batch_may_be_is_refused_before_anything_changes() {
    let (mut host, namespaces) = with_old(&profiles()[0]);
    let (unit, value, large) = ([2; UNIT_BYTES], [2; 10], vec![2; 3 << 20]);
    let limits = host.device.limits();
    let good = [record(namespaces[0], KEYS[0], Some(&value))];
    let one = [(Lpn(UNITS[0]), &unit[..])];
    let many: Vec<(Lpn, &[u8])> = (0..=limits.atomic_units).map(|lpn| (Lpn(lpn), &unit[..])).collect();
    let many_records: Vec<[u8; 4]> = (0..=limits.key_value.put_records).map(u32::to_le_bytes).collect();
    let many_records: Vec<KvRecord<'_>> =
        many_records.iter().map(|key| record(namespaces[0], key, Some(&value))).collect();
    let refused = |host: &mut Host, writes: &[(Lpn, &[u8])], records: &[KvRecord<'_>]| {
        host.submit(Command::WriteBatch { writes, records }).unwrap_err()
    };
    let twice = [one[0], one[0]];
    assert!(matches!(refused(&mut host, &twice, &good), Status::InvalidField(_)));
    assert!(matches!(refused(&mut host, &one, &[good[0], good[0]]), Status::InvalidField(_)));
    assert!(matches!(refused(&mut host, &[(Lpn(5), &unit[1..])], &good), Status::DataLength { .. }));
    let beyond = [(Lpn(limits.capacity_units as u32), &unit[..])];
    assert!(matches!(refused(&mut host, &beyond, &good), Status::OutOfRange { .. }));
    let nowhere = [record(NamespaceId(77), KEYS[0], Some(&value))];
    assert!(matches!(refused(&mut host, &one, &nowhere), Status::NoSuchNamespace { .. }));
    let too_large = [record(namespaces[0], KEYS[0], Some(&large))];
    assert!(matches!(refused(&mut host, &one, &too_large), Status::ValueTooLarge { .. }));
    assert!(matches!(refused(&mut host, &many, &good), Status::OverLimit { .. }));
    assert!(matches!(refused(&mut host, &one, &many_records), Status::OverLimit { .. }));
    assert_eq!(found(&mut host, namespaces), OLD);
}

/// Programs fail until the batch has no room, after some of its pages: what was programmed of it does not count.
#[test]
fn a_batch_that_fails_half_way_has_changed_nothing() {
    let mut half_way = 0;
    for seed in 0..40 {
        let (mut host, namespaces) = with_old(&profiles()[1]);
        let before = host.device.smart().counters;
        let failing = Faults { seed, program_failure_ppm: 985_000, ..Faults::default() };
        host.device.set_faults(failing).unwrap();
        let answer = batch(&mut host, namespaces, 2);
        host.device.set_faults(Faults::default()).unwrap();
        let programmed = host.device.smart().counters.since(&before).flash_units.total();
        let expected = if answer.is_ok() { NEW } else { OLD };
        half_way += u32::from(answer.is_err() && programmed > 0);
        assert_eq!(found(&mut host, namespaces), expected, "seed {seed}: {answer:?}");
        host.cut();
        assert_eq!(found(&mut host, namespaces), expected, "seed {seed} after a cut: {answer:?}");
    }
    assert!(half_way > 0, "no batch failed after its first page");
}

/// A log page that the batch replaces no longer claims its home, exactly if the batch was done; and what the batch gives
/// a home is newer than the page that claims it.
#[test]
fn a_batch_ends_claims_with_all_of_it() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let namespace = host.create_namespace();
        for lpn in [10, 11, 12] {
            host.write_through(lpn, 1);
        }
        let log = host.begin_log();
        for (slot, lpn, home) in [(1, 50, 10), (2, 51, 11), (3, 52, 12)] {
            let page = Hint { first: 1, end: slot == 3, ..hint(log, slot, home) };
            host.write_page(lpn, 3, page).unwrap();
        }
        host.flush();
        let unit = [8; UNIT_BYTES];
        // a page of the log, and the home of another one
        let writes = [(Lpn(50), &unit[..]), (Lpn(11), &unit[..])];
        let records = [record(namespace, b"key", Some(&[8; 40]))];
        for operation in 1.. {
            let mut cut = host.fork();
            cut.device.cut_after(Some(operation));
            let done = cut.submit(Command::WriteBatch { writes: &writes, records: &records }).is_ok();
            for outcome in [Outcome::NotStarted, Outcome::Torn, Outcome::Completed] {
                let mut cut = cut.fork();
                if done {
                    cut.cut();
                } else {
                    cut.device.power_on(&mut PowerLoss::all(outcome)).unwrap();
                    cut.now_ns = cut.device.time_ns();
                }
                let found = (cut.read_all([50, 10, 11, 12]), get(&mut cut, namespace, b"key"));
                let (undone, all) = (([3, 3, 3, 3], 0), ([8, 1, 8, 3], 8));
                // with the claims' end on its way, all of the batch may be there and the page at home before
                let between = ([8, 3, 8, 3], 8);
                let allowed = if done { vec![all] } else { vec![undone, all, between] };
                assert!(allowed.contains(&found), "operation {operation}, done {done}: {found:?}");
            }
            if done {
                break;
            }
        }
    }
}

#[test]
fn batches_go_with_transactions_and_shares() {
    for profile in profiles() {
        let (mut host, namespaces) = with_old(&profile);
        let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
        for lpn in [UNITS[0], 77] {
            host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &[6; UNIT_BYTES] }).unwrap();
        }
        host.share(200, UNITS[1]);
        batch(&mut host, namespaces, 2).unwrap();
        assert_eq!(host.read_all([UNITS[0], UNITS[1], 200, 77]), [2, 2, 1, 0]);
        let ranges = [ShareRange { dst: Lpn(201), src: Lpn(UNITS[1]), units: 1 }];
        host.submit(Command::Share { ranges: &ranges, deferred: false }).unwrap();
        let mut uncommitted = host.fork();
        uncommitted.cut();
        assert_eq!(uncommitted.read_all([UNITS[0], 200, 201, 77]), [2, 1, 2, 0]);
        host.submit(Command::Commit { tx }).unwrap();
        host.cut();
        assert_eq!(host.read_all([UNITS[0], UNITS[1], 200, 201, 77]), [6, 2, 1, 2, 6]);
        assert_eq!(found(&mut host, namespaces), [6, 2, 2, 2, 2, 0]);
    }
}

/// A host with a queue deletes a key that a batch in flight has deleted: the delete is not done before the batch is.
#[test]
fn a_delete_behind_a_batch_that_deletes_is_durable_when_it_is_done() {
    for profile in profiles() {
        let (mut host, namespaces) = with_old(&profile);
        host.flush();
        let start_ns = host.now_ns;
        let batch_ns = batch(&mut host, namespaces, 2).unwrap().done_ns;
        let key = Key::new(KEYS[2]).unwrap();
        let records = [KvRecord { namespace: namespaces[0], key, value: None }];
        let deleted_ns =
            host.device.submit(Command::KvPut { records: &records }, start_ns.max(host.device.issued_ns()));
        let deleted_ns = deleted_ns.unwrap().done_ns;
        for seed in 0..8 {
            let mut cut = host.fork();
            cut.device.cut_power(deleted_ns);
            cut.device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
            cut.now_ns = cut.device.time_ns();
            assert_eq!(get(&mut cut, namespaces[0], KEYS[2]), 0, "deleted {deleted_ns}, batch {batch_ns}");
        }
    }
}

/// Garbage is collected throughout: members are moved, and their blocks erased.
#[test]
fn members_that_were_moved_stay() {
    for profile in profiles() {
        let (mut host, namespaces) = with_old(&profile);
        batch(&mut host, namespaces, 2).unwrap();
        let erased = host.device.smart().counters.blocks_erased;
        for round in 0..6000_u32 {
            host.write_through(600 + round * 7 % 300, round as u8);
            if round % 1000 == 0 {
                let mut cut = host.fork();
                cut.cut();
                assert_eq!(found(&mut cut, namespaces), NEW, "round {round}");
            }
        }
        let erased = host.device.smart().counters.blocks_erased - erased;
        assert!(erased > 20, "{erased} blocks were erased");
        host.flush();
        host.cut();
        assert_eq!(found(&mut host, namespaces), NEW);
    }
}

/// The drive of an image that was closed, and is opened again.
#[test]
fn a_batch_is_there_after_a_clean_shutdown() {
    let (mut host, namespaces) = with_old(&profiles()[2]);
    batch(&mut host, namespaces, 2).unwrap();
    host.device.power_off(host.now_ns).unwrap();
    let report = host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
    assert!(report.clean);
    host.now_ns = host.device.time_ns();
    assert_eq!(found(&mut host, namespaces), NEW);
}
