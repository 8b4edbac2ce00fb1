//! Commands of the random host on records, and what their answers mean for what the namespaces hold.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use tantalum::{Command, Nanoseconds, Status};

use super::{FILLING, FILLING_KEYS, Made, NewRecords, RecordHost, key_of, records_of};
use crate::device::draw::Generator;
use crate::device::history::Order;
use crate::device::host::Host;
use crate::device::records::Thing;
use crate::device::stop::Stop;
use crate::device::tide::Tide;

impl RecordHost {
    /// Puts and deletes some records at once.
    pub fn put(&mut self, host: &mut Host, rng: &mut Generator, tide: Tide) -> Result<(), Stop> {
        if self.full && rng.random_ratio(1, if tide == Tide::Records { 1 } else { 4 }) {
            return self.fill(host, rng);
        }
        match self.draw(host, rng)? {
            Some(new) => self.submit_put(host, &new),
            None => Ok(()),
        }
    }

    /// Some records with new values, 0 for those to be deleted. `None` if a namespace was missing, which has now been
    /// created.
    pub fn draw(&mut self, host: &mut Host, rng: &mut Generator) -> Result<Option<NewRecords>, Stop> {
        let most = if rng.random_ratio(1, 4) { 12 } else { 3 };
        let (mut new, mut slots) = (BTreeMap::new(), BTreeSet::new());
        for _ in 0..rng.random_range(1..=most) {
            self.next_stamp += 1;
            let slot = rng.random_range(0..self.slots.len());
            let kind = if self.fills(slot) { FILLING } else { 0 };
            let stamp = if rng.random_ratio(1, 5) { 0 } else { self.next_stamp | kind };
            slots.insert(slot);
            new.insert((slot, rng.random_range(0..self.keys_of(slot))), stamp);
        }
        if let Some(slot) = slots.into_iter().find(|slot| self.slots[*slot].is_none()) {
            return self.create(host, slot).map(|()| None);
        }
        let place = |slot: usize, number| (self.slots[slot].expect("it is there").namespace, number);
        Ok(Some(new.into_iter().map(|((slot, number), stamp)| (place(slot, number), stamp)).collect()))
    }

    /// Puts many records into the namespace that fills the drive.
    fn fill(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let slot = self.slots.len() - 1;
        let Some(Made { namespace, .. }) = self.slots[slot] else { return self.create(host, slot) };
        let (first, count) = (rng.random_range(0..FILLING_KEYS), rng.random_range(1..96));
        let new = (first..first + count).map(|number| {
            self.next_stamp += 1;
            ((namespace, number % FILLING_KEYS), self.next_stamp | FILLING)
        });
        let new = new.collect();
        self.submit_put(host, &new)
    }

    fn submit_put(&mut self, host: &mut Host, new: &NewRecords) -> Result<(), Stop> {
        let values = self.values_of(new);
        let order = self.issue(new);
        let answer = host.submit(Command::KvPut { records: &records_of(&values) });
        self.answered(host, order, new, answer.map(|put| put.done_ns))
    }

    /// Its answer: when it is done, or why it was refused; a refused command has changed nothing.
    pub fn answered(
        &mut self,
        host: &mut Host,
        order: Order,
        new: &NewRecords,
        answer: Result<Nanoseconds, Status>,
    ) -> Result<(), Stop> {
        match answer {
            Ok(done_ns) => self.records.acknowledge(order, done_ns),
            Err(status) => {
                let frees = new.values().all(|stamp| *stamp == 0);
                self.may_refuse(&status, frees)?;
                self.refuse(host, order, new)?;
            }
        }
        self.records.forget_before(host.now_ns);
        Ok(())
    }

    /// A command was refused for a good reason: its records are unchanged.
    pub fn refuse(&mut self, host: &mut Host, order: Order, new: &NewRecords) -> Result<(), Stop> {
        self.records.refuse(order);
        new.keys().try_for_each(|place| self.check(host, *place, "running drive"))
    }

    /// Deletes one record.
    pub fn delete(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let slot = rng.random_range(0..self.slots.len());
        let number = rng.random_range(0..self.keys_of(slot));
        let Some(Made { namespace, .. }) = self.slots[slot] else { return self.create(host, slot) };
        let thing = Thing::Record((namespace, number));
        let order = self.records.issue(&BTreeMap::from([(thing, 0)]));
        match host.submit(Command::KvDelete { namespace, key: key_of(number) }) {
            Ok(deleted) => self.records.acknowledge(order, deleted.done_ns),
            Err(Status::NoSuchKey { .. }) => {
                self.records.refuse(order);
                if self.records.now(thing) != 0 {
                    let detail = format!("key {} of namespace {namespace} cannot be deleted", key_of(number));
                    return Err(Stop::broken("running drive", detail));
                }
            }
            Err(status) => {
                self.may_refuse(&status, true)?;
                self.records.refuse(order);
                self.check(host, (namespace, number), "running drive")?;
            }
        }
        Ok(())
    }

    /// Deletes a namespace, or creates a missing one.
    pub fn replace(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let slot = rng.random_range(0..self.slots.len());
        let Some(Made { namespace, .. }) = self.slots[slot] else { return self.create(host, slot) };
        let order = self.records.issue(&BTreeMap::from([(Thing::Namespace(namespace), 0)]));
        match host.submit(Command::DeleteNamespace { namespace }) {
            Ok(deleted) => {
                self.records.acknowledge(order, deleted.done_ns);
                self.slots[slot] = None;
                self.former.insert(namespace, slot);
            }
            Err(status) => {
                self.may_refuse(&status, true)?;
                self.records.refuse(order);
            }
        }
        Ok(())
    }
}
