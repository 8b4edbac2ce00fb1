//! Commands of a client on the records that all clients share, and on records and units together.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use tantalum::{Lpn, NamespaceAttributes};
use tantalum_drive::{InReply, OwnedRecord, Request};

use super::units_of;
use crate::clients::kinds::Kind;
use crate::clients::namespaces::{LIST_LIMIT, Made};
use crate::clients::pending::What;
use crate::clients::run::Run;
use crate::device::draw::{Generator, distinct};
use crate::device::history::Order;
use crate::device::record_host::{FILLING, FILLING_KEYS, NewRecords, key_of, value_of};
use crate::device::records::{RecordId, Thing};
use crate::device::stop::Stop;
use crate::device::tide::Tide;

fn owned(records: &NewRecords) -> Vec<OwnedRecord> {
    records.iter().map(|(place, stamp)| (place.0, key_of(place.1), value_of(*place, *stamp))).collect()
}

impl Run {
    /// Puts and deletes some records at once.
    pub(super) fn put(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        if let Some(slot) = self.spaces.filling()
            && rng.random_ratio(1, if self.tide == Tide::Records { 1 } else { 4 })
        {
            return self.fill(client, slot, rng);
        }
        let Some(records) = self.draw_records(client, rng)? else { return Ok(()) };
        self.submit_put(client, records)
    }

    fn submit_put(&mut self, client: usize, records: NewRecords) -> Result<(), Stop> {
        let put = self.issue_records(&records);
        let request = Request::KvPut { records: owned(&records) };
        self.submit(client, Kind::Put, What::Put { put, records }, request)
    }

    /// Puts many records into the namespace that fills the drive.
    pub(super) fn fill(&mut self, client: usize, slot: usize, rng: &mut Generator) -> Result<(), Stop> {
        let Some(Made { namespace, .. }) = self.spaces.there(slot) else { return self.create(client, slot) };
        let (first, count) = (rng.random_range(0..FILLING_KEYS), rng.random_range(1..96));
        let places = (first..first + count).map(|number| (namespace, number % FILLING_KEYS));
        let records = places.map(|place| (place, self.stamp() | FILLING)).collect();
        self.submit_put(client, records)
    }

    /// Writes some units, and puts and deletes some records, in one step.
    pub(super) fn batch(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let Some(records) = self.draw_records(client, rng)? else { return Ok(()) };
        let count = rng.random_range(1..10);
        let new = self.stamped(distinct(rng, count));
        let (order, put) = (self.oracle.issue(&new, true), self.issue_records(&records));
        let things = records.keys().map(|place| Thing::Record(*place));
        self.batches.issue((order, new.keys().copied()), (put, things));
        let request = Request::WriteBatch { writes: units_of(&new), records: owned(&records) };
        self.submit(client, Kind::Batch, What::Batch { order, new, put, records }, request)
    }

    fn issue_records(&mut self, records: &NewRecords) -> Order {
        let things = records.iter().map(|(place, stamp)| (Thing::Record(*place), *stamp));
        self.records.issue(&things.collect())
    }

    /// Some records with new values, 0 for those to be deleted. `None` if a namespace is missing, which a command now
    /// creates.
    fn draw_records(&mut self, client: usize, rng: &mut Generator) -> Result<Option<NewRecords>, Stop> {
        let most = if rng.random_ratio(1, 4) { 12 } else { 3 };
        let (mut new, mut slots) = (BTreeMap::new(), BTreeSet::new());
        for _ in 0..rng.random_range(1..=most) {
            let slot = rng.random_range(0..self.spaces.count());
            let kind = if self.spaces.filling() == Some(slot) { FILLING } else { 0 };
            let stamp =
                if rng.random_ratio(1, 5) { 0 } else { (self.stamp() + rng.random_range(0..2)) | kind };
            slots.insert(slot);
            new.insert((slot, rng.random_range(0..self.spaces.keys(slot))), stamp);
        }
        if let Some(slot) = slots.into_iter().find(|slot| self.spaces.there(*slot).is_none()) {
            return self.create(client, slot).map(|()| None);
        }
        let place = |slot: usize, number| (self.spaces.there(slot).expect("it is there").namespace, number);
        Ok(Some(new.into_iter().map(|((slot, number), stamp)| (place(slot, number), stamp)).collect()))
    }

    /// Creates a missing namespace, unless another client does so.
    fn create(&mut self, client: usize, slot: usize) -> Result<(), Stop> {
        let Some(logs) = self.spaces.create(slot) else { return Ok(()) };
        let attributes = NamespaceAttributes { logs, ..NamespaceAttributes::default() };
        let what = What::Create { slot, logs };
        self.submit(
            client,
            Kind::Namespace,
            what,
            Request::CreateNamespace { attributes, namespace: InReply },
        )
    }

    /// A random key of a namespace. `None` if that is missing, and a command now creates it.
    fn place(&mut self, client: usize, rng: &mut Generator) -> Result<Option<RecordId>, Stop> {
        let slot = rng.random_range(0..self.spaces.count());
        let number = rng.random_range(0..self.spaces.keys(slot));
        match self.spaces.there(slot) {
            Some(Made { namespace, .. }) => Ok(Some((namespace, number))),
            None => self.create(client, slot).map(|()| None),
        }
    }

    pub(super) fn delete(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let Some(place) = self.place(client, rng)? else { return Ok(()) };
        let thing = Thing::Record(place);
        let exists = self.records.now(thing) != 0;
        let put = self.records.issue(&BTreeMap::from([(thing, 0)]));
        let request = Request::KvDelete { namespace: place.0, key: key_of(place.1) };
        self.submit(client, Kind::Delete, What::Delete { put, place, exists }, request)
    }

    /// Reads a record, or lists the keys of a namespace.
    pub(super) fn get_record(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let Some((namespace, number)) = self.place(client, rng)? else { return Ok(()) };
        if rng.random_ratio(1, 4) {
            let what = What::List { namespace, expected: self.keys_of(namespace) };
            let request = Request::KvList { namespace, from: None, keys: InReply, limit: LIST_LIMIT };
            return self.submit(client, Kind::Get, what, request);
        }
        let place = (namespace, number);
        let what = What::Get { place, expected: self.records.now(Thing::Record(place)) };
        let request = Request::KvGet { namespace, key: key_of(number), value: InReply };
        self.submit(client, Kind::Get, what, request)
    }

    /// Deletes a namespace, or creates a missing one.
    pub(super) fn namespace(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let slot = rng.random_range(0..self.spaces.count());
        let Some(made) = self.spaces.there(slot) else { return self.create(client, slot) };
        let put = self.records.issue(&BTreeMap::from([(Thing::Namespace(made.namespace), 0)]));
        self.spaces.delete(slot, made);
        let what = What::DeleteNamespace { put, slot, made };
        self.submit(client, Kind::Namespace, what, Request::DeleteNamespace { namespace: made.namespace })
    }

    /// Homes with pages that claim them: (dst, src).
    pub(super) fn pages_to_bring_home(&self, rng: &mut Generator, count: usize) -> Vec<(Lpn, Lpn)> {
        let pages: Vec<(Lpn, Lpn)> =
            self.oracle.hints.pages().filter_map(|page| Some((page.home?, page.lpn))).collect();
        let mut pairs: Vec<(Lpn, Lpn)> = Vec::new();
        for _ in 0..count.min(pages.len()) {
            let (home, page) = pages[rng.random_range(0..pages.len())];
            let apart = pairs.iter().all(|(dst, src)| *dst != home && *src != home && *dst != page);
            if apart {
                pairs.push((home, page));
            }
        }
        pairs
    }
}
