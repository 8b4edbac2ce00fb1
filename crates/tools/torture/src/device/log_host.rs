//! A host that works like SQLite's log: frames with a chained checksum in their metadata, rollbacks after pages were
//! written, partial checkpoints, restarts. What it would recover from the log and what the drive has brought home must
//! be the same committed state, no older than what was flushed (hazards 7 and 8).

use std::collections::BTreeMap;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Generation, Hint, Lpn, Metadata, ShareRange, UNIT_BYTES, result_of};

use super::history::NEVER;
use super::host::{Host, stamp_of, unit_of};
use super::stop::Stop;

const SLOTS: u32 = 12;
const HOMES: u32 = 12;

/// The contents of a frame's metadata: the previous frame's checksum, the home, whether it commits.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Frame {
    chain: u64,
    home: u32,
    commit: bool,
    stamp: u64,
}

impl Frame {
    fn metadata(&self) -> Metadata {
        let mut metadata = [0; 24];
        metadata[..8].copy_from_slice(&self.chain.to_le_bytes());
        metadata[8..12].copy_from_slice(&self.home.to_le_bytes());
        metadata[12] = 1 + u8::from(self.commit);
        metadata
    }

    fn parse(metadata: &Metadata, stamp: u64) -> Option<Frame> {
        let commit = metadata[12].checked_sub(1)? == 1;
        let (chain, rest) = metadata.split_first_chunk()?;
        let (home, _) = rest.split_first_chunk()?;
        Some(Frame { chain: u64::from_le_bytes(*chain), home: u32::from_le_bytes(*home), commit, stamp })
    }

    fn checksum(&self) -> u64 {
        let words = [self.chain, self.home.into(), self.commit.into(), self.stamp];
        words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
            (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        })
    }
}

/// The log, and the states that its homes may be in.
#[derive(Clone)]
pub(super) struct LogHost {
    base: u32,
    /// Whether a page is durable when it is written.
    durable_writes: bool,
    header: u64,
    generation: Generation,
    frames: Vec<Frame>,
    attempt: u32,
    start: u32,
    /// Slots of the log that belong to earlier generations of the drive's, after a recovery.
    slot_base: u32,
    brought_home: u32,
    /// What the homes hold after each commit, the newest last, and since when that is durable.
    states: Vec<(BTreeMap<u32, u64>, u64)>,
    next_stamp: u64,
}

impl LogHost {
    /// A new log. `base` is its header; homes and slots follow.
    pub fn new(host: &mut Host, base: Lpn, durable_writes: bool) -> Result<LogHost, Stop> {
        let generation = begin(host)?;
        let mut log = LogHost {
            base: base.0,
            durable_writes,
            header: 1,
            generation,
            frames: Vec::new(),
            attempt: 0,
            start: 1,
            slot_base: 0,
            brought_home: 0,
            states: vec![(BTreeMap::new(), 0)],
            next_stamp: 1 << 40,
        };
        log.write_header(host)?;
        Ok(log)
    }

    fn header_lpn(&self) -> Lpn {
        Lpn(self.base)
    }

    fn home_lpn(&self, home: u32) -> Lpn {
        Lpn(self.base + 1 + home)
    }

    fn slot_lpn(&self, slot: u32) -> Lpn {
        Lpn(self.base + HOMES + slot)
    }

    fn write_header(&mut self, host: &mut Host) -> Result<(), Stop> {
        let (lpn, data) = (self.header_lpn(), unit_of(self.header));
        host.submit_and_wait(Command::Write { lpn, data: &data, fua: false, handle: None })?;
        self.flush(host)
    }

    fn flush(&mut self, host: &mut Host) -> Result<(), Stop> {
        let flushed = host.submit_and_wait(Command::Flush)?;
        self.flushed(host.now_ns, flushed.done_ns);
        Ok(())
    }

    /// A flush submitted at one time is done at another. This host has waited for all of its commands.
    pub fn flushed(&mut self, _given_ns: u64, done_ns: u64) {
        let newest = self.states.last_mut().expect("there is always a state");
        newest.1 = newest.1.min(done_ns);
    }

    fn chain(&self) -> u64 {
        self.frames.last().map_or(chain_of(self.header), Frame::checksum)
    }

    /// A transaction, or a checkpoint.
    pub fn step(&mut self, host: &mut Host, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
        if (self.frames.len() as u32) + 3 <= SLOTS && rng.random_ratio(4, 5) {
            return self.transaction(host, rng);
        }
        if self.frames.is_empty() {
            return Ok(());
        }
        let mut upto = self.frames.len() as u32;
        if rng.random_ratio(3, 10) {
            let commits: Vec<u32> =
                (1..=upto).filter(|slot| self.frames[*slot as usize - 1].commit).collect();
            upto = commits[rng.random_range(0..commits.len())];
        }
        let is_full = self.frames.len() as u32 + 3 > SLOTS;
        self.checkpoint(host, upto, is_full || rng.random_ratio(1, 2))
    }

    fn transaction(&mut self, host: &mut Host, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
        let first = self.frames.len() as u32 + 1;
        let count = rng.random_range(1..=3);
        let homes: Vec<u32> = (0..count).map(|_| rng.random_range(0..HOMES)).collect();
        let rolled_back = rng.random_ratio(1, 5);
        let mut state = self.now().clone();
        for (index, home) in homes.iter().enumerate() {
            self.next_stamp += 1;
            state.insert(*home, self.next_stamp);
            let commit = !rolled_back && index + 1 == homes.len();
            if commit {
                // from here on it may be found, whether or not the call returns
                self.states.push((state.clone(), NEVER));
            }
            self.append(host, first, *home, commit)?;
        }
        if rolled_back {
            self.frames.truncate(first as usize - 1);
            self.attempt += 1;
            self.start = first;
        } else if self.durable_writes {
            self.flushed(host.now_ns, host.now_ns);
        }
        Ok(())
    }

    fn append(&mut self, host: &mut Host, first: u32, home: u32, commit: bool) -> Result<(), Stop> {
        let frame = Frame { chain: self.chain(), home, commit, stamp: self.next_stamp };
        let slot = self.frames.len() as u32 + 1;
        let hint = Hint {
            generation: self.generation,
            attempt: self.attempt,
            start: self.start - self.slot_base,
            first: first - self.slot_base,
            slot: slot - self.slot_base,
            end: commit,
            home: Some(self.home_lpn(home)),
        };
        let (lpn, data) = (self.slot_lpn(slot), unit_of(frame.stamp));
        host.submit_and_wait(Command::WriteHinted { lpn, data: &data, metadata: &frame.metadata(), hint })?;
        self.frames.push(frame);
        Ok(())
    }

    /// Brings frames home. The log restarts after all of them, unless a reader still needs it: then it continues after
    /// them.
    fn checkpoint(&mut self, host: &mut Host, upto: u32, restarts: bool) -> Result<(), Stop> {
        self.flush(host)?;
        let newest: BTreeMap<u32, u32> =
            (1..=upto).map(|slot| (self.frames[slot as usize - 1].home, slot)).collect();
        let ranges: Vec<ShareRange> = newest
            .iter()
            .filter(|(_, slot)| **slot > self.brought_home)
            .map(|(home, slot)| ShareRange { dst: self.home_lpn(*home), src: self.slot_lpn(*slot), units: 1 })
            .collect();
        if !ranges.is_empty() {
            host.submit_and_wait(Command::Share { ranges: &ranges, deferred: false })?;
        }
        self.brought_home = self.brought_home.max(upto);
        if restarts && upto == self.frames.len() as u32 {
            self.restart(host)?;
        }
        Ok(())
    }

    /// The new header is durable before a slot is reused (hazard 9).
    fn restart(&mut self, host: &mut Host) -> Result<(), Stop> {
        self.frames.clear();
        self.header += 1;
        (self.attempt, self.start, self.slot_base, self.brought_home) = (0, 1, 0, 0);
        self.write_header(host)?;
        self.generation = begin(host)?;
        Ok(())
    }

    /// What a reader sees: homes, with the log's committed frames on top.
    fn view(&self, host: &mut Host) -> Result<BTreeMap<u32, u64>, Stop> {
        let mut view = BTreeMap::new();
        for home in 0..HOMES {
            let stamp = host.read_data(self.home_lpn(home))?;
            if stamp != 0 {
                view.insert(home, stamp);
            }
        }
        view.extend(self.frames[..committed(&self.frames)].iter().map(|frame| (frame.home, frame.stamp)));
        Ok(view)
    }

    /// The newest state.
    fn now(&self) -> &BTreeMap<u32, u64> {
        &self.states.last().expect("there is always a state").0
    }

    /// Checks that the running drive reads right.
    pub fn check_running(&self, host: &mut Host) -> Result<(), Stop> {
        let view = self.view(host)?;
        if view != *self.now() {
            let detail = format!("the log's homes read {view:?}, they hold {:?}", self.now());
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    /// After a cut or a clean shutdown: reads the log back as SQLite does, and continues after its last commit.
    pub fn recover(&mut self, host: &mut Host, cut_ns: u64) -> Result<(), Stop> {
        self.header = host.read_data(self.header_lpn())?;
        self.frames = self.read_back(host)?;
        let view = self.view(host)?;
        let durable = self.states.iter().rposition(|(_, durable_ns)| *durable_ns <= cut_ns).unwrap_or(0);
        let allowed: Vec<_> = self.states[durable..].iter().map(|(state, _)| state).collect();
        if !allowed.contains(&&view) {
            return Err(Stop::broken(
                "D3",
                format!(
                    "the log's host sees {view:?}, no state since the flushed one: {allowed:?}; header {}, its log: {:?}",
                    self.header, self.frames
                ),
            ));
        }
        self.states = vec![(view, 0)];
        let committed = self.frames.len() as u32;
        (self.attempt, self.start, self.slot_base, self.brought_home) = (0, committed + 1, committed, 0);
        self.generation = begin(host)?;
        Ok(())
    }

    /// The frames that continue each other from the header, up to the last commit.
    fn read_back(&self, host: &mut Host) -> Result<Vec<Frame>, Stop> {
        let (mut frames, mut unit) = (Vec::new(), [0; UNIT_BYTES]);
        for slot in 1..=SLOTS {
            let (mut metadata, lpn) = ([0; 24], self.slot_lpn(slot));
            host.submit(Command::ReadWithMetadata { lpn, data: &mut unit, metadata: &mut metadata })?;
            let chain = frames.last().map_or(chain_of(self.header), Frame::checksum);
            match Frame::parse(&metadata, stamp_of(&unit, "a log page")?) {
                Some(frame) if frame.chain == chain => frames.push(frame),
                _ => break,
            }
        }
        frames.truncate(committed(&frames));
        Ok(frames)
    }
}

/// Frames up to the last commit.
fn committed(frames: &[Frame]) -> usize {
    frames.iter().rposition(|frame| frame.commit).map_or(0, |last| last + 1)
}

/// Where the chain of checksums begins.
fn chain_of(header: u64) -> u64 {
    header.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn begin(host: &mut Host) -> Result<Generation, Stop> {
    Ok(result_of(|generation| host.submit_and_wait(Command::BeginLog { generation }))?)
}
