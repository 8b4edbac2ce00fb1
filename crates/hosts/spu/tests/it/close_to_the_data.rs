//! Programs that work on data in the drive, compared with the host doing the same over Base-IO or Direct-IO; and their
//! power cuts. Times and bytes are printed with `--nocapture`.

use crate::common;

use std::collections::BTreeMap;

use common::{KERNEL, OPEN, ask, profile, seeds, ssd, ssd_of};
use tantalum::{Command, Key, KvRecord, NamespaceAttributes, PowerLoss, result_of};
use tantalum_image::SplitMix64;
use tantalum_spu::atomic_writes::{AtomicWrites, SLOTS, last_region};
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallOptions, ProgramId, Rights, STRIPE_BYTES, SpuId, Ssd, answer,
    shipped,
};

/// What passed the link, and the time, since a moment.
struct Meter(u64, u64);

impl Meter {
    fn start(ssd: &Ssd) -> Meter {
        let (down, up) = ssd.link_bytes();
        Meter(down + up, ssd.now_ns())
    }

    fn stop(&self, ssd: &Ssd) -> (u64, u64) {
        let (down, up) = ssd.link_bytes();
        (down + up - self.0, ssd.now_ns() - self.1)
    }
}

// -- a B+tree -----------------------------------------------------------------------------------------------------

const NODE: usize = 1024;
const FANOUT: usize = 63;

/// A tree of these keys, whose values are the keys times three: its nodes with their addresses, the root last.
fn tree(keys: &[u64]) -> Vec<(u64, Vec<u8>)> {
    // nodes lie scattered, so that a walk goes from processor to processor
    let address = |index: usize| ((index as u64 * 7919) % 8192) * NODE as u64;
    let mut nodes: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut level: Vec<(u64, u64)> = keys.iter().map(|key| (*key, key * 3)).collect();
    for depth in 0_u32.. {
        let mut parents = Vec::new();
        for entries in level.chunks(FANOUT) {
            let mut node = [depth.to_le_bytes(), (entries.len() as u32).to_le_bytes()].concat();
            for (key, value) in entries {
                node.extend(key.to_le_bytes());
                node.extend(value.to_le_bytes());
            }
            node.resize(NODE, 0);
            let at = address(nodes.len());
            parents.push((entries[0].0, at));
            nodes.push((at, node));
        }
        level = parents;
        if level.len() == 1 {
            break;
        }
    }
    nodes
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The walk as the host does it: a read for each level.
fn walk_by_host(ssd: &mut Ssd, client: BlockClient, root: u64, key: u64) -> Option<u64> {
    let mut at = root;
    loop {
        let mut node = vec![0; NODE];
        client.read(ssd, at, &mut node).unwrap();
        let (level, count) = (number(&node, 0) as u32, (number(&node, 0) >> 32) as usize);
        let entry =
            (0..count).rev().map(|entry| 8 + entry * 16).find(|&entry| number(&node, entry) <= key)?;
        let value = number(&node, entry + 8);
        match level {
            0 => return (number(&node, entry) == key).then_some(value),
            _ => at = value,
        }
    }
}

/// The walk in the drive: one request.
fn walk_in_drive(ssd: &mut Ssd, endpoint: EndpointId, program: ProgramId, root: u64, key: u64) -> (i32, u64) {
    let body =
        [&root.to_le_bytes()[..], &key.to_le_bytes(), &7_u32.to_le_bytes(), &0_u32.to_le_bytes()].concat();
    let (owner, now_ns) = (ssd.stripes().owner(root), ssd.now_ns());
    ssd.send(endpoint, owner, (program, 0), body, now_ns).unwrap();
    loop {
        match ssd.next_event_of(endpoint).expect("an answer and a result") {
            Event::Request { body, .. } => {
                return (i32::from_le_bytes(body[20..24].try_into().unwrap()), number(&body, 8));
            }
            Event::Answer { status, .. } => assert_eq!(status, answer::OK),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_tree_walk_in_the_drive_finds_what_the_host_finds_with_one_request() {
    let mut ssd = ssd();
    let kernel = ssd.endpoint(KERNEL).unwrap();
    let base = ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap();
    let direct = ssd.install(KERNEL, shipped::DIRECT_IO, OPEN).unwrap();
    let keys: Vec<u64> = (0..100_000).map(|key| key * 5 + 1).collect();
    let nodes = tree(&keys);
    let root = nodes.last().unwrap().0;
    let writer = BlockClient::new(kernel, base);
    for (at, node) in &nodes {
        writer.write(&mut ssd, *at, node).unwrap();
    }
    writer.flush(&mut ssd).unwrap();
    let process = ssd.process();
    let endpoint = ssd.endpoint(process).unwrap();
    ssd.grant(process, 0..8 << 20, Rights::READ).unwrap();
    let walker = ssd.install(process, shipped::TREE_WALK, InstallOptions::default()).unwrap();
    while ssd.next_event().is_some() {}
    let host = BlockClient::new(endpoint, direct);
    let mut random = SplitMix64(5);
    let (mut by_host, mut in_drive) = ((0, 0), (0, 0));
    for _ in 0..200 {
        let key = random.below(500_010);
        let meter = Meter::start(&ssd);
        let found = walk_by_host(&mut ssd, host, root, key);
        let (bytes, ns) = meter.stop(&ssd);
        by_host = (by_host.0 + bytes, by_host.1 + ns);
        while ssd.next_event().is_some() {}
        let meter = Meter::start(&ssd);
        let (status, value) = walk_in_drive(&mut ssd, endpoint, walker, root, key);
        let (bytes, ns) = meter.stop(&ssd);
        in_drive = (in_drive.0 + bytes, in_drive.1 + ns);
        while ssd.next_event().is_some() {}
        assert_eq!(if status == 0 { Some(value) } else { None }, found, "key {key}: {status}");
    }
    println!("tree walk, host:  {} link bytes, {} ns each", by_host.0 / 200, by_host.1 / 200);
    println!("tree walk, drive: {} link bytes, {} ns each", in_drive.0 / 200, in_drive.1 / 200);
    assert!(in_drive.0 * 4 < by_host.0, "a result instead of nodes crosses the link");
    // somebody without rights gets nothing
    ssd.uninstall(walker).unwrap();
    let stranger = ssd.process();
    let other = ssd.endpoint(stranger).unwrap();
    let own = ssd.install(stranger, shipped::TREE_WALK, InstallOptions::default()).unwrap();
    assert_eq!(walk_in_drive(&mut ssd, other, own, root, 1), (answer::NO_PERMISSION, 0));
}

// -- records ------------------------------------------------------------------------------------------------------

#[test]
fn a_filter_in_the_drive_adds_up_what_the_host_adds_up() {
    let mut ssd = ssd();
    let process = ssd.process();
    let endpoint = ssd.endpoint(process).unwrap();
    let program = ssd.install(process, shipped::FILTER_SUM, InstallOptions::default()).unwrap();
    let mut random = SplitMix64(9);
    let mut expected = (0, 0);
    let namespace = {
        let mut device = ssd.drive().lock();
        let at_ns = device.time_ns();
        let attributes = NamespaceAttributes::default();
        let create =
            |namespace: &mut _| device.submit(Command::CreateNamespace { attributes, namespace }, at_ns);
        let namespace = result_of(create).unwrap();
        for record in 0..500_u64 {
            let (amount, category) = (random.below(1000), random.below(4) as u32);
            if category == 2 {
                expected = (expected.0 + amount, expected.1 + 1);
            }
            let value = [&amount.to_le_bytes()[..], &category.to_le_bytes(), &[0; 20]].concat();
            let key = Key::new(&record.to_be_bytes()).unwrap();
            let records = [KvRecord { namespace, key, value: Some(&value) }];
            let at_ns = device.time_ns();
            device.submit(Command::KvPut { records: &records }, at_ns).unwrap();
        }
        namespace
    };
    let query = |ssd: &mut Ssd, after: &[u8]| {
        let mut body = [namespace.0, 2, 1, after.len() as u32, 200].map(u32::to_le_bytes).concat();
        body.extend(after);
        body.resize(36, 0);
        let now_ns = ssd.now_ns();
        ssd.send(endpoint, SpuId(0), (program, 0), body, now_ns).unwrap();
        loop {
            match ssd.next_event_of(endpoint).expect("a result") {
                Event::Request { body, .. } => return body,
                Event::Answer { status, .. } => assert_eq!(status, answer::OK),
                other => panic!("{other:?}"),
            }
        }
    };
    let status = |body: &[u8]| i32::from_le_bytes(body[20..24].try_into().unwrap());
    assert_eq!(status(&query(&mut ssd, &[])), answer::NO_PERMISSION, "nothing was granted");
    ssd.grant_namespace(process, namespace);
    let (mut found, mut after, mut requests) = ((0, 0), Vec::new(), 0);
    // the drive's clock is ahead, by the time that the puts took
    query(&mut ssd, &[]);
    let meter = Meter::start(&ssd);
    loop {
        let result = query(&mut ssd, &after);
        assert_eq!(status(&result), answer::OK);
        found = (found.0 + number(&result, 0), found.1 + (number(&result, 8) as u32));
        requests += 1;
        let length = u32::from_le_bytes(result[24..28].try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        after = result[28..28 + length].to_vec();
    }
    let (bytes, ns) = meter.stop(&ssd);
    println!("filter of 500 records in the drive: {requests} requests, {bytes} link bytes, {ns} ns");
    assert_eq!(found, expected);
    assert!(bytes < 1000);
}

// -- append -------------------------------------------------------------------------------------------------------

/// Appends and cuts. Each record that was acknowledged is where the answer said, once, and a repeated request gets the same
/// answer. Returns what went wrong.
fn append_torture(seed: u64, module: &[u8]) -> Result<(), String> {
    let mut random = SplitMix64(seed);
    let names = ["tlc-nvme", "openssd-barefoot", "tlc-nvme-plp", "willow"];
    let mut ssd = ssd_of(&profile(names[random.below(4) as usize]));
    let row = STRIPE_BYTES * 8;
    let region = Some(32 * row..96 * row);
    let options = InstallOptions { is_open: true, region };
    let endpoints: Vec<EndpointId> = (0..2)
        .map(|_| ssd.process())
        .collect::<Vec<_>>()
        .into_iter()
        .map(|process| ssd.endpoint(process).unwrap())
        .collect();
    let mut sequences = [1_u32; 2];
    let mut log: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for _ in 0..4 {
        let program = ssd.install(KERNEL, module, options.clone()).map_err(|error| error.to_string())?;
        let operations = 1 + random.below(120);
        ssd.drive().lock().cut_after(Some(operations));
        'power: loop {
            let who = random.below(2) as usize;
            // what a record holds follows from its writer and number, so that a repeated request is the same
            let mut content = SplitMix64(u64::from(sequences[who]) * 2 + who as u64);
            let data: Vec<u8> = (0..content.below(700)).map(|_| content.below(256) as u8).collect();
            let body =
                [&sequences[who].to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), &data].concat();
            let repeats = 1 + random.below(2);
            for repeat in 0..repeats {
                let now_ns = ssd.now_ns();
                if ssd.send(endpoints[who], SpuId(3), (program, 0), body.clone(), now_ns).is_err() {
                    break 'power;
                }
                let status = match ssd.next_event_of(endpoints[who]) {
                    Some(Event::Answer { status, .. }) => status,
                    Some(Event::PowerLost { .. }) => break 'power,
                    other => return Err(format!("seed {seed}: {other:?}")),
                };
                let Ok(offset) = u32::try_from(status) else { return Err(format!("seed {seed}: {status}")) };
                let before = log.insert(offset, data.clone());
                if before.is_some() != (repeat > 0) {
                    return Err(format!(
                        "seed {seed}: offset {offset} was given {}",
                        if repeat > 0 { "once for two requests of one record" } else { "twice" }
                    ));
                }
                if repeat == 0 {
                    sequences[who] += 1;
                }
            }
            if log.len() > 150 {
                ssd.cut_power();
                break;
            }
        }
        while ssd.next_event().is_some() {}
        ssd.drive().lock().power_on(&mut PowerLoss::seeded(random.next_u64())).unwrap();
        ssd.drive().lock().cut_after(None);
        ssd.power_on().unwrap();
        let program = ssd.install(KERNEL, module, options.clone()).map_err(|error| error.to_string())?;
        for (offset, data) in &log {
            let now_ns = ssd.now_ns();
            ssd.send(endpoints[0], SpuId(3), (program, 1), offset.to_le_bytes().to_vec(), now_ns).unwrap();
            let events: Vec<Event> = std::iter::from_fn(|| ssd.next_event()).collect();
            let found = events.iter().find_map(|event| match event {
                Event::Request { body, .. } => Some(&body[16..]),
                _ => None,
            });
            if found != Some(&data[..]) {
                return Err(format!("seed {seed}: the record at offset {offset} is not what was appended"));
            }
        }
        ssd.uninstall(program).unwrap();
        if log.len() > 150 {
            break;
        }
    }
    Ok(())
}

#[test]
fn appended_records_are_where_the_answer_said_once_over_power_cuts() {
    for seed in seeds(10) {
        append_torture(seed, shipped::APPEND).unwrap();
    }
}

#[test]
fn the_torture_notices_an_append_that_is_done_twice() {
    let module = include_bytes!("../canaries/repeats_append.wasm");
    let noticed = (0..20).find_map(|seed| append_torture(seed, module).err());
    println!("{}", noticed.expect("a repeated request was done twice"));
}

// -- a program composed from another ------------------------------------------------------------------------------

#[test]
fn a_counter_composed_from_atomic_writes_counts_each_acknowledged_request_once() {
    for seed in seeds(8) {
        println!("seed {seed}");
        let mut random = SplitMix64(seed);
        let mut ssd = ssd_of(&profile("tlc-nvme"));
        let kernel = ssd.endpoint(KERNEL).unwrap();
        let process = ssd.process();
        let endpoint = ssd.endpoint(process).unwrap();
        let region = last_region(ssd.stripes());
        let (mut transaction, mut possible) = (SLOTS, vec![0_i32]);
        for _ in 0..4 {
            let atomic = AtomicWrites::install(&mut ssd, kernel, region).unwrap();
            atomic.assign(&mut ssd, kernel, 0, process).unwrap();
            ssd.grant(process, 8192..16_384, Rights::READ | Rights::WRITE).unwrap();
            let counter = ssd.install(process, shipped::FETCH_ADD, InstallOptions::default()).unwrap();
            let add = |transaction: u64, by: u32| {
                [
                    &transaction.to_le_bytes()[..],
                    &8200_u64.to_le_bytes(),
                    &by.to_le_bytes(),
                    &atomic.program().0.to_le_bytes(),
                ]
                .concat()
            };
            // without its row of the intercall table it counts nothing
            assert_eq!(ask(&mut ssd, endpoint, 1, (counter, 0), &add(transaction, 1)).0, answer::NOT_ALLOWED);
            ssd.allow_calls(counter, atomic.program(), &[2]).unwrap();
            let operations = 1 + random.below(80);
            ssd.drive().lock().cut_after(Some(operations));
            loop {
                transaction += SLOTS;
                let now_ns = ssd.now_ns();
                let sent = ssd.send(endpoint, SpuId(1), (counter, 0), add(transaction, 1), now_ns);
                match (sent, ssd.next_event_of(endpoint)) {
                    (Ok(_), Some(Event::Answer { status, .. })) => {
                        assert!(possible.contains(&status), "found {status}, and may be {possible:?}");
                        possible = vec![status + 1];
                    }
                    (Ok(_), Some(Event::PowerLost { .. })) => {
                        // the last one may have been counted
                        let last = *possible.last().unwrap();
                        possible.push(last + 1);
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            ssd.drive().lock().power_on(&mut PowerLoss::seeded(random.next_u64())).unwrap();
            ssd.drive().lock().cut_after(None);
            ssd.power_on().unwrap();
            while ssd.next_event().is_some() {}
        }
    }
}
