//! A host whose units and records change in groups, by every command that is all or nothing and durable when it is done.
//! After a break each group must be as the last acknowledged command left it, or as the one in progress would have left it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_image::mix;
use tantalum_nvme::client::{Client, Completed, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::wire::command::{Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::opcode::{admin as admin_opcode, key_value, nvm, vendor};
use tantalum_nvme::wire::pdu::{Data, flag, kind};
use zerocopy::{FromBytes, IntoBytes};

use super::records::{add_records, record_command};
use super::witness::bytes_of;
use super::{UNIT, with_transaction};

const GROUPS: u64 = 10;
/// Units of a group.
const UNITS: u64 = 3;
/// Units of each host: its groups, and a place where units are staged.
const OWN: u64 = (GROUPS + 1) * UNITS;
/// The namespaces of the records of a group.
const NAMESPACES: [u32; 2] = [2, 3];
const VALUE_BYTES: u32 = 16 << 10;

/// The numbers of the commands that wrote a group's units, and its records.
type Versions = (u64, u64);

#[derive(Clone, Copy, Default)]
struct Group {
    is: Versions,
    /// The state that it may have instead, as a command was in progress.
    may_be: Option<Versions>,
}

/// The host.
pub struct Grouped {
    number: u64,
    groups: Vec<Group>,
    pub last: u64,
    rng: Xoshiro256PlusPlus,
    open: Vec<u64>,
    /// How often each kind of step was executed.
    pub done: [u64; STEPS],
    /// Commands that broke off in the middle of their data, and those that were aborted.
    pub torn_off: u64,
    pub aborted: u64,
}

/// Kinds of steps.
pub const STEPS: usize = 8;

fn key(number: u64, group: u64) -> Vec<u8> {
    format!("h{number}g{group}").into_bytes()
}

/// The value of a record; its length says something as well.
fn value(group: u64, namespace: u32, version: u64) -> Vec<u8> {
    let words = 2 + mix(version << 3 | u64::from(namespace)) % 1500;
    (0..words).flat_map(|word| mix(group << 50 ^ version << 20 ^ word).to_le_bytes()).collect()
}

/// Power loss is the only failure that a command of this host may meet.
fn done(completed: Completed) -> io::Result<Completed> {
    match completed.code {
        0 => Ok(completed),
        code if code == Failure::POWER_LOSS.code() => Err(io::Error::other("power has gone")),
        code => panic!("a command ended with {code:#x}"),
    }
}

impl Grouped {
    pub fn new(number: u64, seed: u64) -> Grouped {
        Grouped {
            number,
            groups: vec![Group::default(); GROUPS as usize],
            last: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | 0x80 | number),
            open: Vec::new(),
            done: [0; STEPS],
            torn_off: 0,
            aborted: 0,
        }
    }

    fn unit(&self, group: u64, at: u64) -> u64 {
        2000 + self.number * OWN + group * UNITS + at
    }

    /// Checks all groups after a break.
    pub fn look(&mut self, io: &mut Client) -> io::Result<()> {
        self.open.clear();
        for group in 0..GROUPS {
            let units = self.units_version(io, group)?;
            let records = self.records_version(io, group)?;
            let Group { is, may_be } = self.groups[group as usize];
            let found = (units, records);
            assert!(
                found == is || Some(found) == may_be,
                "group {group} of host {} is {found:?}, not {is:?} or {may_be:?}",
                self.number
            );
            self.groups[group as usize] = Group { is: found, may_be: None };
        }
        Ok(())
    }

    fn units_version(&self, io: &mut Client, group: u64) -> io::Result<u64> {
        let first = self.unit(group, 0);
        let read = block_command(nvm::READ, first, UNITS as u32);
        let data = done(io.read_command(read, UNITS as u32 * UNIT as u32)?)?.data;
        let version = u64::from_le_bytes(data[8..16].try_into().unwrap());
        for (at, unit) in (first..).zip(data.chunks(UNIT)) {
            let is_its =
                if version == 0 { unit.iter().all(|&byte| byte == 0) } else { unit == bytes_of(at, version) };
            assert!(is_its, "unit {at} is not of command {version}, as the first of its group");
        }
        Ok(version)
    }

    fn records_version(&self, io: &mut Client, group: u64) -> io::Result<u64> {
        let key = key(self.number, group);
        let mut versions = [0; 2];
        for (namespace, found) in NAMESPACES.into_iter().zip(&mut versions) {
            let retrieve = record_command(key_value::RETRIEVE, namespace, &key, VALUE_BYTES, 0);
            let retrieved = io.read_command(retrieve, VALUE_BYTES)?;
            if retrieved.code == Failure::NO_SUCH_KEY.code() {
                continue;
            }
            let data = done(retrieved)?.data;
            *found = u64::from_le_bytes(data[..8].try_into().unwrap());
            let Group { is, may_be } = self.groups[group as usize];
            let versions = [Some(is.1), may_be.map(|versions| versions.1)];
            let version =
                versions.into_iter().flatten().find(|&version| value(group, namespace, version) == data);
            *found = version.unwrap_or_else(|| {
                panic!("the record of group {group} in {namespace} is none of {versions:?}")
            });
        }
        assert_eq!(versions[0], versions[1], "the records of group {group} are of different commands");
        Ok(versions[0])
    }

    /// Does one step after another until something fails.
    pub fn work(&mut self, admin: &mut Client, io: &mut Client, steps: &AtomicU64) -> io::Result<()> {
        loop {
            for transaction in std::mem::take(&mut self.open) {
                done(io.command(with_transaction(vendor::ABORT, 0, transaction))?)?;
            }
            let step = self.rng.random_range(0..STEPS);
            self.step(step, admin, io)?;
            self.done[step] += 1;
            steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn step(&mut self, step: usize, admin: &mut Client, io: &mut Client) -> io::Result<()> {
        let group = self.rng.random_range(0..GROUPS);
        self.last += 1;
        let (version, is) = (self.last, self.groups[group as usize].is);
        let (units, both, records) = ((version, is.1), (version, version), (is.0, version));
        match step {
            0 => {
                let (write, data) = self.batch(group, version);
                self.change(group, both, |_| io.write_command(write, &data))
            }
            1 => {
                let data = self.unit_data(group, version);
                let write = command(vendor::WRITE_ATOMIC, 1, [0, 0, UNITS as u32 - 1, 0, 0, 0]);
                self.change(group, units, |_| io.write_command(write, &data))
            }
            2 => self.transaction(group, version, io),
            3 | 4 => {
                self.stage(group, version, io)?;
                let (to, from) = (self.unit(group, 0) as u32, self.unit(GROUPS, 0) as u32);
                let range: Vec<u8> =
                    [to, from, UNITS as u32, 0].into_iter().flat_map(u32::to_le_bytes).collect();
                let remap = command(vendor::REMAP, 1, [from, to, UNITS as u32, 0, 0, 0]);
                self.change(group, units, |_| match step {
                    3 => io.write_command(command(vendor::SHARE, 1, [0; 6]), &range),
                    _ => io.command(remap),
                })
            }
            5 => {
                let mut data = Vec::new();
                self.add_values(&mut data, group, version);
                let put = command(vendor::PUT, NAMESPACES[0], [data.len() as u32, 0, 0, 0, 0, 0]);
                self.change(group, records, |_| io.write_command(put, &data))
            }
            6 if self.rng.random_ratio(1, 8) => self.break_off(group, version, io),
            6 => {
                let trim = block_command(nvm::WRITE_ZEROES, self.unit(GROUPS, 0), UNITS as u32);
                done(io.command(trim)?)?;
                done(io.command(block_command(nvm::FLUSH, 0, 1))?).map(drop)
            }
            _ => self.abort(group, version, admin, io),
        }
    }

    /// A command changes a group.
    fn change(
        &mut self,
        group: u64,
        to: Versions,
        change: impl FnOnce(&mut Grouped) -> io::Result<Completed>,
    ) -> io::Result<()> {
        self.groups[group as usize].may_be = Some(to);
        done(change(self)?)?;
        self.groups[group as usize] = Group { is: to, may_be: None };
        Ok(())
    }

    /// The units of a group, as Write Atomic and Write Batch carry them.
    fn unit_data(&mut self, group: u64, version: u64) -> Vec<u8> {
        let mut order: Vec<u64> = (0..UNITS).map(|at| self.unit(group, at)).collect();
        order.shuffle(&mut self.rng);
        let mut data: Vec<u8> = order.iter().flat_map(|&unit| (unit as u32).to_le_bytes()).collect();
        data.resize(UNIT, 0);
        order.iter().for_each(|&unit| data.extend(bytes_of(unit, version)));
        data
    }

    fn add_values(&self, data: &mut Vec<u8>, group: u64, version: u64) {
        let key = key(self.number, group);
        for namespace in NAMESPACES {
            let value = value(group, namespace, version);
            add_records(data, &[(namespace, &key, Some(&value))]);
        }
    }

    fn batch(&mut self, group: u64, version: u64) -> (Submission, Vec<u8>) {
        let mut data = self.unit_data(group, version);
        self.add_values(&mut data, group, version);
        let write = command(vendor::WRITE_BATCH, 1, [data.len() as u32, 0, UNITS as u32 - 1, 0, 0, 0]);
        (write, data)
    }

    /// Writes units where they wait to be shared or moved.
    fn stage(&mut self, group: u64, version: u64, io: &mut Client) -> io::Result<()> {
        let data: Vec<u8> = (0..UNITS).flat_map(|at| bytes_of(self.unit(group, at), version)).collect();
        let write = block_command(nvm::WRITE, self.unit(GROUPS, 0), UNITS as u32);
        done(io.write_command(write, &data)?).map(drop)
    }

    /// Writes in a transaction, which is committed, aborted, or left open for a while.
    fn transaction(&mut self, group: u64, version: u64, io: &mut Client) -> io::Result<()> {
        let transaction = done(io.command(command(vendor::BEGIN, 1, [0; 6]))?)?.result;
        let mut order: Vec<u64> = (0..UNITS).map(|at| self.unit(group, at)).collect();
        order.shuffle(&mut self.rng);
        for unit in order {
            let write = with_transaction(vendor::TX_WRITE, unit as u32, transaction);
            done(io.write_command(write, &bytes_of(unit, version))?)?;
        }
        match self.rng.random_range(0..6) {
            0 => done(io.command(with_transaction(vendor::ABORT, 0, transaction))?).map(drop),
            1 => {
                self.open.push(transaction);
                Ok(())
            }
            _ => {
                let to = (version, self.groups[group as usize].is.1);
                let commit = with_transaction(vendor::COMMIT, 0, transaction);
                self.change(group, to, |_| io.command(commit))
            }
        }
    }

    /// Hangs up in the middle of the data of a command: it must not be done.
    fn break_off(&mut self, group: u64, version: u64, io: &mut Client) -> io::Result<()> {
        let (mut write, data) = self.batch(group, version);
        write.data = Pointer::new(data.len() as u32, TRANSPORT);
        io.submit(write, Vec::new(), 0)?;
        let pdu = io.receive()?;
        if pdu.header[0] != kind::R2T {
            return Err(io::Error::other("power has gone"));
        }
        let ready = Data::read_from_bytes(&pdu.header).unwrap();
        let (command, transfer) = (ready.command.get(), ready.transfer.get());
        let header = Data::new(kind::H2C_DATA, flag::LAST, command, transfer, 0, data.len() as u32);
        let sent = io.encode(header.as_bytes(), &data);
        io.send(&sent[..self.rng.random_range(0..sent.len())])?;
        self.torn_off += 1;
        Err(io::Error::other("broken off"))
    }

    /// A command and its Abort race: the command is done, or it is reported as aborted.
    fn abort(&mut self, group: u64, version: u64, admin: &mut Client, io: &mut Client) -> io::Result<()> {
        let (write, data) = self.batch(group, version);
        let to = (version, version);
        self.groups[group as usize].may_be = Some(to);
        let id = io.submit_write(write, data)?;
        let aborts = command(admin_opcode::ABORT, 0, [u32::from(id) << 16 | 1, 0, 0, 0, 0, 0]);
        let abort = admin.submit(aborts, Vec::new(), 0)?;
        // its data are sent only now, if they were asked for
        if self.rng.random() {
            std::thread::sleep(std::time::Duration::from_micros(self.rng.random_range(0..300)));
        }
        let ended = io.reap()?;
        let answer = done(admin.reap()?)?;
        assert_eq!(answer.id, abort);
        if ended.code == Failure::ABORTED.code() {
            assert_eq!(answer.result & 1, 0, "it was aborted, and its Abort says that it was not");
            self.groups[group as usize].may_be = None;
            self.aborted += 1;
            return Ok(());
        }
        done(ended)?;
        assert_eq!(answer.result & 1, 1, "it was done, and its Abort says that it was not");
        self.groups[group as usize] = Group { is: to, may_be: None };
        Ok(())
    }
}
