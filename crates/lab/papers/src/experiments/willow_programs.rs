//! What the drive's processors are good for: three data-dependent programs, compared with the host doing the same. A walk
//! down a B+tree, a filter with a sum over the records of a key-value namespace, and an append that returns the offset.
//!
//! Both sides do the same work and must find the same results. One client, in virtual time; a request of the host costs
//! it [`ENDPOINT`].

use tantalum::{
    Command, Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Nanoseconds, Profile, result_of,
};
use tantalum_drive::Drive;
use tantalum_image::SplitMix64;
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallOptions, ProcessId, ProgramId, Rights, SpuId, Ssd, shipped,
};
use tantalum_store::host::ENDPOINT;

use super::willow_meter::{Meter, Took};
use super::{Run, drive_of};
use crate::error::ExperimentError;

const CAPACITY_BYTES: u64 = 512 << 20;

/// The drives: the paper's, and flash.
const DRIVES: [&str; 2] = ["willow", "tlc-nvme"];

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

/// Bytes of a request's header and of an answer, both for commands of the host and for requests to programs.
const COMMAND_BYTES: u64 = 32 + 16;

fn ssd(name: &str) -> Result<Ssd, ExperimentError> {
    Ok(Ssd::new(Drive::new(Device::in_memory(&profile(name)?)?)))
}

fn profile(name: &str) -> Result<Profile, ExperimentError> {
    Ok(Profile { capacity_bytes: CAPACITY_BYTES, ..Profile::load(name)? })
}

fn wrong(what: &str) -> ExperimentError {
    ExperimentError::WrongRecords { what: what.to_owned() }
}

/// Sends a request and waits for its answer, and for the request that the program sends back if it does.
fn ask(
    ssd: &mut Ssd,
    endpoint: EndpointId,
    (spu, program): (SpuId, ProgramId),
    body: Vec<u8>,
    sends_back: bool,
) -> Result<(i32, Vec<u8>), ExperimentError> {
    let now_ns = ssd.now_ns();
    ssd.send(endpoint, spu, (program, 0), body, now_ns)?;
    let (mut answered, mut back) = (None, None);
    loop {
        match ssd.next_event_of(endpoint) {
            Some(Event::Answer { status, .. }) => answered = Some(status),
            Some(Event::Request { body, .. }) => back = Some(body),
            Some(_) => {}
            None => return Err(wrong("a program did not answer")),
        }
        match (answered, &back) {
            (Some(status), Some(_)) => return Ok((status, back.unwrap_or_default())),
            (Some(status), None) if !sends_back || status < 0 => return Ok((status, Vec::new())),
            _ => {}
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

// -- a walk down a tree -----------------------------------------------------------------------------------------

const NODE_BYTES: usize = 1024;
const ENTRIES: usize = 63;
const KEYS: u64 = 100_000;
/// Where nodes are scattered.
const TREE_BYTES: u64 = 8 << 20;

/// A tree of keys whose values are the keys times three: its nodes with their addresses, the root last.
fn tree() -> Vec<(u64, Vec<u8>)> {
    let places = TREE_BYTES / NODE_BYTES as u64;
    let mut nodes: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut level: Vec<(u64, u64)> = (0..KEYS).map(|key| (key * 5 + 1, (key * 5 + 1) * 3)).collect();
    for depth in 0_u32.. {
        let mut parents = Vec::new();
        for entries in level.chunks(ENTRIES) {
            let mut node = [depth.to_le_bytes(), (entries.len() as u32).to_le_bytes()].concat();
            entries
                .iter()
                .for_each(|(key, value)| node.extend([key.to_le_bytes(), value.to_le_bytes()].concat()));
            node.resize(NODE_BYTES, 0);
            // scattered, so that a walk goes from processor to processor
            let at = nodes.len() as u64 * 7919 % places * NODE_BYTES as u64;
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

/// Looks up a key as the host does, with a read for each level. Returns the value and the reads.
fn walk_by_host(
    ssd: &mut Ssd,
    client: BlockClient,
    root: u64,
    key: u64,
) -> Result<(Option<u64>, u64), ExperimentError> {
    let (mut at, mut reads) = (root, 0);
    loop {
        let mut node = [0; NODE_BYTES];
        client.read(ssd, at, &mut node)?;
        reads += 1;
        let (level, count) = (number(&node, 0) as u32, (number(&node, 0) >> 32) as usize);
        let entries = (0..count).rev().map(|entry| 8 + entry * 16);
        let Some(entry) = entries.into_iter().find(|&entry| number(&node, entry) <= key) else {
            return Ok((None, reads));
        };
        at = number(&node, entry + 8);
        if level == 0 {
            return Ok(((number(&node, entry) == key).then_some(at), reads));
        }
    }
}

/// The walk by the host, and in the drive.
fn walks(run: &Run<'_>, name: &str) -> Result<[Took; 2], ExperimentError> {
    let mut ssd = ssd(name)?;
    let kernel = ssd.endpoint(ProcessId::KERNEL)?;
    let base = ssd.install(ProcessId::KERNEL, shipped::BASE_IO, OPEN)?;
    let direct = ssd.install(ProcessId::KERNEL, shipped::DIRECT_IO, OPEN)?;
    let nodes = tree();
    let root = nodes[nodes.len() - 1].0;
    let writer = BlockClient::new(kernel, base);
    for (at, node) in &nodes {
        writer.write(&mut ssd, *at, node)?;
    }
    writer.flush(&mut ssd)?;
    let process = ssd.process();
    let endpoint = ssd.endpoint(process)?;
    ssd.grant(process, 0..TREE_BYTES, Rights::READ)?;
    let walker = ssd.install(process, shipped::TREE_WALK, InstallOptions::default())?;
    let client = BlockClient::new(endpoint, direct);
    let mut random = SplitMix64(run.seed);
    let keys: Vec<u64> = (0..run.scaled(2000, 100)).map(|_| random.below(KEYS * 5)).collect();
    let (mut found, mut reads) = (Vec::new(), 0);
    let meter = Meter::start(&mut ssd);
    for &key in &keys {
        let (value, read) = walk_by_host(&mut ssd, client, root, key)?;
        reads += read;
        found.push(value);
    }
    let by_host = meter.stop(&ssd, keys.len() as u64, reads);
    let meter = Meter::start(&mut ssd);
    for (key, expected) in keys.iter().zip(&found) {
        let body = [&root.to_le_bytes()[..], &key.to_le_bytes(), &[0; 8]].concat();
        let owner = ssd.stripes().owner(root);
        let (_, result) = ask(&mut ssd, endpoint, (owner, walker), body, true)?;
        let is_found = result.len() >= 24 && result[20..24] == [0; 4];
        if is_found.then(|| number(&result, 8)) != *expected {
            return Err(wrong("the walk in the drive found another value"));
        }
    }
    Ok([by_host, meter.stop(&ssd, keys.len() as u64, keys.len() as u64)])
}

// -- a filter over records --------------------------------------------------------------------------------------

/// The category searched for, one of four.
const CATEGORY: u32 = 2;
/// Keys that the host lists at once, and gets at once.
const LISTED: usize = 32;

fn records(ssd: &Ssd, count: u64, seed: u64) -> Result<NamespaceId, ExperimentError> {
    let mut device = ssd.drive().lock();
    let attributes = NamespaceAttributes::default();
    let at_ns = device.time_ns();
    let create = |namespace: &mut _| device.submit(Command::CreateNamespace { attributes, namespace }, at_ns);
    let namespace = result_of(create)?;
    let mut random = SplitMix64(seed);
    for record in 0..count {
        let (amount, category) = (random.below(1000), random.below(4) as u32);
        let value = [&amount.to_le_bytes()[..], &category.to_le_bytes(), &[0; 100]].concat();
        let key = Key::new(&record.to_be_bytes()).expect("a key of 8 bytes");
        let at_ns = device.time_ns();
        device
            .submit(Command::KvPut { records: &[KvRecord { namespace, key, value: Some(&value) }] }, at_ns)?;
    }
    let at_ns = device.time_ns();
    device.submit(Command::Flush, at_ns)?;
    Ok(namespace)
}

/// The host lists keys, gets all listed keys at once, and adds up. Returns the sum, and the commands.
fn filter_by_host(
    ssd: &Ssd,
    namespace: NamespaceId,
    begun_ns: Nanoseconds,
) -> Result<(u64, Took), ExperimentError> {
    let mut device = ssd.drive().lock();
    let (mut at_ns, mut from, mut sum) = (begun_ns, None, 0);
    let (mut commands, mut bytes, mut rounds) = (0_u64, 0_u64, 0_u64);
    loop {
        let (new, listed_ns) = list_after(&mut device, namespace, from, at_ns)?;
        at_ns = listed_ns;
        commands += 1 + new.len() as u64;
        rounds += 1 + u64::from(!new.is_empty());
        let mut done_ns = at_ns;
        for key in &new {
            let mut value = Vec::new();
            done_ns = done_ns.max(
                device.submit(Command::KvGet { namespace, key: *key, value: &mut value }, at_ns)?.done_ns,
            );
            bytes += (key.as_bytes().len() + value.len()) as u64;
            if value[8..12] == CATEGORY.to_le_bytes() {
                sum += number(&value, 0);
            }
        }
        at_ns = done_ns;
        match new.last() {
            Some(last) => from = Some(*last),
            None => break,
        }
    }
    // the host's time for commands issued together overlaps with the drive's
    let host_ns = rounds * (ENDPOINT.submit_ns + ENDPOINT.complete_ns);
    let took = Took {
        us: (at_ns - begun_ns + host_ns) as f64 / 1e3,
        link_bytes: (bytes + commands * COMMAND_BYTES) as f64,
        requests: commands as f64,
    };
    Ok((sum, took))
}

/// The next keys of a namespace, and when the host has them.
fn list_after(
    device: &mut Device,
    namespace: NamespaceId,
    from: Option<Key>,
    at_ns: Nanoseconds,
) -> Result<(Vec<Key>, Nanoseconds), ExperimentError> {
    let mut keys = Vec::new();
    let list = Command::KvList { namespace, from, keys: &mut keys, limit: LISTED + 1 };
    let done_ns = device.submit(list, at_ns)?.done_ns;
    Ok((keys.into_iter().filter(|key| Some(*key) != from).take(LISTED).collect(), done_ns))
}

/// The filter by the host, and in the drive, over all records.
fn filters(run: &Run<'_>, name: &str) -> Result<[Took; 2], ExperimentError> {
    let mut ssd = ssd(name)?;
    let process = ssd.process();
    let endpoint = ssd.endpoint(process)?;
    let program = ssd.install(process, shipped::FILTER_SUM, InstallOptions::default())?;
    let count = run.scaled(5000, 500);
    let namespace = records(&ssd, count, run.seed)?;
    ssd.grant_namespace(process, namespace);
    let begun_ns = ssd.drive().lock().time_ns();
    let (expected, by_host) = filter_by_host(&ssd, namespace, begun_ns)?;
    // the drive's clock is ahead of the programs': they begin when the drive has nothing left to do
    let query = |most: u64| {
        let mut body = [namespace.0, CATEGORY, 1, 0, most as u32].map(u32::to_le_bytes).concat();
        body.resize(36, 0);
        body
    };
    ask(&mut ssd, endpoint, (SpuId(0), program), query(1), true)?;
    let meter = Meter::start(&mut ssd);
    let (_, result) = ask(&mut ssd, endpoint, (SpuId(0), program), query(count + 1), true)?;
    if result.len() < 24 || result[20..24] != [0; 4] || number(&result, 0) != expected {
        return Err(wrong("the filter in the drive has another sum"));
    }
    Ok([by_host, meter.stop(&ssd, 1, 1)])
}

// -- append -----------------------------------------------------------------------------------------------------

const RECORD_BYTES: usize = 100;
/// The processor whose log is appended to.
const LOG_SPU: SpuId = SpuId(3);

/// Appends by the host, and in the drive. The host keeps the log's end: it writes the record, and when that is durable the new
/// end, as the program does in one step. A drive whose cache is volatile is flushed after each.
fn appends(run: &Run<'_>, name: &str) -> Result<[Took; 2], ExperimentError> {
    let mut ssd = ssd(name)?;
    let direct = ssd.install(ProcessId::KERNEL, shipped::DIRECT_IO, OPEN)?;
    let row = ssd.stripes().row_bytes();
    let options = InstallOptions { is_open: true, region: Some(64 * row..128 * row) };
    let append = ssd.install(ProcessId::KERNEL, shipped::APPEND, options)?;
    let process = ssd.process();
    let endpoint = ssd.endpoint(process)?;
    ssd.grant(process, 0..64 * row, Rights::READ | Rights::WRITE)?;
    let client = BlockClient::new(endpoint, direct);
    let count = run.scaled(2000, 100);
    let record = [7; RECORD_BYTES + 16];
    let per_stripe = tantalum_spu::STRIPE_BYTES / record.len() as u64;
    let is_volatile = profile(name)?.spu.memory.is_none();
    let meter = Meter::start(&mut ssd);
    for number in 0..count {
        let stripe = (1 + number / per_stripe) * row;
        let at = stripe + number % per_stripe * record.len() as u64;
        for (at, bytes) in [(at, &record[..]), (0, &(number + 1).to_le_bytes()[..])] {
            client.write(&mut ssd, at, bytes)?;
            if is_volatile {
                client.flush(&mut ssd)?;
            }
        }
    }
    let by_host = meter.stop(&ssd, count, if is_volatile { 4 } else { 2 } * count);
    let meter = Meter::start(&mut ssd);
    let mut last = None;
    for number in 0..count {
        let head = [number as u32 + 1, RECORD_BYTES as u32].map(u32::to_le_bytes).concat();
        let body = [&head[..], &record[..RECORD_BYTES]].concat();
        let (offset, _) = ask(&mut ssd, endpoint, (LOG_SPU, append), body, false)?;
        if offset < 0 || last.is_some_and(|last| offset <= last) {
            return Err(wrong(&format!("append {number} was answered {offset} after {last:?}")));
        }
        last = Some(offset);
    }
    Ok([by_host, meter.stop(&ssd, count, count)])
}

// -- the experiment ---------------------------------------------------------------------------------------------

/// The cost on a drive, by the host and by the drive itself.
type Measure = fn(&Run<'_>, &str) -> Result<[Took; 2], ExperimentError>;

/// All three, on both drives.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let programs: [(&str, Measure); 3] = [("walk", walks), ("filter", filters), ("append", appends)];
    let (mut columns, mut took) = (Vec::new(), Vec::new());
    for (program, measure) in programs {
        for drive in DRIVES {
            columns.push(format!("{program}, {drive}"));
            took.push(measure(run, drive)?);
        }
    }
    let table = |title: &str, unit, of: fn(&Took) -> f64| {
        let row = |name: &str, side: usize| Row {
            name: name.to_owned(),
            ours: took.iter().map(|took| of(&took[side])).collect(),
            paper: None,
        };
        let rows = vec![row("the host", 0), row("in the drive", 1)];
        Figures { title: title.to_owned(), unit, columns: columns.clone(), rows }
    };
    let figures = vec![
        table("time of one lookup, query or append", "us", |took| took.us),
        table("bytes on the link for it", "bytes", |took| took.link_bytes),
        table("requests of the host for it", "requests", |took| took.requests),
    ];
    let setup = vec![
        drive_of(&profile(DRIVES[0])?),
        drive_of(&profile(DRIVES[1])?),
        format!(
            "a B+tree of {KEYS} keys in nodes of {NODE_BYTES} bytes; {} records of 112 bytes (on flash in both drives); appends of {RECORD_BYTES} bytes",
            run.scaled(5000, 500)
        ),
        format!(
            "a request costs the host {} ns (chosen); the host lists and gets {LISTED} records at once",
            ENDPOINT.submit_ns + ENDPOINT.complete_ns
        ),
    ];
    let title = "programs in the drive against the host doing the same";
    let mut outcome = Outcome::new(title, "no paper's figure", Time::Virtual, setup);
    outcome.figures = figures;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn programs_take_fewer_requests_and_bytes_than_the_host() {
        let monitor = Monitor::silent();
        let settings = Run { scale: 0.1, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = run(&settings).unwrap();
        for figures in &outcome.figures[1..] {
            let (host, drive) = (figures.row("the host"), figures.row("in the drive"));
            assert!(host.iter().zip(drive).all(|(host, drive)| drive < host), "{figures:?}");
        }
        // on flash; a walk and all on memory take longer, because the processors are slow
        let time = &outcome.figures[0];
        for column in [3, 5] {
            assert!(time.row("in the drive")[column] < time.row("the host")[column], "{time:?}");
        }
    }
}
