//! The random host: it chooses the next command and records it in the oracle.

mod batches;
mod lists;
mod transactions;

use std::collections::BTreeMap;

use rand::RngExt;
use tantalum::{Command, Completion, Handle, Lpn, ShareRange, Status};

use super::answers::New;
use super::draw::{Generator, distinct, lpn, range};
use super::drive::{DIRECT, Flash};
use super::history::{LOST, Order};
use super::host::{metadata_of, unit_of};
use super::random::generator;
use super::run::Run;
use super::stop::Stop;
use super::tide::Tide;
use super::weights::Kind;

impl Run {
    /// Runs command number `index` of the seed. Its effect depends on the number and on what is open, not on the history.
    pub fn command(&mut self, index: u64) -> Result<(), Stop> {
        let mut rng = generator(&[self.seed, index]);
        self.tally.reached.commands += 1;
        match self.weights.pick(&mut rng) {
            Kind::Write => self.write(&mut rng, false),
            Kind::Fua => self.write(&mut rng, true),
            Kind::Bulk => self.bulk(&mut rng, Tide::at(index)),
            Kind::Zeroes => self.unmap(&mut rng, true),
            Kind::Trim => self.unmap(&mut rng, false),
            Kind::Share => self.share(&mut rng),
            Kind::Remap => self.remap(&mut rng),
            Kind::Transaction => self.transaction(&mut rng),
            Kind::Atomic => {
                let count = rng.random_range(1..10);
                self.atomic(&mut rng, count)
            }
            Kind::Batch => self.batch(&mut rng),
            Kind::Flush => self.flush(),
            Kind::Read => self.spot_check(&mut rng),
            Kind::Hinted => self.hinted(&mut rng),
            Kind::Log if self.has_log => self.log.step(&mut self.host, &mut rng),
            Kind::Log => self.hinted(&mut rng),
            Kind::Lose => self.lose(&mut rng),
            Kind::Reopen => self.reopen(&mut rng),
            Kind::Put => self.records.put(&mut self.host, &mut rng, Tide::at(index)),
            Kind::Delete => self.records.delete(&mut self.host, &mut rng),
            Kind::Namespace => self.records.replace(&mut self.host, &mut rng),
            Kind::FsWrite if self.has_lists => self.fs_write(&mut rng),
            Kind::FsWrite => self.write(&mut rng, true),
            Kind::ClearLists if self.has_lists => self.clear_lists(&mut rng),
            Kind::ClearLists => self.flush(),
            Kind::UpdateHandle if self.handles > 0 => self.update_handle(&mut rng),
            Kind::UpdateHandle => self.flush(),
        }?;
        if self.isolates {
            self.host.audit();
        }
        self.host.pause(&mut rng)?;
        self.oracle.forget_before(self.host.now_ns);
        self.lists.forget_before(self.host.now_ns);
        self.batches.forget_before(self.host.now_ns);
        Ok(())
    }

    /// A flush.
    pub fn flush(&mut self) -> Result<(), Stop> {
        let given_ns = self.host.now_ns;
        match self.host.submit(Command::Flush) {
            Ok(flushed) if !self.protected => {
                self.oracle.flush(given_ns, flushed.done_ns);
                self.log.flushed(given_ns, flushed.done_ns);
                Ok(())
            }
            // with a capacitor everything is durable already
            Ok(_) => Ok(()),
            Err(status) => self.may_refuse(&status, false),
        }
    }

    fn write(&mut self, rng: &mut Generator, fua: bool) -> Result<(), Stop> {
        if rng.random_ratio(1, 4) {
            return self.write_with_metadata(rng, fua);
        }
        let range = self.range_to_write(rng);
        let new = self.stamped(range.clone().map(Lpn));
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        let mut fills = if fua { None } else { self.host.filled(&data, rng)? };
        let order = self.issue_write(&new);
        let (lpn, handle) = (Lpn(range.start), self.handle(rng));
        let answer = self.host.submit(match &mut fills {
            Some(fills) => Command::WriteFilled { lpn, data: &data, fills, handle },
            None => Command::Write { lpn, data: &data, fua, handle },
        });
        self.answered(order, &new, answer, fua || self.durable_writes).map(drop)
    }

    /// Consecutive units: few, or as many as are written all or not at all, fewer, or more.
    pub(super) fn range_to_write(&self, rng: &mut Generator) -> std::ops::Range<u32> {
        let units = self.atomic_write_units as u32;
        match units {
            1 => range(rng, 6),
            _ if rng.random_ratio(1, 4) => range(rng, 2 * units + 4),
            _ => range(rng, units + 1),
        }
    }

    /// A plain write is submitted. Up to a size it is one step.
    pub(super) fn issue_write(&mut self, new: &New) -> Order {
        match self.atomic_write_units {
            1 => self.oracle.issue(new, false),
            units if new.len() <= units => {
                self.tally.reached.atomic_writes += u64::from(new.len() > 1);
                self.oracle.issue(new, new.len() > 1)
            }
            _ => self.oracle.issue_loose(new),
        }
    }

    /// The handle of a write; none on a drive without handles, and for some writes.
    fn handle(&self, rng: &mut Generator) -> Option<Handle> {
        let drawn = (self.handles > 0).then(|| rng.random_range(0..=self.handles))?;
        (drawn < self.handles).then_some(Handle(drawn as u8))
    }

    /// A handle begins its next reclaim unit, which is then empty.
    fn update_handle(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let handle = Handle(rng.random_range(0..self.handles) as u8);
        match self.host.update_handle(handle) {
            Ok(_) => {}
            Err(status) => return self.may_refuse(&status, false),
        }
        self.tally.reached.reclaim_units_updated += 1;
        let (whole, state) =
            (self.host.device.reclaim_unit_units(), self.host.device.handles()[handle.index()]);
        if self.flash == Flash::Sound && state.writable_units != whole {
            let left = state.writable_units;
            let detail =
                format!("{left} of {whole} units fit in a reclaim unit of handle {handle} that begins");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    fn write_with_metadata(&mut self, rng: &mut Generator, fua: bool) -> Result<(), Stop> {
        let (lpn, stamp) = (lpn(rng), self.stamp() | 1);
        let (new, data, metadata) = (BTreeMap::from([(lpn, stamp)]), unit_of(stamp), metadata_of(stamp));
        let order = self.oracle.issue(&new, false);
        let write = Command::WriteWithMetadata { lpn, data: &data, metadata: &metadata, fua };
        let answer = self.host.submit(write);
        self.answered(order, &new, answer, fua || self.durable_writes).map(drop)
    }

    /// Writes or trims many units.
    fn bulk(&mut self, rng: &mut Generator, tide: Tide) -> Result<(), Stop> {
        let all = if self.bulk.is_empty() { DIRECT } else { self.bulk.clone() };
        if tide == Tide::Records && !self.bulk.is_empty() {
            // records may take the room that this frees, so that it is missing when the units are written again
            return self.unmap_range(all, false);
        }
        if rng.random_ratio(1, 8) {
            return self.fill_journal(rng);
        }
        let first = rng.random_range(all.clone());
        let range = first..first + rng.random_range(1..96).min(all.end - first);
        if rng.random_ratio(1, 8) {
            return self.unmap_range(range, false);
        }
        let new = self.stamped(range.clone().map(Lpn));
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        let (order, fua) = (self.issue_write(&new), rng.random_ratio(1, 3));
        let handle = self.handle(rng);
        let answer = self.host.submit(Command::Write { lpn: Lpn(range.start), data: &data, fua, handle });
        self.answered(order, &new, answer, fua || self.durable_writes).map(drop)
    }

    /// Shares one unit after another and trims some, without anything that would flush the journal, so that many
    /// records wait for it.
    fn fill_journal(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        for _ in 0..rng.random_range(20..400) {
            let lpns = distinct(rng, 2);
            if rng.random_ratio(1, 50) {
                self.unmap_range(lpns[0].0..lpns[0].0 + 1, false)?;
            } else if self.host.device.is_mapped(lpns[1]) {
                self.share_pairs(&[(lpns[0], lpns[1])], true)?;
            }
        }
        Ok(())
    }

    fn unmap(&mut self, rng: &mut Generator, zeroes: bool) -> Result<(), Stop> {
        self.unmap_range(range(rng, 4), zeroes)
    }

    fn unmap_range(&mut self, range: std::ops::Range<u32>, zeroes: bool) -> Result<(), Stop> {
        let new = range.clone().map(|lpn| (Lpn(lpn), 0)).collect();
        let (lpn, units) = (Lpn(range.start), range.len() as u32);
        let order = self.oracle.issue(&new, false);
        let answer = self.host.submit(match zeroes {
            true => Command::WriteZeroes { lpn, units },
            false => Command::Trim { lpn, units },
        });
        self.answered(order, &new, answer, self.protected).map(drop)
    }

    /// Shares units with others: any, or pages of logs with their homes.
    fn share(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let (count, deferred) = (rng.random_range(1..4), rng.random_ratio(1, 2));
        let pairs = match rng.random_ratio(1, 2) {
            true => self.pages_to_bring_home(rng, count),
            false => {
                let lpns = distinct(rng, 2 * count);
                lpns[..count].iter().copied().zip(lpns[count..].iter().copied()).collect()
            }
        };
        if pairs.is_empty() { Ok(()) } else { self.share_pairs(&pairs, deferred) }
    }

    fn share_pairs(&mut self, pairs: &[(Lpn, Lpn)], deferred: bool) -> Result<(), Stop> {
        let ranges: Vec<ShareRange> =
            pairs.iter().map(|(dst, src)| ShareRange { dst: *dst, src: *src, units: 1 }).collect();
        let share = Command::Share { ranges: &ranges, deferred };
        if pairs.iter().any(|(_, src)| !self.host.device.is_mapped(*src)) {
            return match self.host.submit(share) {
                Err(Status::Unmapped { .. }) => Ok(()),
                Err(status) => self.may_refuse(&status, false),
                Ok(_) => {
                    Err(Stop::broken("running drive", format!("an unmapped unit of {pairs:?} was shared")))
                }
            };
        }
        let new = pairs.iter().map(|(dst, src)| (*dst, self.oracle.now(*src))).collect();
        let (given_ns, order) = (self.host.now_ns, self.oracle.issue(&new, true));
        let (answer, durable) = (self.host.submit(share), !deferred || self.protected);
        if let Some(shared) = self.answered(order, &new, answer, durable)?
            && durable
        {
            self.oracle.hints.share(given_ns, shared.done_ns);
        }
        Ok(())
    }

    fn remap(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let lpns = distinct(rng, 2);
        let (dst, src) = (lpns[0], lpns[1]);
        if !self.host.device.is_mapped(src) {
            return Ok(());
        }
        let new = BTreeMap::from([(dst, self.oracle.now(src)), (src, 0)]);
        let (given_ns, order) = (self.host.now_ns, self.oracle.issue(&new, true));
        let answer = self.host.submit(Command::Remap { src, dst, units: 1 });
        if let Some(remapped) = self.answered(order, &new, answer, true)? {
            self.oracle.hints.share(given_ns, remapped.done_ns);
        }
        Ok(())
    }

    fn atomic(&mut self, rng: &mut Generator, count: usize) -> Result<(), Stop> {
        let new = self.stamped(distinct(rng, count));
        self.write_atomic(&new).map(drop)
    }

    fn write_atomic(&mut self, new: &New) -> Result<Option<Completion>, Stop> {
        let data: Vec<(Lpn, Vec<u8>)> = new.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect();
        let writes: Vec<(Lpn, &[u8])> = data.iter().map(|(lpn, data)| (*lpn, &data[..])).collect();
        let order = self.oracle.issue(new, true);
        let answer = self.host.submit(Command::WriteAtomic { writes: &writes });
        self.answered(order, new, answer, true)
    }

    /// Checks that the running drive reads correctly as well.
    fn spot_check(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        if !self.host.has_power() {
            return Err(Stop::PowerLost);
        }
        for _ in 0..4 {
            self.check_running(lpn(rng))?;
        }
        self.tally.promises_checked += 2;
        self.records.check_running(&mut self.host)?;
        self.check_lists()?;
        self.check_log()
    }

    /// A page of flash becomes unreadable when one of its units is read.
    fn lose(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        if self.flash != Flash::Loses || !self.host.has_power() {
            return Ok(());
        }
        let (lpn, faults) = (lpn(rng), self.faults);
        let every_read = tantalum::Faults { read_failure_ppm: 1_000_000, ..faults };
        let found = self.host.uncut(|host| {
            host.device.set_faults(every_read)?;
            let found = host.read(lpn);
            host.device.set_faults(faults)?;
            found
        })?;
        if found == LOST {
            self.losses += 1;
            self.records.losses += 1;
            self.oracle.lose(lpn);
        }
        Ok(())
    }

    /// Shuts down cleanly, which loses nothing, reopens the drive, and writes a mark as a file system does.
    pub fn reopen(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        // from here on the drive may be found shut down, until the mark is on flash
        self.worked = false;
        let sound = self.flash == Flash::Sound;
        match self.host.power_cycle()? {
            Ok(report) if report.clean || !sound => {}
            Ok(_) => {
                return Err(Stop::broken("D5", "recovery finds that a drive was not shut down that was"));
            }
            Err(status) => {
                // the shutdown got this far
                for (tx, _) in std::mem::take(&mut self.transactions) {
                    let _ = self.host.submit(Command::Abort { tx });
                }
                self.worked = true;
                return self.may_refuse(&status, false);
            }
        }
        self.transactions.clear();
        // a shutdown flushes
        let now_ns = self.host.now_ns;
        self.oracle.flush(now_ns, now_ns);
        self.log.flushed(now_ns, now_ns);
        self.cut_ns = now_ns;
        self.old_log = self.log_begun().or(self.old_log);
        self.compare()?;
        let new = self.stamped(distinct(rng, 1));
        if let Some(marked) = self.write_atomic(&new)? {
            self.host.wait_until(marked.done_ns)?;
            self.worked = true;
        }
        Ok(())
    }
}
