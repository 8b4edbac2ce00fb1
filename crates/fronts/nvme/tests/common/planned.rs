//! A host whose commands are drawn from a seed: every command on blocks and records, some at once, on blocks and records that
//! all hosts use. It checks nothing but that a command fails in a way that is allowed; a tap on the wire does the rest.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Generation, Hint, Lpn, METADATA_BYTES};
use tantalum_nvme::client::{Client, Completed, block_command, command, placed};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::io::vendor::{HintedPage, Range};
use tantalum_nvme::wire::command::{Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::opcode::{key_value, nvm, vendor};
use zerocopy::IntoBytes;

use super::records::{add_records, record_command};
use super::witness::bytes_of;
use super::{UNIT, with_transaction};

/// Units that all hosts use.
const UNITS: u64 = 48;
/// Units of the logs: each host has as many behind the others.
const LOG_UNITS: u64 = 12;
/// Keys that all hosts use, in each namespace.
const KEYS: u64 = 12;
const NAMESPACES: [u32; 2] = [2, 3];
/// The largest value, and the buffer that takes it.
const VALUE_BYTES: u32 = 9000;

/// Kinds of commands, with their weights.
const KINDS: [(&str, u32); 19] = [
    ("write", 16),
    ("forced", 5),
    ("zeroes", 2),
    ("deallocate", 4),
    ("flush", 8),
    ("read", 14),
    ("copy", 4),
    ("share", 6),
    ("deferred share", 4),
    ("remap", 4),
    ("atomic", 6),
    ("batch", 6),
    ("put", 6),
    ("store", 5),
    ("delete", 4),
    ("retrieve", 8),
    ("transaction", 16),
    ("hinted", 10),
    ("broken off", 1),
];

/// What the next step of a log is.
#[derive(Clone, Copy, Default)]
struct Log {
    generation: Option<u64>,
    slot: u64,
    first: u64,
}

/// The host.
pub struct Planned {
    number: u64,
    /// Reclaim unit handles of the drive, with which it places what it writes.
    handles: u16,
    rng: Xoshiro256PlusPlus,
    /// The last value that it gave to anything.
    last: u64,
    /// An open transaction.
    transaction: Option<u64>,
    log: Log,
    /// How often a command of each kind was answered, and refused.
    pub done: BTreeMap<&'static str, (u64, u64)>,
    /// Connections that it has had.
    pub connections: u64,
}

/// A command with the data that it sends, or the bytes that it reads.
type Drawn = (Submission, Vec<u8>, u32);

impl Planned {
    pub fn new(number: u64, seed: u64, handles: u16) -> Planned {
        Planned {
            number,
            handles,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | 0x40 | number),
            last: 0,
            transaction: None,
            log: Log::default(),
            done: BTreeMap::new(),
            connections: 0,
        }
    }

    /// Sends commands and takes answers until the connection breaks.
    pub fn work(&mut self, io: &mut Client, steps: &AtomicU64) -> io::Result<()> {
        self.connections += 1;
        (self.transaction, self.log) = (None, Log::default());
        let depth = self.rng.random_range(1..9);
        let mut in_flight = Vec::new();
        loop {
            let most = if self.rng.random_ratio(1, 4) { 0 } else { depth - 1 };
            self.reap(io, &mut in_flight, most, steps)?;
            let kind = self.draw_kind();
            if kind == "broken off" {
                return self.break_off(io);
            }
            let (submission, data, read_bytes) = self.draw(kind);
            let names = submission.opcode == vendor::BEGIN || submission.opcode == vendor::BEGIN_LOG;
            // often a commit waits for the answers to its writes
            if names || submission.opcode == vendor::COMMIT && self.rng.random_ratio(3, 4) {
                self.reap(io, &mut in_flight, 0, steps)?;
            }
            let id = match data.is_empty() {
                true => io.submit(submission, data, read_bytes)?,
                false => io.submit_write(submission, data)?,
            };
            in_flight.push((id, kind));
            if names {
                let ended = self.reap(io, &mut in_flight, 0, steps)?;
                let named = ended.filter(|ended| ended.code == 0).map(|ended| ended.result);
                named.into_iter().for_each(|named| self.begun(submission.opcode, named));
            }
        }
    }

    /// Takes answers until at most this many commands are in flight. Returns the last one.
    fn reap(
        &mut self,
        io: &mut Client,
        in_flight: &mut Vec<(u16, &'static str)>,
        most: usize,
        steps: &AtomicU64,
    ) -> io::Result<Option<Completed>> {
        let mut last = None;
        while in_flight.len() > most {
            let ended = io.reap()?;
            let place = in_flight.iter().position(|(id, _)| *id == ended.id).expect("it was sent");
            let (_, kind) = in_flight.swap_remove(place);
            self.answered(kind, &ended)?;
            steps.fetch_add(1, Ordering::Relaxed);
            last = Some(ended);
        }
        Ok(last)
    }

    /// A command has ended, perhaps because it was refused: hosts get in each other's way.
    fn answered(&mut self, kind: &'static str, ended: &Completed) -> io::Result<()> {
        let allowed = [
            Failure::UNMAPPED,
            Failure::OVER_LIMIT,
            Failure::NO_SUCH_KEY,
            Failure::KEY_EXISTS,
            // a commit without data overtakes a write whose data are on their way
            Failure::UNKNOWN_TRANSACTION,
            Failure::UNKNOWN_LOG,
            Failure::SLOT_OUT_OF_ORDER,
            Failure::NOT_READY,
        ];
        if ended.code == Failure::POWER_LOSS.code() {
            return Err(io::Error::other("power has gone"));
        }
        let refused = ended.code != 0;
        assert!(
            !refused || allowed.iter().any(|failure| failure.code() == ended.code),
            "{kind} of host {} ended with {:#x}",
            self.number,
            ended.code
        );
        let (done, refusals) = self.done.entry(kind).or_default();
        *done += u64::from(!refused);
        *refusals += u64::from(refused);
        Ok(())
    }

    fn begun(&mut self, opcode: u8, named: u64) {
        match opcode {
            vendor::BEGIN => self.transaction = Some(named),
            _ => self.log = Log { generation: Some(named), slot: 1, first: 1 },
        }
    }

    fn draw_kind(&mut self) -> &'static str {
        let total: u32 = KINDS.iter().map(|(_, weight)| weight).sum();
        let mut left = self.rng.random_range(0..total);
        for (kind, weight) in KINDS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        unreachable!("the weights add up")
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// Bytes that nothing else has.
    fn bytes(&mut self, unit: u64) -> Vec<u8> {
        self.last += 1;
        bytes_of(unit, self.number << 48 | self.last)
    }

    /// The first of some units, and their number.
    fn range(&mut self, most: u64) -> (u64, u64) {
        let count = self.rng.random_range(1..=most);
        (self.rng.random_range(0..=UNITS - count), count)
    }

    /// Ranges that do not meet.
    fn two_ranges(&mut self, most: u64) -> (u64, u64, u64) {
        loop {
            let (from, count) = self.range(most);
            let to = self.rng.random_range(0..=UNITS - count);
            if from + count <= to || to + count <= from {
                return (from, to, count);
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.rng.random_range(0..KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = self.rng.random_range(1..VALUE_BYTES as usize);
        let unit = self.bytes(1 << 40);
        unit.iter().copied().cycle().take(bytes.max(16)).collect()
    }

    /// The same command, whose data are often placed with a handle: one of the drive's, or one that there is not.
    fn place(&mut self, command: Submission) -> Submission {
        match self.handles > 0 && self.rng.random_ratio(3, 4) {
            true => placed(command, self.rng.random_range(0..=self.handles)),
            false => command,
        }
    }

    fn draw(&mut self, kind: &'static str) -> Drawn {
        match kind {
            "write" | "forced" => {
                let (first, count) = self.range(12);
                let data = (first..first + count).flat_map(|unit| self.bytes(unit)).collect();
                let mut write = block_command(nvm::WRITE, first, count as u32);
                let forced = u32::from(kind == "forced") << 30;
                write.dword10[2] = ((count as u32 - 1) | forced).into();
                (self.place(write), data, 0)
            }
            "zeroes" => {
                let (first, count) = self.range(6);
                (self.place(block_command(nvm::WRITE_ZEROES, first, count as u32)), Vec::new(), 0)
            }
            "deallocate" => self.deallocate(),
            "flush" => (block_command(nvm::FLUSH, 0, 1), Vec::new(), 0),
            "read" => {
                let (first, count) = self.range(16);
                (block_command(nvm::READ, first, count as u32), Vec::new(), count as u32 * UNIT as u32)
            }
            "copy" => {
                let (from, to, count) = self.two_ranges(6);
                let mut source = vec![0; 32];
                source[8..16].copy_from_slice(&from.to_le_bytes());
                source[16..20].copy_from_slice(&(count as u32 - 1).to_le_bytes());
                (self.place(command(nvm::COPY, 1, [to as u32, 0, 0, 0, 0, 0])), source, 0)
            }
            "share" | "deferred share" => {
                let (from, to, count) = self.two_ranges(5);
                let range = Range::new(to as u32, from as u32, count as u32).as_bytes().to_vec();
                let deferred = u32::from(kind == "deferred share") << 31;
                (command(vendor::SHARE, 1, [0, 0, deferred, 0, 0, 0]), range, 0)
            }
            "remap" => {
                let (from, to, count) = self.two_ranges(3);
                let dwords = [from as u32, to as u32, count as u32, 0, 0, 0];
                (command(vendor::REMAP, 1, dwords), Vec::new(), 0)
            }
            "atomic" | "batch" => self.atomic(kind == "batch"),
            "transaction" => self.in_transaction(),
            "hinted" => self.hinted(),
            _ => self.about_records(kind),
        }
    }

    fn deallocate(&mut self) -> Drawn {
        let ranges = self.rng.random_range(1..4);
        let mut data = Vec::new();
        for _ in 0..ranges {
            let (first, count) = self.range(4);
            data.extend([0; 4]);
            data.extend((count as u32).to_le_bytes());
            data.extend(first.to_le_bytes());
        }
        (command(nvm::DATASET_MANAGEMENT, 1, [ranges - 1, 4, 0, 0, 0, 0]), data, 0)
    }

    /// Write Atomic, or Write Batch.
    fn atomic(&mut self, has_records: bool) -> Drawn {
        let count = self.rng.random_range(2..9);
        let mut units: Vec<u64> = Vec::new();
        while units.len() < count {
            let unit = self.rng.random_range(0..UNITS);
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        let mut data: Vec<u8> = units.iter().flat_map(|&unit| (unit as u32).to_le_bytes()).collect();
        data.resize(UNIT, 0);
        units.iter().for_each(|&unit| data.extend(self.bytes(unit)));
        if !has_records {
            return (command(vendor::WRITE_ATOMIC, 1, [0, 0, count as u32 - 1, 0, 0, 0]), data, 0);
        }
        self.add_records(&mut data);
        (command(vendor::WRITE_BATCH, 1, [data.len() as u32, 0, count as u32 - 1, 0, 0, 0]), data, 0)
    }

    /// Some records, each once.
    fn add_records(&mut self, data: &mut Vec<u8>) {
        let mut records: BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>> = BTreeMap::new();
        for _ in 0..self.rng.random_range(1..5) {
            let name = (NAMESPACES[self.rng.random_range(0..2)], self.key());
            let value = self.rng.random_ratio(3, 4).then(|| self.value());
            records.insert(name, value);
        }
        for ((namespace, key), value) in &records {
            add_records(data, &[(*namespace, key, value.as_deref())]);
        }
    }

    fn about_records(&mut self, kind: &'static str) -> Drawn {
        let namespace = NAMESPACES[self.rng.random_range(0..2)];
        let key = self.key();
        match kind {
            "put" => {
                let mut data = Vec::new();
                self.add_records(&mut data);
                (command(vendor::PUT, namespace, [data.len() as u32, 0, 0, 0, 0, 0]), data, 0)
            }
            "store" => {
                let value = self.value();
                let options = self.rng.random_range(0..3);
                let bytes = value.len() as u32;
                (record_command(key_value::STORE, namespace, &key, bytes, options), value, 0)
            }
            "delete" => (record_command(key_value::DELETE, namespace, &key, 0, 0), Vec::new(), 0),
            _ => {
                let retrieve = record_command(key_value::RETRIEVE, namespace, &key, VALUE_BYTES, 0);
                (retrieve, Vec::new(), VALUE_BYTES)
            }
        }
    }

    /// The next step of a transaction.
    fn in_transaction(&mut self) -> Drawn {
        let Some(transaction) = self.transaction else {
            return (command(vendor::BEGIN, 1, [0; 6]), Vec::new(), 0);
        };
        let end = match self.rng.random_range(0..8) {
            0 => vendor::ABORT,
            1 | 2 => vendor::COMMIT,
            _ => {
                let unit = self.rng.random_range(0..UNITS);
                let write = with_transaction(vendor::TX_WRITE, unit as u32, transaction);
                return (write, self.bytes(unit), 0);
            }
        };
        self.transaction = None;
        (with_transaction(end, 0, transaction), Vec::new(), 0)
    }

    /// The next page of a log, whose home is one of the units that all hosts use.
    fn hinted(&mut self) -> Drawn {
        let Some(generation) = self.log.generation.filter(|_| self.log.slot <= LOG_UNITS) else {
            return (command(vendor::BEGIN_LOG, 1, [0; 6]), Vec::new(), 0);
        };
        let Log { slot, first, .. } = self.log;
        let (end, home) = (self.rng.random_ratio(1, 3), self.rng.random_range(0..UNITS));
        let hint = Hint {
            generation: Generation(generation),
            attempt: 0,
            start: 1,
            first: first as u32,
            slot: slot as u32,
            end,
            home: Some(Lpn(home as u32)),
        };
        self.log.slot += 1;
        self.log.first = if end { slot + 1 } else { first };
        let mut data = HintedPage::new(&hint, [7; METADATA_BYTES]).as_bytes().to_vec();
        data.extend(self.bytes(home));
        let unit = UNITS + self.number * LOG_UNITS + slot - 1;
        (command(vendor::WRITE_HINTED, 1, [unit as u32, 0, 0, 0, 0, 0]), data, 0)
    }

    /// A command whose data never come, and the connection ends.
    fn break_off(&mut self, io: &mut Client) -> io::Result<()> {
        let (mut submission, data, _) = self.atomic(true);
        submission.data = Pointer::new(data.len() as u32, TRANSPORT);
        io.submit(submission, Vec::new(), 0)?;
        self.done.entry("broken off").or_default().0 += 1;
        Err(io::Error::other("the host has left"))
    }
}
