//! What a client does in its turn: it chooses a command, records it in the oracle, and submits it.

mod logs;
mod records;
mod transactions;

use rand::RngExt;
use std::collections::BTreeMap;
use std::ops::Range;

use tantalum::{Command, FileId, Lpn, ShareRange, UNIT_BYTES};
use tantalum_drive::{InReply, Request, Units};

use super::host::Together;
use super::kinds::Kind;
use super::pending::What;
use super::run::Run;
use crate::device::answers::New;
use crate::device::draw::{Generator, distinct, lpn, range};
use crate::device::drive::DIRECT;
use crate::device::history::Stamp;
use crate::device::host::{metadata_of, unit_of};
use crate::device::lists::What as List;
use crate::device::stop::Stop;
use crate::device::tide::Tide;

/// Files that the clients write to: more than can have lists.
const FILES: u32 = 6;

/// The data of units, in their order.
fn data_of(new: &New) -> Vec<u8> {
    new.values().flat_map(|stamp| unit_of(*stamp)).collect()
}

fn units_of(new: &New) -> Vec<(Lpn, Vec<u8>)> {
    new.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect()
}

impl Run {
    /// A client does something of this kind.
    pub fn act(&mut self, client: usize, kind: Kind, rng: &mut Generator) -> Result<(), Stop> {
        match kind {
            Kind::Bulk if self.setup.is_full() => self.bulk(client, rng),
            Kind::Write if self.setup.is_full() && rng.random_ratio(2, 3) => self.swell(client, rng),
            Kind::Write | Kind::Fua | Kind::Bulk => self.write(client, kind, rng),
            Kind::Together => self.together(client, rng),
            Kind::Zeroes | Kind::Trim => self.unmap(client, kind, rng),
            Kind::Share => self.share(client, rng),
            Kind::Remap => self.remap(client, rng),
            Kind::Transaction => self.transaction(client, rng),
            Kind::Atomic => {
                let count = rng.random_range(1..10);
                let new = self.stamped(distinct(rng, count));
                self.atomic(client, new)
            }
            Kind::Batch => self.batch(client, rng),
            Kind::Flush => self.submit(client, kind, What::Flush { given: self.tick }, Request::Flush),
            Kind::Read => self.read(client, rng),
            Kind::Hinted => self.hinted(client, rng),
            Kind::Put => self.put(client, rng),
            Kind::Delete => self.delete(client, rng),
            Kind::Get => self.get_record(client, rng),
            Kind::Namespace => self.namespace(client, rng),
            Kind::FsWrite if self.has_lists => self.fs_write(client, rng),
            Kind::FsWrite => self.write(client, Kind::Write, rng),
            Kind::ClearLists if self.has_lists => self.clear_lists(client, rng),
            Kind::ClearLists => self.read(client, rng),
            Kind::Program => self.program(client, rng),
            Kind::Compare => self.compare_running(),
            Kind::Reopen => self.reopen(client, rng),
        }
    }

    fn write(&mut self, client: usize, kind: Kind, rng: &mut Generator) -> Result<(), Stop> {
        let fua = kind == Kind::Fua;
        if kind != Kind::Bulk && rng.random_ratio(1, 5) {
            return self.write_with_metadata(client, kind, rng);
        }
        let range = range(rng, if kind == Kind::Bulk { DIRECT.len() as u32 } else { 6 });
        let (lpn, new) = (Lpn(range.start), self.perhaps_repeated(range, rng));
        let data = data_of(&new);
        let what = self.plain(new, fua);
        self.submit(client, kind, what, Request::Write { lpn, data, fua, handle: None })
    }

    /// A plain write is about to be submitted.
    fn plain(&mut self, new: New, fua: bool) -> What {
        self.change(new, false, fua || self.durable_writes)
    }

    /// A command that gives units new values is about to be submitted.
    fn change(&mut self, new: New, one_step: bool, durable: bool) -> What {
        let order = self.oracle.issue(&new, one_step);
        What::Units { order, new, durable, shared: None }
    }

    fn write_with_metadata(&mut self, client: usize, kind: Kind, rng: &mut Generator) -> Result<(), Stop> {
        let (fua, lpn, stamp) = (kind == Kind::Fua, lpn(rng), self.stamp() | 1);
        let what = self.change(New::from([(lpn, stamp)]), false, fua || self.durable_writes);
        let (data, metadata) = (unit_of(stamp), metadata_of(stamp));
        self.submit(client, kind, what, Request::WriteWithMetadata { lpn, data, metadata, fua })
    }

    /// Reads and writes that are issued together.
    fn together(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let (mut requests, mut whats) = (Vec::new(), Vec::new());
        for _ in 0..rng.random_range(2..6) {
            let range = range(rng, 5);
            let lpn = Lpn(range.start);
            if rng.random_ratio(1, 2) {
                whats.push(self.expected(range.clone()));
                requests.push(Together::Read { lpn, data: vec![0; range.len() * UNIT_BYTES] });
            } else {
                let (new, fua) = (self.perhaps_repeated(range, rng), rng.random_ratio(1, 4));
                requests.push(Together::Write { lpn, data: data_of(&new), fua });
                whats.push(self.plain(new, fua));
            }
        }
        for what in &whats {
            self.tell(client, Kind::Together, what);
            self.note_conflicts(client, what);
        }
        let numbers = self.host.submit_together(client, &mut requests);
        self.submitted(client, Kind::Together, numbers.into_iter().zip(whats))
    }

    /// What a read of units that is submitted now should return.
    fn expected(&self, range: Range<u32>) -> What {
        What::Read { expected: range.map(|lpn| (Lpn(lpn), vec![self.oracle.now(Lpn(lpn))])).collect() }
    }

    fn read(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        if rng.random_ratio(1, 2) {
            let lpn = lpn(rng);
            let what = What::ReadWithMetadata { lpn, expected: self.oracle.now(lpn) };
            return self.submit(
                client,
                Kind::Read,
                what,
                Request::ReadWithMetadata { lpn, data: InReply, metadata: InReply },
            );
        }
        let range = range(rng, 9);
        let (lpn, units) = (Lpn(range.start), range.len() as u32);
        let what = self.expected(range);
        self.submit(client, Kind::Read, what, Request::Read { lpn, data: Units(units) })
    }

    /// Fills the drive.
    fn swell(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        match self.spaces.filling().filter(|_| self.tide == Tide::Records && rng.random_ratio(7, 8)) {
            Some(slot) => self.fill(client, slot, rng),
            None => self.bulk(client, rng),
        }
    }

    /// Writes or trims many units, so that the drive becomes full.
    fn bulk(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let all = self.setup.bulk();
        if self.tide == Tide::Records {
            // records may take the room that this frees, so that it is missing when the units are written again
            return self.unmap_range(client, Kind::Trim, all);
        }
        let first = rng.random_range(all.clone());
        let units = first..first + rng.random_range(1..96).min(all.end - first);
        if rng.random_ratio(1, 8) {
            return self.unmap_range(client, Kind::Trim, units);
        }
        let (lpn, fua) = (Lpn(units.start), rng.random_ratio(1, 3));
        let new = self.perhaps_repeated(units, rng);
        let (data, what) = (data_of(&new), self.plain(new, fua));
        self.submit(client, Kind::Bulk, what, Request::Write { lpn, data, fua, handle: None })
    }

    fn unmap(&mut self, client: usize, kind: Kind, rng: &mut Generator) -> Result<(), Stop> {
        self.unmap_range(client, kind, range(rng, 4))
    }

    fn unmap_range(&mut self, client: usize, kind: Kind, range: Range<u32>) -> Result<(), Stop> {
        let (lpn, units) = (Lpn(range.start), range.len() as u32);
        let new: BTreeMap<Lpn, Stamp> = range.map(|lpn| (Lpn(lpn), 0)).collect();
        let what = self.change(new, false, self.protected);
        let request = match kind {
            Kind::Zeroes => Request::WriteZeroes { lpn, units },
            _ => Request::Trim { lpn, units },
        };
        self.submit(client, kind, what, request)
    }

    /// Whether a unit is mapped: a unit that holds nothing may be.
    fn is_mapped(&self, lpn: Lpn) -> bool {
        self.host.drive().lock().is_mapped(lpn)
    }

    /// Shares units with others: any, or pages of logs with their homes.
    fn share(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let (count, deferred) = (rng.random_range(1..4), rng.random_ratio(1, 2));
        let pairs = match rng.random_ratio(1, 2) {
            true => self.pages_to_bring_home(rng, count),
            false => {
                let lpns = distinct(rng, 2 * count);
                lpns[..count].iter().copied().zip(lpns[count..].iter().copied()).collect()
            }
        };
        if pairs.is_empty() {
            return Ok(());
        }
        let ranges = pairs.iter().map(|(dst, src)| ShareRange { dst: *dst, src: *src, units: 1 }).collect();
        let request = Request::Share { ranges, deferred };
        if pairs.iter().any(|(_, src)| !self.is_mapped(*src)) {
            return self.submit(client, Kind::Share, What::Refused, request);
        }
        let new = pairs.iter().map(|(dst, src)| (*dst, self.oracle.now(*src))).collect();
        let (given, order) = (self.tick, self.oracle.issue(&new, true));
        let durable = !deferred || self.protected;
        let what = What::Units { order, new, durable, shared: Some(given) };
        self.submit(client, Kind::Share, what, request)
    }

    fn remap(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let lpns = distinct(rng, 2);
        let (dst, src) = (lpns[0], lpns[1]);
        if !self.is_mapped(src) {
            return Ok(());
        }
        let new = New::from([(dst, self.oracle.now(src)), (src, 0)]);
        let (given, order) = (self.tick, self.oracle.issue(&new, true));
        let what = What::Units { order, new, durable: true, shared: Some(given) };
        self.submit(client, Kind::Remap, what, Request::Remap { src, dst, units: 1 })
    }

    fn atomic(&mut self, client: usize, new: New) -> Result<(), Stop> {
        let writes = units_of(&new);
        let what = self.change(new, true, true);
        self.submit(client, Kind::Atomic, what, Request::WriteAtomic { writes })
    }

    /// Writes units and appends them to a file's list.
    fn fs_write(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let units = range(rng, 6);
        let (file, offset) = (FileId(1 + rng.random_range(0..FILES)), rng.random_range(0..1000));
        let new = self.stamped(units.clone().map(Lpn));
        let (lpn, data) = (Lpn(units.start), data_of(&new));
        let order = self.oracle.issue(&new, false);
        self.lists.issue(order, List::Append { file, units, offset });
        let request = Request::FsWrite { lpn, data, file, offset };
        self.submit(client, Kind::FsWrite, What::Append { order, new }, request)
    }

    /// Clears a list, or all of them.
    fn clear_lists(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let file = rng.random_ratio(2, 3).then(|| FileId(1 + rng.random_range(0..FILES)));
        let order = self.oracle.next_order();
        self.lists.issue(order, List::Clear(file));
        self.submit(client, Kind::ClearLists, What::ClearLists { order }, Request::ClearFileLists { file })
    }

    /// Begins a transaction of the program Atomic-Writes.
    fn program(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let now_ns = self.host.now_ns;
        match &mut self.host.programs {
            Some(programs) => {
                self.coverage.command("program", "program");
                programs.begin(client, rng, now_ns)
            }
            None => self.write(client, Kind::Write, rng),
        }
    }

    /// All clients wait. Then the drive is shut down cleanly, which loses nothing, and opened again.
    fn reopen(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        self.wait_for_all()?;
        self.count_work();
        // from here on the drive may be found shut down, until something is on flash again
        self.worked = false;
        match self.host.power_cycle()? {
            Ok(report) if report.clean || self.setup.wears() => {}
            Ok(_) => {
                return Err(Stop::broken("D5", "recovery finds that a drive was not shut down that was"));
            }
            Err(status) => {
                // the shutdown got this far
                self.worked = true;
                self.tally.reached.refused += 1;
                self.abort_all();
                return self.may_refuse(false, true, &status);
            }
        }
        self.host.let_fail(self.tally.cuts)?;
        self.begin_anew();
        // a shutdown flushes
        self.tick += 1;
        self.oracle.flush(self.tick, self.tick);
        self.host.install_programs()?;
        self.compare()?;
        let (new, refused) = (self.stamped(distinct(rng, 1)), self.tally.reached.refused);
        self.atomic(client, new)?;
        self.wait_for_all()?;
        // a drive that is worn out stays as it was shut down
        self.worked = self.tally.reached.refused == refused;
        Ok(())
    }

    /// Ends all transactions, whether the drive still knows them or not.
    fn abort_all(&mut self) {
        let clients = self.clients.iter_mut();
        let open: Vec<_> = clients.flat_map(|client| std::mem::take(&mut client.transactions)).collect();
        for (tx, _) in open {
            let _ = self.host.try_ask(Command::Abort { tx });
        }
    }
}
