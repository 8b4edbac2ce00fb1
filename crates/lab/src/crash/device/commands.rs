//! The random host: which command comes next, and what it tells the oracle.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Lpn, ShareRange, Status, UNIT_BYTES};

use super::drive::DIRECT;
use super::host::{Stamp, stamp_of, unit_of};
use super::random::generator;
use super::run::Run;
use super::stop::Stop;
use super::weights::Kind;

type Generator = Xoshiro256PlusPlus;

impl Run {
    /// Command number `index` of the seed. What it does depends on the number and on what is open, not on how it
    /// came there.
    pub fn command(&mut self, index: u64) -> Result<(), Stop> {
        let mut rng = generator(&[self.seed, index]);
        self.tally.reached.commands += 1;
        let done = match self.weights.pick(&mut rng) {
            Kind::Write => self.write(&mut rng, false),
            Kind::Fua => self.write(&mut rng, true),
            Kind::Zeroes => self.unmap(&mut rng, true),
            Kind::Trim => self.unmap(&mut rng, false),
            Kind::Share => self.share(&mut rng),
            Kind::Remap => self.remap(&mut rng),
            Kind::Transaction => self.transaction(&mut rng),
            Kind::Atomic => {
                let count = rng.random_range(1..10);
                self.atomic(&mut rng, count)
            }
            Kind::Flush => self.flush(),
            Kind::Read => self.spot_check(&mut rng),
            Kind::Log => self.log.step(&mut self.host, &mut rng),
            Kind::Reopen => self.reopen(&mut rng),
            Kind::Put => self.records.put(&mut self.host, &mut rng),
            Kind::Delete => self.records.delete(&mut self.host, &mut rng),
            Kind::Namespace => self.records.replace(&mut self.host, &mut rng),
        };
        self.note_flush();
        done
    }

    /// A flush.
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.host.submit(Command::Flush)?;
        self.note_flush();
        Ok(())
    }

    fn note_flush(&mut self) {
        if std::mem::take(&mut self.host.flushed) {
            self.oracle.flushed();
            self.log.flushed();
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// New values for these units.
    fn stamped(&mut self, lpns: impl IntoIterator<Item = Lpn>) -> BTreeMap<Lpn, Stamp> {
        lpns.into_iter().map(|lpn| (lpn, self.stamp())).collect()
    }

    fn write(&mut self, rng: &mut Generator, fua: bool) -> Result<(), Stop> {
        let range = range(rng, 6);
        let new = self.stamped(range.clone().map(Lpn));
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        self.oracle.issue(&new, false);
        self.host.submit(Command::Write { lpn: Lpn(range.start), data: &data, fua })?;
        self.oracle.acknowledge(&new, fua || self.durable_writes);
        Ok(())
    }

    fn unmap(&mut self, rng: &mut Generator, zeroes: bool) -> Result<(), Stop> {
        let range = range(rng, 4);
        let new = range.clone().map(|lpn| (Lpn(lpn), 0)).collect();
        let (lpn, units) = (Lpn(range.start), range.len() as u32);
        self.oracle.issue(&new, false);
        self.host.submit(match zeroes {
            true => Command::WriteZeroes { lpn, units },
            false => Command::Trim { lpn, units },
        })?;
        self.oracle.acknowledge(&new, self.protected);
        Ok(())
    }

    fn share(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let (count, deferred) = (rng.random_range(1..4), rng.random_ratio(1, 2));
        let lpns = distinct(rng, 2 * count);
        let (dsts, srcs) = lpns.split_at(count);
        let ranges: Vec<ShareRange> =
            dsts.iter().zip(srcs).map(|(dst, src)| ShareRange { dst: *dst, src: *src, units: 1 }).collect();
        let share = Command::Share { ranges: &ranges, deferred };
        if srcs.iter().any(|src| !self.host.device.is_mapped(*src)) {
            return match self.host.submit(share) {
                Err(Status::Unmapped { .. }) => Ok(()),
                Err(status) => Err(status.into()),
                Ok(_) => Err(Stop::broken(
                    "running drive",
                    format!("a unit of {srcs:?} is unmapped and was shared"),
                )),
            };
        }
        let new = dsts.iter().zip(srcs).map(|(dst, src)| (*dst, self.oracle.now(*src))).collect();
        self.oracle.issue(&new, true);
        self.host.submit(share)?;
        self.oracle.acknowledge(&new, !deferred || self.protected);
        Ok(())
    }

    fn remap(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let lpns = distinct(rng, 2);
        let (dst, src) = (lpns[0], lpns[1]);
        if !self.host.device.is_mapped(src) {
            return Ok(());
        }
        let new = BTreeMap::from([(dst, self.oracle.now(src)), (src, 0)]);
        self.oracle.issue(&new, true);
        self.host.submit(Command::Remap { src, dst, units: 1 })?;
        self.oracle.acknowledge(&new, true);
        Ok(())
    }

    /// Begins, goes on with, or ends a transaction.
    fn transaction(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let Some((tx, writes)) = self.transaction.take() else {
            let tx = self.host.submit(Command::Begin)?.tx;
            let tx =
                tx.ok_or_else(|| Stop::broken("refused", "the beginning of a transaction names none"))?;
            self.transaction = Some((tx, BTreeMap::new()));
            return Ok(());
        };
        if writes.len() >= 5 || rng.random_ratio(1, 8) {
            if rng.random_ratio(1, 5) {
                self.host.submit(Command::Abort { tx })?;
                return Ok(());
            }
            self.oracle.issue(&writes, true);
            self.host.submit(Command::Commit { tx })?;
            self.oracle.acknowledge(&writes, true);
            return Ok(());
        }
        let (lpn, stamp) = (lpn(rng), self.stamp());
        self.host.submit(Command::TxWrite { tx, lpn, data: &unit_of(stamp) })?;
        let mut unit = [0; UNIT_BYTES];
        self.host.submit(Command::TxRead { tx, lpn, data: &mut unit })?;
        let found = stamp_of(&unit, "a transaction's own unit")?;
        if found != stamp {
            let detail = format!("a transaction reads {found} from unit {lpn}, it wrote {stamp}");
            return Err(Stop::broken("running drive", detail));
        }
        self.transaction = Some((tx, writes.into_iter().chain([(lpn, stamp)]).collect()));
        Ok(())
    }

    fn atomic(&mut self, rng: &mut Generator, count: usize) -> Result<(), Stop> {
        let new = self.stamped(distinct(rng, count));
        let data: Vec<(Lpn, Vec<u8>)> = new.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect();
        let writes: Vec<(Lpn, &[u8])> = data.iter().map(|(lpn, data)| (*lpn, &data[..])).collect();
        self.oracle.issue(&new, true);
        self.host.submit(Command::WriteAtomic { writes: &writes })?;
        self.oracle.acknowledge(&new, true);
        self.worked = true;
        Ok(())
    }

    /// The running drive reads right too.
    fn spot_check(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        if !self.host.device.has_power() {
            return Err(Stop::PowerLost);
        }
        for _ in 0..4 {
            self.check_running(lpn(rng))?;
        }
        self.tally.promises_checked += 2;
        self.records.check_running(&mut self.host)?;
        self.log.check_running(&mut self.host)
    }

    /// A clean shutdown, which loses nothing, and a mark on the drive once it is open again, as a file system's.
    pub fn reopen(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        // from here on the drive may be found shut down, until the mark is on flash
        self.worked = false;
        let report = self.host.power_cycle()?;
        if !report.clean {
            return Err(Stop::broken("D5", "recovery finds that a drive was not shut down that was"));
        }
        self.transaction = None;
        self.note_flush();
        self.compare()?;
        self.atomic(rng, 1)
    }
}

fn lpn(rng: &mut Generator) -> Lpn {
    Lpn(rng.random_range(DIRECT))
}

/// Fewer than `limit` units, one after the other.
fn range(rng: &mut Generator, limit: u32) -> std::ops::Range<u32> {
    let first = lpn(rng).0;
    first..first + rng.random_range(1..limit).min(DIRECT.end - first)
}

/// Units in random order, none twice.
fn distinct(rng: &mut Generator, count: usize) -> Vec<Lpn> {
    let mut lpns = BTreeSet::new();
    while lpns.len() < count {
        lpns.insert(lpn(rng));
    }
    let mut lpns: Vec<Lpn> = lpns.into_iter().collect();
    for index in (1..lpns.len()).rev() {
        lpns.swap(index, rng.random_range(0..=index));
    }
    lpns
}
