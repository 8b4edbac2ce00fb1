//! What happened between two looks: a point of each line.

use std::time::Duration;

use serde::Serialize;
use tantalum::{Counters, FlashUnits, UNIT_BYTES};
use tantalum_control::{HandleReport, Look};

/// A point of every line; lines without a value there have none.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Bytes that hosts wrote each second, in units and records.
    pub written: Option<f64>,
    /// Bytes that they read each second.
    pub read: Option<f64>,
    /// Units programmed for each unit that a host wrote.
    pub amplification: Option<Amplification>,
    /// Latencies of reads, of units and of records.
    pub reads: Option<Percentiles>,
    /// Latencies of writes, of units and of records.
    pub writes: Option<Percentiles>,
    /// Latencies of flushes.
    pub flushes: Option<Percentiles>,
}

/// Write amplification by cause.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Amplification {
    /// Units of hosts, and records.
    pub host: f64,
    /// Moved by garbage collection and wear levelling.
    pub collection: f64,
    /// The journal.
    pub journal: f64,
    /// Checkpoints.
    pub checkpoint: f64,
    /// The empty rest of pages.
    pub padding: f64,
    /// All of them, and what a capacitor dumped.
    pub all: f64,
}

/// What is written with a reclaim unit handle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Handle {
    /// Since the drive was created.
    #[serde(flatten)]
    pub report: HandleReport,
    /// Bytes that hosts wrote with it each second.
    pub written: Option<f64>,
    /// Units programmed for each unit that a host wrote, between two looks.
    pub amplification: Option<f64>,
}

/// Latencies in nanoseconds of the drive's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
}

/// Two looks, and the time between them.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    /// The earlier one.
    pub before: &'a Look,
    /// The later one.
    pub now: &'a Look,
    /// The time between both, on this machine's clock.
    pub passed: Duration,
}

impl Between<'_> {
    /// The increase of the counters.
    pub fn counted(&self) -> Counters {
        self.now.counters.since(&self.before.counters)
    }

    /// Seconds for rates: this machine's where programs use the drive, the drive's own in an experiment.
    pub fn seconds(&self) -> f64 {
        match self.now.time {
            Some(_) => self.passed.as_secs_f64(),
            None => self.device_seconds(),
        }
    }

    /// Seconds of the drive's time.
    pub fn device_seconds(&self) -> f64 {
        self.now.device_ns.saturating_sub(self.before.device_ns) as f64 / 1e9
    }

    /// What was written with a handle in this time.
    fn handle(&self, report: &HandleReport) -> Handle {
        let before = self.before.handles.iter().find(|before| before.handle == report.handle);
        let change = before.map(|before| report.counters().since(&before.counters()));
        let seconds = self.seconds();
        let rate = |units: u64| (units * UNIT_BYTES as u64) as f64 / seconds;
        Handle {
            report: *report,
            written: change.filter(|_| seconds > 0.0).map(|change| rate(change.host_units_written)),
            amplification: change.and_then(|change| change.write_amplification()),
        }
    }

    /// The point for this time.
    pub fn point(&self, at_ms: u64) -> Point {
        let counters = self.counted();
        let (latency, earlier) = (&self.now.latency, &self.before.latency);
        let rate = |units: u64, record_bytes: u64| {
            let seconds = self.seconds();
            (seconds > 0.0).then(|| (units * UNIT_BYTES as u64 + record_bytes) as f64 / seconds)
        };
        Point {
            at_ms,
            written: rate(counters.host_units_written, counters.record_bytes_put),
            read: rate(counters.host_units_read, counters.record_bytes_got),
            amplification: amplification(&counters),
            reads: percentiles(&both(&earlier.read, &earlier.get), &both(&latency.read, &latency.get)),
            writes: percentiles(&both(&earlier.write, &earlier.put), &both(&latency.write, &latency.put)),
            flushes: percentiles(&earlier.flush, &latency.flush),
        }
    }
}

/// The handles of a drive that were ever written with, if there was an earlier look with what was written since.
pub fn handles(now: &Look, between: Option<Between<'_>>) -> Vec<Handle> {
    let alone = |report: &HandleReport| Handle { report: *report, written: None, amplification: None };
    let used = now.handles.iter().filter(|report| report.host_units_written > 0);
    used.map(|report| between.map_or_else(|| alone(report), |between| between.handle(report))).collect()
}

/// A point of which only the time is known.
pub fn nothing(at_ms: u64) -> Point {
    let none = None;
    Point { at_ms, written: None, read: None, amplification: None, reads: none, writes: none, flushes: none }
}

/// `None` if no host wrote.
pub fn amplification(counters: &Counters) -> Option<Amplification> {
    let written = counters.host_units_written as f64 + counters.record_bytes_put as f64 / UNIT_BYTES as f64;
    let of = |units: u64| units as f64 / written;
    let flash: &FlashUnits = &counters.flash_units;
    (written > 0.0).then(|| Amplification {
        host: of(flash.host + flash.key_value),
        collection: of(flash.copyback + flash.key_value_copyback),
        journal: of(flash.journal),
        checkpoint: of(flash.checkpoint),
        padding: of(flash.padding),
        all: of(flash.total()),
    })
}

/// The counts of two kinds of commands as if they were one.
fn both(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = [one, other].concat();
    all.sort_unstable_by_key(|(ns, _)| *ns);
    all.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 += if is_same { next.1 } else { 0 };
        is_same
    });
    all
}

/// The percentiles of what was counted in between; `None` if nothing was. If counts have gone back, as with another
/// drive, they start from zero.
fn percentiles(before: &[(u64, u64)], now: &[(u64, u64)]) -> Option<Percentiles> {
    let mut earlier = before.iter().peekable();
    let new: Vec<(u64, u64)> = now
        .iter()
        .map(|(ns, count)| {
            while earlier.next_if(|(other, _)| other < ns).is_some() {}
            let was = earlier.peek().filter(|(other, _)| other == ns).map_or(0, |(_, count)| *count);
            (*ns, count.checked_sub(was).unwrap_or(*count))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let total: u64 = new.iter().map(|(_, count)| count).sum();
    let at = |permille: u64| {
        let rank = (total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = new.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(ns, _)| *ns)
    };
    Some(Percentiles { p50: at(500)?, p99: at(990)?, p999: at(999)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_time_between() {
        let before = [(10, 1000), (30, 5)];
        let now = [(10, 1000), (20, 900), (30, 95), (40, 9), (50, 1)];
        // 900 of 20 ns, 90 of 30, 9 of 40, 1 of 50
        assert_eq!(percentiles(&before, &now), Some(Percentiles { p50: 20, p99: 30, p999: 40 }));
        assert_eq!(percentiles(&now, &now), None);
        assert_eq!(percentiles(&[], &[(7, 1)]), Some(Percentiles { p50: 7, p99: 7, p999: 7 }));
        assert_eq!(percentiles(&[(7, 9)], &[(7, 2)]), Some(Percentiles { p50: 7, p99: 7, p999: 7 }));
    }

    #[test]
    fn units_and_records_are_counted_together() {
        let of_both = [(10, 1), (20, 7), (30, 3), (40, 4)];
        assert_eq!(both(&[(10, 1), (20, 2)], &[(20, 5), (30, 3), (40, 4)]), of_both);
        assert_eq!(both(&of_both, &[]), of_both);
    }

    /// A drive whose host puts records once had no throughput and no latencies on the page.
    #[test]
    fn a_drive_of_records_has_points() {
        use tantalum::{Command, Device, Key, KvRecord, NamespaceAttributes, Profile, result_of};
        use tantalum_drive::{Drive, When};

        let profile = Profile { capacity_bytes: 512 << 20, ..Profile::load("kaml-board").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let look = || Look::at(&drive.downgrade(), "run".into(), None).unwrap();
        let attributes = NamespaceAttributes::default();
        let create = |namespace: &mut _| {
            drive.lock().issue(Command::CreateNamespace { attributes, namespace }, When::AfterAll)
        };
        let (namespace, key) = (result_of(create).unwrap(), Key::new(b"key").unwrap());
        let before = look();
        let record = KvRecord { namespace, key, value: Some(&[7; 1000]) };
        drive.lock().issue(Command::KvPut { records: &[record] }, When::AfterAll).unwrap();
        drive
            .lock()
            .issue(Command::KvGet { namespace, key, value: &mut Vec::new() }, When::AfterAll)
            .unwrap();
        let now = look();
        let point = Between { before: &before, now: &now, passed: Duration::from_secs(1) }.point(0);
        assert!(point.written.unwrap() > 0.0 && point.read.unwrap() > 0.0, "{point:?}");
        assert!(point.writes.is_some() && point.reads.is_some() && point.flushes.is_none(), "{point:?}");
    }

    #[test]
    fn handles_have_what_was_written_since_the_last_look() {
        use tantalum::{Command, Device, FdpProfile, Handle, Isolation, Lpn, Profile};
        use tantalum_drive::{Drive, When};

        let fdp = Some(FdpProfile { handles: 3, isolation: Isolation::Persistently });
        let profile = Profile { capacity_bytes: 64 << 20, fdp, ..Profile::load("tlc-nvme").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let look = || Look::at(&drive.downgrade(), "run".into(), Some(tantalum_drive::Pacing::None)).unwrap();
        let write = |lpn, handle| {
            let (data, handle) = ([7; UNIT_BYTES], Some(Handle(handle)));
            let write = Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle };
            drive.lock().issue(write, When::AfterAll).unwrap();
        };
        write(0, 1);
        let before = look();
        (0..10).for_each(|lpn| write(lpn, 1));
        write(20, 2);
        let now = look();
        let between = Between { before: &before, now: &now, passed: Duration::from_secs(2) };
        let shown = super::handles(&now, Some(between));
        let figures = |handle: &super::Handle| (handle.report.handle, handle.written, handle.amplification);
        let bytes = |units: usize| Some((units * UNIT_BYTES) as f64 / 2.0);
        assert_eq!(
            shown.iter().map(figures).collect::<Vec<_>>(),
            [(1, bytes(10), Some(1.0)), (2, bytes(1), Some(1.0))],
            "the first was never written with"
        );
        let first = super::handles(&now, None);
        assert_eq!((first[0].report.host_units_written, first[0].written), (11, None));
    }

    #[test]
    fn amplification_is_by_cause_and_adds_up() {
        let flash_units = FlashUnits {
            host: 100,
            copyback: 50,
            journal: 5,
            padding: 20,
            dump: 25,
            ..FlashUnits::default()
        };
        let counters = Counters { flash_units, host_units_written: 100, ..Counters::default() };
        let amplification = amplification(&counters).unwrap();
        assert_eq!((amplification.host, amplification.collection), (1.0, 0.5));
        assert_eq!(
            (amplification.journal, amplification.checkpoint, amplification.padding),
            (0.05, 0.0, 0.2)
        );
        assert_eq!(amplification.all, 2.0);
        assert_eq!(super::amplification(&Counters { host_units_written: 0, ..counters }), None);
    }
}
