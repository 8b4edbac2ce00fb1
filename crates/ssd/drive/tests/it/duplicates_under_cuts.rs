//! A drive that remaps duplicates, under power cuts: two queues submit random commands, whose contents repeat, and power
//! fails at random flash operations. Every unit then holds a version that the drive may have kept: the newest durable
//! one, or one written since.
//!
//! Seeded: `SEED=17` runs one seed, `SEEDS=200` runs 200.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::common::{small, twin, unit};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Lpn, Nanoseconds, PowerLoss, Profile, ShareRange, Status, UNIT_BYTES};
use tantalum_drive::{Answers, Drive, Output, Queue, Reply, Request, Units};

/// Few enough that units are often overwritten.
const UNITS: u32 = 400;

/// Cuts of each seed.
const CUTS: u32 = 6;

/// Contents, by number; 0 are zeros, the highest bit says that it is a twin.
type Content = u64;

const TWIN: Content = 1 << 63;

fn bytes_of(content: Content) -> Vec<u8> {
    match content {
        0 => vec![0; UNIT_BYTES],
        content if content & TWIN != 0 => twin(content & !TWIN),
        content => unit(content),
    }
}

/// What was written to a unit.
#[derive(Clone, Copy, Debug)]
struct Version {
    content: Content,
    command: usize,
}

/// A submitted command.
#[derive(Clone, Debug)]
struct Given {
    /// What it changes.
    lpns: Vec<u32>,
    /// Whether that is durable once it is answered.
    is_durable: bool,
    /// Commands that were answered before it was submitted, if it makes them durable.
    flushes: Option<Vec<bool>>,
    /// What it should read.
    reads: Option<Vec<Content>>,
    is_answered: bool,
}

struct Host {
    drive: Drive,
    queues: [Queue; 2],
    answers: [Answers; 2],
    now_ns: Nanoseconds,
    random: Xoshiro256PlusPlus,
    /// For each unit: the version that is durable, and those since.
    versions: Vec<Vec<Version>>,
    given: Vec<Given>,
    next_content: Content,
    recent: Vec<Content>,
    sender: Sender<(usize, Result<Reply, Status>)>,
    ended: Receiver<(usize, Result<Reply, Status>)>,
    has_power: bool,
}

impl Host {
    fn new(profile: &Profile, seed: u64) -> Host {
        let drive = Drive::new(Device::in_memory(profile).unwrap());
        drive.set_remap_duplicates(true);
        let answers = [0, 1].map(|_| Answers::in_virtual_time());
        let queues = [0, 1].map(|number| Queue::new(drive.clone(), answers[number].clone()));
        let (sender, ended) = channel();
        Host {
            drive,
            queues,
            answers,
            now_ns: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            versions: vec![vec![Version { content: 0, command: 0 }]; UNITS as usize],
            given: vec![],
            next_content: 1,
            recent: Vec::new(),
            sender,
            ended,
            has_power: true,
        }
    }

    /// New contents, or recently written ones, or others with the same checksum as these.
    fn content(&mut self) -> Content {
        if self.recent.is_empty() || self.random.random_ratio(2, 5) {
            self.next_content += 1;
            self.recent.push(self.next_content);
            return self.next_content;
        }
        let from = self.recent.len().saturating_sub(40);
        let content = self.recent[self.random.random_range(from..self.recent.len())];
        if self.random.random_ratio(1, 8) { content ^ TWIN } else { content }
    }

    fn contents(&mut self, most: u32) -> Vec<Content> {
        let units = self.random.random_range(1..=most);
        // Often what was written together is written together again.
        if !self.recent.is_empty() && self.random.random_ratio(1, 3) {
            let from = self.random.random_range(self.recent.len().saturating_sub(40)..self.recent.len());
            return self.recent[from..].iter().copied().take(units as usize).collect();
        }
        (0..units).map(|_| self.content()).collect()
    }

    fn lpn(&mut self, units: usize) -> u32 {
        self.random.random_range(0..=UNITS - units as u32)
    }

    fn newest(&self, lpn: u32) -> Content {
        self.versions[lpn as usize].last().expect("a unit has a version").content
    }

    /// Submits one random command.
    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..50 => self.write(false),
            50..58 => self.write(true),
            58..66 => self.flush(),
            66..72 => self.clear(),
            72..76 => self.write_atomic(),
            76..80 => self.share(),
            _ => self.read(),
        }
        for _ in 0..self.random.random_range(0..4) {
            self.deliver();
        }
    }

    fn write(&mut self, fua: bool) {
        let contents = self.contents(12);
        let lpn = self.lpn(contents.len());
        let data = contents.iter().flat_map(|&content| bytes_of(content)).collect();
        let writes: Vec<_> = (lpn..).zip(contents).collect();
        let is_durable = fua || self.drive.lock().is_write_through();
        self.give(Request::Write { lpn: Lpn(lpn), data, fua, handle: None }, &writes, is_durable, None);
    }

    fn write_atomic(&mut self) {
        let (first, second) = (self.content(), self.content());
        let (here, there) = (self.lpn(1), self.lpn(1));
        if here == there {
            return;
        }
        let writes = [(here, first), (there, second)];
        let data = writes.map(|(lpn, content)| (Lpn(lpn), bytes_of(content))).to_vec();
        self.give(Request::WriteAtomic { writes: data }, &writes, true, None);
    }

    fn clear(&mut self) {
        let units = self.random.random_range(1..=8);
        let lpn = self.lpn(units as usize);
        let writes: Vec<_> = (lpn..lpn + units).map(|lpn| (lpn, 0)).collect();
        let request = match self.random.random() {
            true => Request::Trim { lpn: Lpn(lpn), units },
            false => Request::WriteZeroes { lpn: Lpn(lpn), units },
        };
        self.give(request, &writes, false, None);
    }

    fn share(&mut self) {
        let (src, dst, deferred) = (self.lpn(1), self.lpn(1), self.random.random());
        if src == dst || !self.drive.lock().is_mapped(Lpn(src)) {
            return;
        }
        let ranges = vec![ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
        let writes = [(dst, self.newest(src))];
        self.give(Request::Share { ranges, deferred }, &writes, !deferred, None);
    }

    fn read(&mut self) {
        let units = self.random.random_range(1..=8);
        let lpn = self.lpn(units as usize);
        let expected = (lpn..lpn + units).map(|lpn| self.newest(lpn)).collect();
        self.give(Request::Read { lpn: Lpn(lpn), data: Units(units) }, &[], false, Some(expected));
    }

    fn flush(&mut self) {
        let answered = self.given.iter().map(|given| given.is_answered).collect();
        self.give_flushing(Request::Flush, &[], false, None, Some(answered));
    }

    fn give(
        &mut self,
        request: Request,
        writes: &[(u32, Content)],
        is_durable: bool,
        reads: Option<Vec<Content>>,
    ) {
        self.give_flushing(request, writes, is_durable, reads, None);
    }

    fn give_flushing(
        &mut self,
        request: Request,
        writes: &[(u32, Content)],
        is_durable: bool,
        reads: Option<Vec<Content>>,
        flushes: Option<Vec<bool>>,
    ) {
        let command = self.given.len();
        for &(lpn, content) in writes {
            self.versions[lpn as usize].push(Version { content, command });
        }
        let lpns = writes.iter().map(|(lpn, _)| *lpn).collect();
        self.given.push(Given { lpns, is_durable, flushes, reads, is_answered: false });
        let sender = self.sender.clone();
        let queue = &self.queues[self.random.random_range(0..2)];
        queue.submit(request, self.now_ns, move |ended, _| sender.send((command, ended)).unwrap());
    }

    /// Advances time to the next answer.
    fn deliver(&mut self) {
        let first = self.random.random_range(0..2);
        // Each queue's answers are due in order; which queue goes first does not affect what is durable.
        for queue in [first, 1 - first] {
            if let Some(due_ns) = self.answers[queue].deliver_next() {
                self.now_ns = self.now_ns.max(due_ns);
                break;
            }
        }
        self.take_answers();
    }

    fn take_answers(&mut self) {
        while let Ok((command, ended)) = self.ended.try_recv() {
            match ended {
                Ok(reply) => self.answered(command, &reply),
                Err(Status::PowerLost) => self.has_power = false,
                Err(status) => panic!("command {command} failed: {status}"),
            }
        }
    }

    fn answered(&mut self, command: usize, reply: &Reply) {
        self.given[command].is_answered = true;
        let given = self.given[command].clone();
        if let Some(expected) = given.reads {
            let expected: Vec<u8> = expected.into_iter().flat_map(bytes_of).collect();
            assert!(reply.output == Output::Data(expected), "command {command} read something else");
        }
        if let Some(answered) = given.flushes {
            let is_durable = |version: &Version| answered.get(version.command).is_some_and(|is| *is);
            self.versions.iter_mut().for_each(|versions| settle(versions, is_durable));
        }
        if given.is_durable {
            for lpn in given.lpns {
                settle(&mut self.versions[lpn as usize], |version| version.command == command);
            }
        }
    }

    /// Power comes back: whatever is found stays.
    fn recover(&mut self, seed: u64) {
        self.queues.iter().for_each(Queue::run);
        self.take_answers();
        let mut device = self.drive.lock();
        device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
        device.audit();
        self.now_ns = device.time_ns();
        drop(device);
        self.has_power = true;
        for lpn in 0..UNITS {
            let read = Request::Read { lpn: Lpn(lpn), data: Units(1) };
            let found = self.drive.perform(read, self.now_ns).unwrap().into_data();
            let versions = &self.versions[lpn as usize];
            let is_found = |version: &&Version| bytes_of(version.content) == found;
            let version = versions.iter().rev().find(is_found).copied();
            let version = version.unwrap_or_else(|| {
                let number = u64::from_le_bytes(found[..8].try_into().unwrap());
                panic!("unit {lpn} holds {number:#x}, not one of {versions:?}")
            });
            self.versions[lpn as usize] = vec![version];
        }
    }
}

/// The last version that is durable ends the wait of those before it.
fn settle(versions: &mut Vec<Version>, is_durable: impl Fn(&Version) -> bool) {
    if let Some(last) = versions.iter().rposition(is_durable) {
        versions.drain(..last);
    }
}

/// Units that became shares, and blocks that were erased.
fn run(profile: &Profile, seed: u64) -> (u64, u64) {
    let mut host = Host::new(profile, seed);
    for cut in 0..CUTS {
        // mostly soon, but once after garbage was collected
        let most = if cut == 2 { 1000 } else { 150 };
        let operations = host.random.random_range(most / 3..most);
        host.drive.lock().cut_after(Some(operations));
        while host.has_power {
            host.step();
        }
        let seed = seed << 8 | u64::from(cut);
        host.recover(seed);
    }
    let device = host.drive.lock();
    (device.duplicates().remapped, device.smart().counters.blocks_erased)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn what_was_acknowledged_as_durable_is_there_whatever_was_shared() {
    let seeds = match setting("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SEEDS").unwrap_or(5),
    };
    for name in ["tlc-nvme", "tlc-nvme-plp", "openssd-barefoot", "femu-2021"] {
        let profile = small(name, 16);
        let mut erased = 0;
        for seed in seeds.clone() {
            let ended = std::panic::catch_unwind(|| run(&profile, seed));
            let (remapped, blocks) = ended.unwrap_or_else(|panic| {
                eprintln!("drive {name}: run it again with SEED={seed}");
                std::panic::resume_unwind(panic)
            });
            assert!(remapped > 20, "drive {name}, seed {seed}: only {remapped} units were shared");
            erased += blocks;
        }
        println!("{name}: {erased} blocks were erased");
        assert!(erased > 0, "drive {name}: nothing was collected");
    }
}
