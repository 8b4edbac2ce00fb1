//! Key-value namespaces from the host's side: random work against a model, over power cuts, garbage collection and clean
//! shutdowns; large values; limits and refusals. `SEEDS=n` runs more seeds, a failure prints its seed.

use crate::small_drive;

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use small_drive::small_drive;
use tantalum::{
    Command, Device, Key, KvRecord, Lpn, NamespaceAttributes, NamespaceId, Nanoseconds, Plp, PowerLoss,
    Profile, Status, UNIT_BYTES, result_of,
};

/// A drive with its client's clock.
struct Host {
    device: Device,
    now_ns: Nanoseconds,
}

fn profile(name: &str, capacity_bytes: u64) -> Profile {
    Profile { capacity_bytes, ..Profile::load(name).unwrap() }
}

/// A drive small enough that garbage is collected soon.
fn small(plp: Plp) -> Profile {
    small_drive("tlc-nvme", 4 << 20, 100.0, plp)
}

fn key(number: u64) -> Key {
    // lengths on both sides of the limit up to which a hash identifies a key
    let text = format!("{number:0width$}", width = 4 + (number % 12) as usize);
    Key::new(text.as_bytes()).unwrap()
}

impl Host {
    fn new(profile: &Profile) -> Host {
        Host { device: Device::in_memory(profile).unwrap(), now_ns: 0 }
    }

    fn submit(&mut self, command: Command<'_>) -> Result<tantalum::Completion, Status> {
        let completion = self.device.submit(command, self.now_ns)?;
        self.now_ns = self.now_ns.max(completion.done_ns);
        Ok(completion)
    }

    fn create(&mut self) -> NamespaceId {
        self.create_with(0)
    }

    /// A namespace with this many logs of its own.
    fn create_with(&mut self, logs: u32) -> NamespaceId {
        let attributes = NamespaceAttributes { logs, ..NamespaceAttributes::default() };
        self.create_as(attributes).unwrap()
    }

    fn create_as(&mut self, attributes: NamespaceAttributes) -> Result<NamespaceId, Status> {
        result_of(|namespace| self.submit(Command::CreateNamespace { attributes, namespace }))
    }

    fn put(&mut self, namespace: NamespaceId, key: Key, value: &[u8]) -> Result<(), Status> {
        self.submit(Command::KvPut { records: &[KvRecord { namespace, key, value: Some(value) }] }).map(drop)
    }

    fn get(&mut self, namespace: NamespaceId, key: Key) -> Result<Vec<u8>, Status> {
        let mut value = vec![9];
        self.submit(Command::KvGet { namespace, key, value: &mut value }).map(|_| value)
    }

    fn list(&mut self, namespace: NamespaceId, from: Option<&Key>, limit: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        self.submit(Command::KvList { namespace, from: from.copied(), keys: &mut keys, limit }).unwrap();
        keys
    }

    /// All keys, a few at a time.
    fn list_all(&mut self, namespace: NamespaceId) -> Vec<Key> {
        let mut all = self.list(namespace, None, 3);
        loop {
            let Some(last) = all.last().copied() else { return all };
            let more = self.list(namespace, Some(&last), 7);
            assert_eq!(more.first(), Some(&last));
            if more.len() == 1 {
                return all;
            }
            all.extend(&more[1..]);
        }
    }

    fn cut(&mut self, seed: u64) {
        self.device.cut_power(self.now_ns);
        self.device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
    }
}

type Model = BTreeMap<(NamespaceId, Key), Vec<u8>>;

fn compare(host: &mut Host, model: &Model, namespaces: &[NamespaceId]) {
    host.device.audit();
    for ((namespace, key), value) in model {
        assert_eq!(host.get(*namespace, *key).as_ref(), Ok(value), "{namespace} {key}");
    }
    for namespace in namespaces {
        let mut keys = host.list_all(*namespace);
        keys.sort();
        let expected: Vec<Key> =
            model.keys().filter(|(of, _)| of == namespace).map(|(_, key)| *key).collect();
        assert_eq!(keys, expected);
        let info = host.device.namespaces().into_iter().find(|info| info.namespace == *namespace).unwrap();
        assert_eq!(info.records, expected.len() as u64);
    }
}

fn random_put(
    host: &mut Host,
    model: &mut Model,
    namespaces: &[NamespaceId],
    rng: &mut Xoshiro256PlusPlus,
    largest: usize,
) {
    let mut batch: BTreeMap<(NamespaceId, Key), Option<Vec<u8>>> = BTreeMap::new();
    for _ in 0..rng.random_range(1..12) {
        let namespace = namespaces[rng.random_range(0..namespaces.len())];
        let value = rng.random_ratio(3, 4).then(|| {
            let bytes = if rng.random_ratio(1, 10) { largest } else { 300 };
            vec![rng.random_range(0..=255); rng.random_range(0..=bytes)]
        });
        // most work is on few keys, so that collected blocks hold records of others
        let keys = if rng.random_ratio(3, 4) { 30 } else { 400 };
        batch.insert((namespace, key(rng.random_range(0..keys))), value);
    }
    let records: Vec<KvRecord<'_>> = batch
        .iter()
        .map(|((namespace, key), value)| KvRecord {
            namespace: *namespace,
            key: *key,
            value: value.as_deref(),
        })
        .collect();
    host.submit(Command::KvPut { records: &records }).unwrap();
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

#[test]
fn random_work_survives_cuts_and_shutdowns() {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut host = Host::new(&small([Plp::None, Plp::Capacitor][seed as usize % 2]));
        // the drive's log, then namespaces with their own logs as well, then only these
        let logs: &[u32] = [&[0, 0][..], &[0, 1, 2], &[2, 1]][seed as usize / 2 % 3];
        let mut namespaces: Vec<NamespaceId> = logs.iter().map(|logs| host.create_with(*logs)).collect();
        let mut model = Model::new();
        for round in 0..12 {
            for _ in 0..rng.random_range(1..200) {
                random_put(&mut host, &mut model, &namespaces, &mut rng, 20_000);
                let data = vec![7; 8 * UNIT_BYTES];
                host.submit(Command::Write {
                    lpn: Lpn(rng.random_range(0..700)),
                    data: &data,
                    fua: false,
                    handle: None,
                })
                .unwrap();
            }
            compare(&mut host, &model, &namespaces);
            if round % 4 == 3 {
                host.device.power_off(host.now_ns).unwrap();
                host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
                assert!(host.device.recovery().clean);
            } else {
                host.cut(seed + round);
            }
            compare(&mut host, &model, &namespaces);
            if round % 5 == 4 {
                let gone = namespaces.remove(0);
                host.submit(Command::DeleteNamespace { namespace: gone }).unwrap();
                model.retain(|(of, _), _| *of != gone);
                namespaces.push(host.create_with(logs[round as usize % logs.len()]));
                assert_eq!(host.get(gone, key(1)), Err(Status::NoSuchNamespace { namespace: gone }));
            }
        }
        let smart = host.device.smart();
        assert!(
            smart.counters.flash_units.key_value_copyback > 0 && smart.counters.collections > 0,
            "{smart:?}"
        );
    }
}

/// A put over two namespaces with logs of their own takes a page of each, though its units would fit one: power is cut at
/// every program of it.
#[test]
fn a_put_over_several_logs_is_all_or_nothing() {
    for plp in [Plp::None, Plp::Capacitor] {
        let mut host = Host::new(&small(plp));
        let namespaces = [1, 2].map(|logs| host.create_with(logs));
        let put = |host: &mut Host, value: &[u8]| {
            let record = |namespace| KvRecord { namespace, key: key(1), value: Some(value) };
            host.submit(Command::KvPut { records: &namespaces.map(record) }).map(drop)
        };
        put(&mut host, b"old").unwrap();
        for operation in 1..=3 {
            for seed in 0..8 {
                let mut cut = Host { device: host.device.try_clone().unwrap(), now_ns: host.now_ns };
                cut.device.cut_after(Some(operation));
                let done = put(&mut cut, b"new").is_ok();
                assert_eq!(done, operation == 3, "it takes two programs");
                cut.cut(seed);
                let found = namespaces.map(|namespace| cut.get(namespace, key(1)).unwrap());
                assert!(found.iter().all(|value| *value == found[0]), "{operation} {seed}: {found:?}");
                assert!(found[0] == b"new" || !done && found[0] == b"old", "{operation} {seed}: {found:?}");
                cut.device.audit();
            }
        }
    }
}

/// A drive whose programs take so long that a client notices one that it waits for.
fn slow(plp: Plp) -> Profile {
    let mut profile = small(plp);
    profile.flash.program_ns = 1_000_000;
    profile
}

/// A put of a value of several pages, and one of many records.
fn large_puts(host: &mut Host, namespace: NamespaceId, value: u8) {
    let values = [vec![value; 30_000], vec![value; 500]];
    let record = |number| KvRecord { namespace, key: key(number), value: Some(&values[1]) };
    let records: Vec<KvRecord<'_>> = (1..20).map(record).collect();
    host.put(namespace, key(0), &values[0]).unwrap();
    host.submit(Command::KvPut { records: &records }).unwrap();
}

/// KAML, section 3.2.4. Power is cut when they are acknowledged: none, some or all of their programs are done.
#[test]
fn puts_of_many_units_are_acknowledged_when_a_capacitor_protects_them() {
    for plp in [Plp::None, Plp::Capacitor] {
        let profile = slow(plp);
        let mut host = Host::new(&profile);
        let namespace = host.create();
        large_puts(&mut host, namespace, 1);
        host.now_ns += 100 * profile.flash.program_ns;
        let begun_ns = host.now_ns;
        large_puts(&mut host, namespace, 2);
        let waited_ns = host.now_ns - begun_ns;
        let protected = plp == Plp::Capacitor;
        assert_eq!(waited_ns < profile.flash.program_ns, protected, "{waited_ns}");
        for seed in 0..20 {
            let device = host.device.try_clone().unwrap();
            let mut cut = Host { device, now_ns: host.now_ns + seed % 5 * profile.flash.program_ns };
            cut.cut(seed);
            assert!(seed % 5 != 0 || !protected || cut.device.recovery().units_restored > 0);
            cut.cut(seed);
            cut.device.audit();
            assert_eq!(cut.get(namespace, key(0)), Ok(vec![2; 30_000]), "seed {seed}");
            for number in 1..20 {
                assert_eq!(cut.get(namespace, key(number)), Ok(vec![2; 500]), "seed {seed}");
            }
        }
    }
}

/// Hazard 12: clients put far more than a capacitor can dump, each of them waits for room, and power fails at any time.
/// The drive panics if its capacitor would have to save more than it can. Everything acknowledged is there, and nothing
/// else in part.
#[test]
fn puts_of_many_units_wait_for_room() {
    let profile = slow(Plp::Capacitor);
    let mut host = Host::new(&profile);
    let namespace = host.create();
    let value = |client: u64, version: u8| vec![version * 16 + client as u8; 30_000];
    for client in 0..16 {
        host.put(namespace, key(client), &value(client, 1)).unwrap();
    }
    host.now_ns += 100 * profile.flash.program_ns;
    // all at once: 128 units, of which 24 have room
    let mut done_ns = Vec::new();
    for client in 0..16 {
        let value = value(client, 2);
        let records = [KvRecord { namespace, key: key(client), value: Some(&value) }];
        let done = host.device.submit(Command::KvPut { records: &records }, host.now_ns).unwrap();
        done_ns.push(done.done_ns - host.now_ns);
    }
    assert!(done_ns.is_sorted(), "{done_ns:?}");
    let program_ns = profile.flash.program_ns;
    let waited = done_ns.iter().filter(|done_ns| **done_ns > program_ns).count();
    assert_eq!(waited, 13, "{done_ns:?}");
    for seed in 0..60 {
        let cut_ns = seed * program_ns / 2;
        let mut cut = Host { device: host.device.try_clone().unwrap(), now_ns: host.now_ns + cut_ns };
        cut.cut(seed);
        cut.device.audit();
        for client in 0..16 {
            let found = cut.get(namespace, key(client)).unwrap();
            let acknowledged = done_ns[client as usize] <= cut_ns;
            let is_old = !acknowledged && found == value(client, 1);
            assert!(found == value(client, 2) || is_old, "seed {seed}, client {client}");
        }
    }
}

/// A put that can never fit is on flash when it returns, and is not dumped before.
#[test]
fn a_put_that_protected_dram_has_no_room_for_waits_for_flash() {
    let profile = slow(Plp::Capacitor);
    let mut host = Host::new(&profile);
    let namespace = host.create();
    host.put(namespace, key(1), &[1; 450_000]).unwrap();
    let begun_ns = host.now_ns;
    host.put(namespace, key(1), &[2; 450_000]).unwrap();
    let waited_ns = host.now_ns - begun_ns;
    assert!(waited_ns > 20 * profile.flash.program_ns, "{waited_ns}");
    for (seed, cut_ns) in [0, waited_ns / 2, waited_ns - 1, waited_ns].into_iter().enumerate() {
        let mut cut = Host { device: host.device.try_clone().unwrap(), now_ns: begun_ns + cut_ns };
        cut.cut(seed as u64);
        cut.device.audit();
        let found = cut.get(namespace, key(1)).unwrap();
        let expected: &[u8] = if cut_ns == waited_ns { &[2] } else { &[1, 2] };
        assert!(found.len() == 450_000 && expected.contains(&found[0]), "{cut_ns}");
        assert!(found.iter().all(|byte| *byte == found[0]));
    }
}

/// A large put that waits for room replaces a record that waits for a full page: power fails before there is room.
#[test]
fn what_a_put_replaces_is_there_until_it_is_acknowledged() {
    let profile = slow(Plp::Capacitor);
    let mut host = Host::new(&profile);
    let namespace = host.create();
    host.put(namespace, key(1), b"old").unwrap();
    for number in 2..5 {
        host.put(namespace, key(number), &[1; 30_000]).unwrap();
    }
    let begun_ns = host.now_ns;
    host.put(namespace, key(1), &[2; 30_000]).unwrap();
    let done_ns = host.now_ns;
    assert!(done_ns > begun_ns + profile.flash.program_ns / 2, "it waited");
    for (seed, now_ns) in [begun_ns, done_ns - 1, done_ns, done_ns].into_iter().enumerate() {
        let mut cut = Host { device: host.device.try_clone().unwrap(), now_ns };
        cut.cut(seed as u64);
        cut.device.audit();
        let found = cut.get(namespace, key(1)).unwrap();
        assert!(found == [2; 30_000] || now_ns < done_ns && found == b"old", "{now_ns}");
    }
}

#[test]
fn what_waits_for_the_logs_of_a_deleted_namespace_goes_with_it() {
    let mut host = Host::new(&small(Plp::Capacitor));
    let [gone, kept] = [1, 1].map(|logs| host.create_with(logs));
    host.put(gone, key(1), b"gone").unwrap();
    host.put(kept, key(1), b"kept").unwrap();
    host.submit(Command::DeleteNamespace { namespace: gone }).unwrap();
    host.device.power_off(host.now_ns).unwrap();
    host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
    assert_eq!(host.get(kept, key(1)), Ok(b"kept".to_vec()));
    assert_eq!(host.device.smart().counters.flash_units.key_value, 1);
}

/// Hazard 12: records that wait for many namespaces' own logs, and a cache that is full. The drive panics if its capacitor
/// would have to save more than it can.
#[test]
fn records_that_wait_for_many_logs_leave_the_cache_less() {
    let mut profile = small(Plp::Capacitor);
    profile.over_provisioning_percent = 300.0;
    profile.cache.bytes = 160 * UNIT_BYTES as u64;
    profile.power.dump_bytes = 160 * UNIT_BYTES as u64;
    let mut host = Host::new(&profile);
    let namespaces: Vec<NamespaceId> = (0..24).map(|_| host.create_with(1)).collect();
    for number in 0..2 {
        for namespace in &namespaces {
            host.put(*namespace, key(number), &[number as u8; 3000]).unwrap();
        }
    }
    let programmed = host.device.smart().counters.flash_units.key_value;
    assert_eq!(programmed, 0, "they wait");
    for lpn in 0..400 {
        host.submit(Command::Write { lpn: Lpn(lpn), data: &[1; UNIT_BYTES], fua: false, handle: None })
            .unwrap();
    }
    host.cut(1);
    assert!(host.device.recovery().units_restored >= 48, "{:?}", host.device.recovery());
    for number in 0..2 {
        for namespace in &namespaces {
            assert_eq!(host.get(*namespace, key(number)), Ok(vec![number as u8; 3000]));
        }
    }
    host.device.audit();
}

/// A drive with a capacitor whose process ends without a shutdown: what waits for a full page is in the image's mirror.
#[test]
fn records_survive_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let device = Device::create(&path, &small(Plp::Capacitor)).unwrap();
    let mut host = Host { device, now_ns: 0 };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let namespaces = [host.create(), host.create_with(1), host.create_with(2)];
    let mut model = Model::new();
    let mut restored = 0;
    for _ in 0..40 {
        for _ in 0..rng.random_range(0..30) {
            random_put(&mut host, &mut model, &namespaces, &mut rng, 9000);
        }
        drop(host);
        let device = Device::open(&path).unwrap();
        restored += device.recovery().units_restored;
        host = Host { now_ns: device.time_ns(), device };
        compare(&mut host, &model, &namespaces);
        let logs: Vec<u32> = host.device.namespaces().iter().map(|info| info.attributes.logs).collect();
        assert_eq!(logs, [0, 1, 2]);
    }
    assert!(restored > 0, "nothing waited");
}

#[test]
fn small_puts_wait_where_a_capacitor_protects_them_and_take_no_page_each() {
    for (plp, waits) in [(Plp::None, false), (Plp::Capacitor, true)] {
        let mut host = Host::new(&small(plp));
        let namespace = host.create();
        let (short, long) = ([1; 1000], [1; 5000]);
        let record = |number, value| KvRecord { namespace, key: key(number), value: Some(value) };
        assert_eq!(host.device.put_waits(&[record(1, &short[..]), record(2, &short)]), waits);
        assert!(!host.device.put_waits(&[record(1, &long[..])]), "it does not fit a unit");
        assert!(!host.device.put_waits(&[record(1, &long[..4000]), record(2, &short)]));
        for number in 0..60 {
            host.put(namespace, key(number), &short).unwrap();
        }
        // three records to a unit, but for those that wait
        let programmed = host.device.smart().counters.flash_units.key_value;
        assert!(if waits { (18..=20).contains(&programmed) } else { programmed == 60 }, "{programmed}");
    }
}

#[test]
fn values_of_all_sizes_come_back() {
    let mut host = Host::new(&profile("tlc-nvme", 64 << 20));
    let namespace = host.create();
    for (number, bytes) in
        [0, 1, 24, 25, 4055, 4056, 4057, 8112, 8113, 1 << 20, 2 << 20].into_iter().enumerate()
    {
        let value: Vec<u8> = (0..bytes).map(|at: usize| (at * 7 + number) as u8).collect();
        host.put(namespace, key(number as u64), &value).unwrap();
        assert_eq!(host.get(namespace, key(number as u64)), Ok(value.clone()), "{bytes} bytes");
        host.cut(1);
        assert_eq!(host.get(namespace, key(number as u64)), Ok(value), "{bytes} bytes, after a cut");
    }
    host.put(namespace, key(10), b"short now").unwrap();
    host.cut(2);
    assert_eq!(host.get(namespace, key(10)), Ok(b"short now".to_vec()));
    host.device.audit();
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut host = Host::new(&profile("tlc-nvme", 16 << 20));
    let namespace = host.create();
    let none = NamespaceId(77);
    host.put(namespace, key(1), b"one").unwrap();
    assert_eq!(host.get(namespace, key(2)), Err(Status::NoSuchKey { namespace, key: key(2) }));
    assert_eq!(host.put(none, key(1), b""), Err(Status::NoSuchNamespace { namespace: none }));
    let too_large = vec![0; (2 << 20) + 1];
    assert!(matches!(host.put(namespace, key(1), &too_large), Err(Status::ValueTooLarge { .. })));
    let record = |number, value| KvRecord { namespace, key: key(number), value: Some(value) };
    let twice = [record(3, b"a".as_slice()), record(3, b"b")];
    assert!(matches!(host.submit(Command::KvPut { records: &twice }), Err(Status::InvalidField(_))));
    let megabyte = vec![0; 1 << 20];
    let too_many = [record(3, &megabyte), record(4, &megabyte), record(5, b"more")];
    assert!(matches!(host.submit(Command::KvPut { records: &too_many }), Err(Status::OverLimit { .. })));
    let delete = Command::KvDelete { namespace, key: key(3) };
    assert_eq!(host.submit(delete), Err(Status::NoSuchKey { namespace, key: key(3) }));
    for load_factor_percent in [0, 9, 96, 255] {
        let attributes = NamespaceAttributes { load_factor_percent, ..NamespaceAttributes::default() };
        assert!(matches!(host.create_as(attributes), Err(Status::InvalidField(_))));
    }
    let dies = profile("tlc-nvme", 16 << 20).geometry().unwrap().dies();
    let attributes = NamespaceAttributes { logs: dies + 1, ..NamespaceAttributes::default() };
    assert!(matches!(host.create_as(attributes), Err(Status::InvalidField(_))));
    let attributes = NamespaceAttributes { expected_records: u64::MAX, ..NamespaceAttributes::default() };
    assert!(matches!(host.create_as(attributes), Err(Status::OverLimit { .. })));
    assert_eq!(host.list_all(namespace), [key(1)]);
}

/// Hazard 11: a drive full of records refuses more, and still reads, deletes and recovers. So does one whose namespace
/// has one log, on a die that is full long before.
#[test]
fn a_drive_full_of_records_still_deletes_and_recovers() {
    let usual = profile("tlc-nvme", 16 << 20);
    let room = Profile { over_provisioning_percent: 200.0, ..usual.clone() };
    let shared = [10, 500, 2100, 5000].map(|bytes| (bytes, 0));
    for (bytes, logs) in shared.into_iter().chain([(500, 1), (2100, 1), (5000, 2)]) {
        let mut host = Host::new(if logs == 0 { &usual } else { &room });
        let namespace = host.create_with(logs);
        let value = vec![5; bytes];
        let mut count = 0;
        let full = loop {
            match host.put(namespace, key(count), &value) {
                Ok(()) => count += 1,
                Err(status) => break status,
            }
        };
        assert_eq!(full, Status::CapacityExceeded);
        println!(
            "{count} records of {bytes} bytes, write amplification {:.2}",
            host.device.smart().write_amplification()
        );
        host.cut(3);
        host.device.audit();
        for number in 0..count {
            assert_eq!(host.get(namespace, key(number)).as_ref(), Ok(&value), "{number} of {count}");
        }
        for number in (0..count).step_by(2) {
            host.submit(Command::KvDelete { namespace, key: key(number) }).unwrap();
        }
        for number in (0..count / 2).step_by(2) {
            host.put(namespace, key(number), &value).unwrap();
        }
        host.cut(4);
        host.device.audit();
        assert!(host.get(namespace, key(count / 2 / 2 * 2 + 2)).is_err());
        assert_eq!(host.get(namespace, key(0)), Ok(value.clone()));
    }
}

/// A delete that waits for a full page frees its room when it is needed. A drive with a capacitor refused puts although
/// half of its records were deleted.
#[test]
fn what_was_deleted_gives_room_to_the_next_put() {
    let mut host = Host::new(&small(Plp::Capacitor));
    let namespace = host.create();
    let value = vec![7; 100_000];
    let mut count = 0;
    while host.put(namespace, key(count), &value).is_ok() {
        count += 1;
    }
    assert!(count > 20, "{count}");
    for number in 0..count / 2 {
        host.submit(Command::KvDelete { namespace, key: key(number) }).unwrap();
    }
    for number in 0..count / 2 {
        assert_eq!(host.put(namespace, key(1000 + number), &value), Ok(()), "{number} of {count}");
    }
    host.device.audit();
}

/// A drive refused puts until its next checkpoint although all of its records were deleted: what remembers that they are took
/// as much room.
#[test]
fn what_small_deleted_records_leave_gives_room_to_the_next_put() {
    for plp in [Plp::None, Plp::Capacitor] {
        let mut host = Host::new(&small(plp));
        let namespace = host.create();
        let mut put = |first: u64, value: Option<&[u8]>| {
            let records: Vec<KvRecord> =
                (first..first + 200).map(|number| KvRecord { namespace, key: key(number), value }).collect();
            host.submit(Command::KvPut { records: &records }).map(drop)
        };
        let mut count = 0;
        while put(count, Some(b"value")).is_ok() {
            count += 200;
        }
        assert!(count > 10_000, "{count}");
        for first in (0..count).step_by(200) {
            put(first, None).unwrap();
        }
        for first in (0..count).step_by(200) {
            assert_eq!(put(first, Some(b"again")), Ok(()), "{first} of {count}");
        }
        host.device.audit();
    }
}
