//! A drive with records, as blocks or by key, and the requests to it.
//!
//! On a block drive a unit holds several records. To change one smaller than a unit, the paper's firmware reads the unit from
//! flash and rewrites it, in one command (3.3.2). Here the drive is told to read it as a client inside the drive does, which
//! takes neither firmware nor link, and then the host writes it. Consecutive records are in different units, so that a unit
//! has left the cache before its next record comes.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Key, KvRecord, Lpn, NamespaceAttributes, NamespaceId, Nanoseconds, Profile, UNIT_BYTES,
    result_of,
};
use tantalum_drive::{Drive, When};
use tantalum_workloads::closed_loop::{Served, Turn, serve};

use crate::error::ExperimentError;
use crate::experiments::Run;

/// The drive's cache: smaller than what is read, as on the board.
pub(super) const CACHE_BYTES: u64 = 4 << 20;

/// Other data's share of the capacity. They are overwritten at random until garbage collection is steady.
pub(super) const OTHER_PERCENT: u64 = 40;

/// The operation on records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    Fetch,
    Update,
    Insert,
}

/// A drive with records, as blocks or by key.
pub(super) struct Target {
    drive: Drive,
    interface: Interface,
    value: Vec<u8>,
    buffer: Vec<u8>,
    /// Units that hold the records of a block drive.
    units: u32,
    records: u64,
    random: Xoshiro256PlusPlus,
    /// What each client has read and will write in its next turn.
    changes: Vec<Option<Change>>,
}

/// A unit as it is in memory, part of which changes.
struct Change {
    lpn: Lpn,
    unit: Vec<u8>,
    offset: usize,
    record: u64,
}

enum Interface {
    /// Starting at this unit.
    Blocks(u32),
    /// In this namespace, with this many in each `put`.
    Keys(NamespaceId, usize),
}

impl Target {
    /// For at most this many records.
    pub(super) fn blocks(drive: &Drive, value_bytes: usize, records: u64, seed: u64) -> Target {
        let first = other_units(drive.lock().profile());
        let mut target = Target::new(copy_of(drive), Interface::Blocks(first), value_bytes, seed);
        target.units = records.div_ceil((UNIT_BYTES / value_bytes) as u64) as u32;
        target
    }

    pub(super) fn keys(
        drive: &Drive,
        value_bytes: usize,
        batch: usize,
        seed: u64,
    ) -> Result<Target, ExperimentError> {
        Target::keys_in_logs(copy_of(drive), value_bytes, batch, 0, seed)
    }

    /// A namespace with this many logs.
    pub(super) fn keys_in_logs(
        drive: Drive,
        value_bytes: usize,
        batch: usize,
        logs: u32,
        seed: u64,
    ) -> Result<Target, ExperimentError> {
        let mut target = Target::new(drive, Interface::Blocks(0), value_bytes, seed);
        let attributes =
            NamespaceAttributes { logs, load_factor_percent: 95, ..NamespaceAttributes::default() };
        let create = |namespace: &mut _| {
            target.drive.lock().issue(Command::CreateNamespace { attributes, namespace }, When::AfterAll)
        };
        let namespace = result_of(create)?;
        target.interface = Interface::Keys(namespace, batch);
        Ok(target)
    }

    fn new(drive: Drive, interface: Interface, value_bytes: usize, seed: u64) -> Target {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut value = vec![0; value_bytes];
        random.fill(&mut value[..]);
        let buffer = vec![0; UNIT_BYTES];
        Target { drive, interface, value, buffer, units: 0, records: 0, random, changes: Vec::new() }
    }

    /// Executes this many requests of one kind, with this many threads.
    pub(super) fn serve(
        &mut self,
        run: &Run<'_>,
        work: Work,
        threads: u32,
        requests: u64,
    ) -> Result<Served, ExperimentError> {
        let bar = run.monitor.bar(format!("{work:?}, {} bytes", self.value.len()), requests);
        let start_ns = self.drive.lock().time_ns();
        self.changes = (0..threads).map(|_| None).collect();
        serve(threads, requests, start_ns, &bar, |client, at_ns| match self.changes[client].take() {
            Some(change) => self.write_changed(change, at_ns),
            None => self.begin(work, client, at_ns),
        })
    }

    fn begin(&mut self, work: Work, client: usize, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        let batch = if let Interface::Keys(_, batch) = self.interface { batch as u64 } else { 1 };
        let first = match work {
            Work::Insert => self.records,
            _ => self.random.random_range(0..self.records.div_ceil(batch)) * batch,
        };
        if work == Work::Insert {
            self.records += batch;
        }
        let done_ns = match (&self.interface, work) {
            (Interface::Keys(namespace, _), Work::Fetch) => self.get(*namespace, first, at_ns)?,
            (Interface::Keys(namespace, batch), _) => self.put(*namespace, first, *batch, at_ns)?,
            (Interface::Blocks(unit), Work::Fetch) => self.read(self.place(*unit, first).0, at_ns)?,
            (Interface::Blocks(unit), _) => {
                let (lpn, offset) = self.place(*unit, first);
                let change = Change { lpn, unit: vec![0; UNIT_BYTES], offset, record: first };
                return self.change(change, client, at_ns);
            }
        };
        Ok(Turn::Done(done_ns))
    }

    /// The unit of a record, and its position there.
    fn place(&self, first: u32, record: u64) -> (Lpn, usize) {
        let units = u64::from(self.units);
        (Lpn(first + (record % units) as u32), (record / units) as usize * self.value.len())
    }

    fn get(
        &mut self,
        namespace: NamespaceId,
        record: u64,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, ExperimentError> {
        let command = Command::KvGet { namespace, key: key(record), value: &mut self.buffer };
        let done = self.drive.lock().submit(command, at_ns)?;
        assert_eq!(self.buffer.len(), self.value.len(), "the value of record {record}");
        Ok(done.done_ns)
    }

    fn put(
        &mut self,
        namespace: NamespaceId,
        first: u64,
        batch: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, ExperimentError> {
        self.value[..8].copy_from_slice(&first.to_le_bytes());
        let record = |number| KvRecord { namespace, key: key(number), value: Some(&self.value) };
        let records: Vec<KvRecord<'_>> = (first..first + batch as u64).map(record).collect();
        Ok(self.drive.lock().submit(Command::KvPut { records: &records }, at_ns)?.done_ns)
    }

    fn read(&mut self, lpn: Lpn, at_ns: Nanoseconds) -> Result<Nanoseconds, ExperimentError> {
        Ok(self.drive.lock().submit(Command::Read { lpn, data: &mut self.buffer }, at_ns)?.done_ns)
    }

    /// Writes a whole unit; for a unit that changes in part, firmware waits for the rest.
    fn change(
        &mut self,
        mut change: Change,
        client: usize,
        at_ns: Nanoseconds,
    ) -> Result<Turn, ExperimentError> {
        if self.value.len() == UNIT_BYTES {
            return self.write_changed(change, at_ns);
        }
        let command = Command::Read { lpn: change.lpn, data: &mut self.buffer };
        let done_ns = self.drive.lock().submit_inside(command, at_ns)?.done_ns;
        change.unit.copy_from_slice(&self.buffer);
        self.changes[client] = Some(change);
        Ok(Turn::Next(done_ns))
    }

    /// The drive that the records are on.
    pub(super) fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Clients that change a unit at the same time share its copy, so that none overwrites what another has changed.
    fn write_changed(&mut self, mut change: Change, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        self.value[..8].copy_from_slice(&change.record.to_le_bytes());
        let others = self.changes.iter_mut().flatten().filter(|other| other.lpn == change.lpn);
        for unit in others.map(|other| &mut other.unit).chain([&mut change.unit]) {
            unit[change.offset..change.offset + self.value.len()].copy_from_slice(&self.value);
        }
        let command = Command::Write { lpn: change.lpn, data: &change.unit, fua: false, handle: None };
        Ok(Turn::Done(self.drive.lock().submit(command, at_ns)?.done_ns))
    }

    /// Evicts the records from the drive's cache with other data.
    pub(super) fn settle(&mut self) -> Result<(), ExperimentError> {
        let units = (2 * CACHE_BYTES / UNIT_BYTES as u64) as u32;
        let others = other_units(self.drive.lock().profile());
        let data = vec![1; UNIT_BYTES];
        for _ in 0..units {
            let lpn = Lpn(self.random.random_range(0..others));
            self.drive
                .lock()
                .issue(Command::Write { lpn, data: &data, fua: false, handle: None }, When::AfterAll)?;
        }
        Ok(())
    }
}

fn copy_of(drive: &Drive) -> Drive {
    drive.try_clone().expect("a drive in memory can be copied")
}

fn key(record: u64) -> Key {
    Key::new(&record.to_be_bytes()).expect("eight bytes are a key")
}

/// Units of other data.
pub(super) fn other_units(profile: &Profile) -> u32 {
    (profile.capacity_bytes * OTHER_PERCENT / 100 / UNIT_BYTES as u64) as u32
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum::Device;
    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn clients_that_change_parts_of_a_unit_at_once_keep_the_order_of_time_and_what_others_changed() {
        const RECORDS: u64 = 1000;
        let run = Run { scale: 1.0, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let mut profile = Profile::load("kaml-board").unwrap();
        profile.capacity_bytes = 512 << 20;
        let mut target = Target::blocks(&Drive::new(Device::in_memory(&profile).unwrap()), 512, RECORDS, 1);
        target.serve(&run, Work::Insert, 8, RECORDS).unwrap();
        target.serve(&run, Work::Update, 8, RECORDS).unwrap();
        let Interface::Blocks(first) = target.interface else { panic!("it is a block drive") };
        for record in 0..RECORDS {
            let (lpn, offset) = target.place(first, record);
            let now_ns = target.drive.lock().time_ns();
            target.read(lpn, now_ns).unwrap();
            assert_eq!(target.buffer[offset..offset + 8], record.to_le_bytes(), "record {record}");
        }
    }
}
