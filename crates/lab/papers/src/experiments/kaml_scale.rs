//! Many small records: how much of the drive's DRAM they take, and how long loading and recovery take, at three sizes.
//! No paper has these figures; KAML's index has 64 million entries.
//!
//! The drive is as large as its records need and takes a checkpoint for each quarter of them. Power fails just before it
//! would take the last one: recovery reads the previous checkpoint, and a quarter of the records. With the default
//! interval, a checkpoint is due when 64 times its size was written, which a load never reaches: recovery would read all
//! records, and hold 64 bytes of this machine's memory for each.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Nanoseconds, PowerLoss, Profile,
    result_of,
};
use tantalum_drive::{Drive, When};
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_workloads::closed_loop::{Turn, serve};
use tantalum_workloads::memory;

use super::{Run, drive_of};
use crate::error::ExperimentError;

/// Records of the largest size at scale 1.
const RECORDS: u64 = 100_000_000;

/// The smaller sizes are a sixteenth and a quarter of it.
const GROWTH: u64 = 4;

const VALUE_BYTES: usize = 16;

/// Records of a `put`: the drive's maximum.
const BATCH: u64 = 1024;

/// Clients, each with a `put` in flight.
const CLIENTS: u32 = 8;

/// Checkpoints that fall due in a load.
const CHECKPOINTS: u64 = 4;

/// A record takes a chunk of 64 bytes, and 16 bytes in each of two checkpoints, plus a sixteenth for partly filled
/// units.
const CAPACITY_BYTES_PER_RECORD: u64 = 102;

/// The minimum size of a drive with this many chips.
const LEAST_CAPACITY_BYTES: u64 = 512 << 20;

/// Less than the board has: data that are never overwritten need no more, and all flash is in memory.
const OVER_PROVISIONING_PERCENT: f64 = 15.0;

/// The drive's cache, and what its capacitor dumps: hardly anything waits for a full page.
const CACHE_BYTES: u64 = 4 << 20;
const DUMP_BYTES: u64 = 16 << 20;

/// The most that recovery holds for each record, besides flash: 16 bytes from the checkpoint, 32 for the index while it
/// grows, a quarter of 64 for what was put since, and 8 for the rest.
const RECOVERY_BYTES_PER_RECORD: u64 = 72;

/// A checkpoint in progress when the last `put` returns is complete before power fails.
const IDLE_NS: Nanoseconds = 60_000_000_000;

/// Records examined after a recovery.
const CHECKED: u64 = 1000;

/// How long something took.
#[derive(Clone, Copy, Debug)]
struct Lasted {
    drive_s: f64,
    machine_s: f64,
}

/// The results of one size.
#[derive(Clone, Copy, Debug)]
struct Measured {
    records: u64,
    /// DRAM of the index and of the maps of units, for each record.
    index_bytes: f64,
    maps_bytes: f64,
    load: Lasted,
    after_cut: Lasted,
    after_shutdown: Lasted,
    /// What recovery after the cut folded over the checkpoint.
    folded: u64,
}

/// A drive with records, each of which begins with its number.
struct Records {
    drive: Drive,
    namespace: NamespaceId,
    count: u64,
    random: Xoshiro256PlusPlus,
    power_loss: PowerLoss,
}

impl Records {
    fn new(profile: &Profile, count: u64, seed: u64) -> Result<Records, ExperimentError> {
        let drive = Drive::new(Device::in_memory(profile)?);
        let attributes = NamespaceAttributes { expected_records: count, ..NamespaceAttributes::default() };
        let create = |namespace: &mut _| {
            drive.lock().issue(Command::CreateNamespace { attributes, namespace }, When::At(0))
        };
        let namespace = result_of(create)?;
        Ok(Records {
            drive,
            namespace,
            count,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            power_loss: PowerLoss::seeded(seed),
        })
    }

    /// Puts all records, in the order of their numbers; their hashes are in no order.
    fn load(&mut self, run: &Run<'_>) -> Result<Lasted, ExperimentError> {
        let bar = run.monitor.bar(format!("{} records", grouped(self.count)), self.count / BATCH);
        let (machine, start_ns, mut first) = (Instant::now(), self.drive.lock().time_ns(), 0);
        let served = serve(CLIENTS, self.count / BATCH, start_ns, &bar, |_, at_ns| {
            let done_ns = self.put(first, at_ns)?;
            first += BATCH;
            Ok::<_, ExperimentError>(Turn::Done(done_ns))
        })?;
        let drive_s = (self.count / BATCH) as f64 / served.per_second;
        Ok(Lasted { drive_s, machine_s: machine.elapsed().as_secs_f64() })
    }

    /// DRAM of the index, and of the maps of units and places.
    fn dram_bytes(&self) -> (f64, f64) {
        let device = self.drive.lock();
        let index: u64 = device.namespaces().iter().map(|namespace| namespace.index_bytes).sum();
        let units = device.profile().capacity_units() as f64;
        (index as f64, device.dram_bytes_per_unit() * units)
    }

    fn put(&mut self, first: u64, at_ns: Nanoseconds) -> Result<Nanoseconds, ExperimentError> {
        let values: Vec<_> = (first..first + BATCH).map(value).collect();
        let namespace = self.namespace;
        let record = |(number, value)| KvRecord { namespace, key: key(number), value: Some(value) };
        let values = values.iter().map(|value| &value[..]);
        let records: Vec<KvRecord<'_>> = (first..).zip(values).map(record).collect();
        Ok(self.drive.lock().submit(Command::KvPut { records: &records }, at_ns)?.done_ns)
    }

    /// Power fails after the last `put`, when nothing is on its way to flash any more, and comes back.
    fn cut_and_recover(&mut self) -> Result<Lasted, ExperimentError> {
        let mut device = self.drive.lock();
        let idle_ns = device.time_ns() + IDLE_NS;
        device.cut_power(idle_ns);
        drop(device);
        self.power_on()
    }

    /// The drive is shut down, and power comes back.
    fn shut_down_and_start(&mut self) -> Result<Lasted, ExperimentError> {
        let mut device = self.drive.lock();
        let now_ns = device.time_ns();
        device.power_off(now_ns)?;
        drop(device);
        self.power_on()
    }

    fn power_on(&mut self) -> Result<Lasted, ExperimentError> {
        let machine = Instant::now();
        let report = self.drive.lock().power_on(&mut self.power_loss)?;
        let lasted =
            Lasted { drive_s: report.device_ns as f64 / 1e9, machine_s: machine.elapsed().as_secs_f64() };
        self.check()?;
        Ok(lasted)
    }

    /// Checks that all records are there, and reads some of them.
    fn check(&mut self) -> Result<(), ExperimentError> {
        let found: u64 = self.drive.lock().namespaces().iter().map(|namespace| namespace.records).sum();
        if found != self.count {
            return Err(ExperimentError::WrongRecords {
                what: format!("{found} of {} are there", self.count),
            });
        }
        let mut found = Vec::new();
        for _ in 0..CHECKED {
            let number = self.random.random_range(0..self.count);
            let get = Command::KvGet { namespace: self.namespace, key: key(number), value: &mut found };
            self.drive.lock().issue(get, When::AfterAll)?;
            if found != value(number) {
                return Err(ExperimentError::WrongRecords {
                    what: format!("number {number} holds {found:?}"),
                });
            }
        }
        Ok(())
    }
}

fn key(number: u64) -> Key {
    Key::new(&number.to_be_bytes()).expect("eight bytes are a key")
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0x5A; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The drive for this many records.
fn profile(records: u64) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("kaml-board")?;
    let capacity = (records * CAPACITY_BYTES_PER_RECORD).max(LEAST_CAPACITY_BYTES);
    profile.capacity_bytes = capacity.next_multiple_of(1 << 20);
    profile.over_provisioning_percent = OVER_PROVISIONING_PERCENT;
    profile.cache.bytes = CACHE_BYTES;
    profile.power.dump_bytes = DUMP_BYTES;
    let records_per_page = u64::from(profile.flash.page_bytes) / 64;
    profile.ftl.checkpoint_interval_pages = Some((records / CHECKPOINTS / records_per_page).max(1));
    profile.validate()?;
    Ok(profile)
}

fn measure(run: &Run<'_>, count: u64) -> Result<Measured, ExperimentError> {
    let mut records = Records::new(&profile(count)?, count, run.seed)?;
    let load = records.load(run)?;
    run.monitor.check()?;
    let (index_bytes, maps_bytes) = records.dram_bytes();
    let after_cut = records.cut_and_recover()?;
    let folded = records.drive.lock().recovery().assertions;
    run.monitor.check()?;
    let after_shutdown = records.shut_down_and_start()?;
    Ok(Measured {
        records: count,
        index_bytes: index_bytes / count as f64,
        maps_bytes: maps_bytes / count as f64,
        load,
        after_cut,
        after_shutdown,
        folded,
    })
}

/// A sixteenth, a quarter and all of the records, in whole `put`s, with checkpoints at equal intervals.
fn sizes(run: &Run<'_>) -> [u64; 3] {
    let least = BATCH * CHECKPOINTS;
    let first = run.scaled(RECORDS / (GROWTH * GROWTH), least).next_multiple_of(least);
    [first, first * GROWTH, first * GROWTH * GROWTH]
}

pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let sizes = sizes(run);
    let largest = profile(sizes[2])?;
    let flash_bytes = largest.capacity_bytes as f64 * (1.0 + largest.over_provisioning_percent / 100.0);
    memory::require(flash_bytes as u64 + sizes[2] * RECOVERY_BYTES_PER_RECORD)?;
    let measured: Vec<Measured> = sizes.iter().map(|&count| measure(run, count)).collect::<Result<_, _>>()?;
    let setup = vec![
        drive_of(&largest),
        format!(
            "keys of 8 bytes, values of {VALUE_BYTES}, {BATCH} in each put, {CLIENTS} clients; {CHECKPOINTS} checkpoints"
        ),
        "power is cut just before the last checkpoint; the machine's time differs from run to run".to_owned(),
    ];
    let mut outcome = Outcome::new("many small records", "no paper's figure", Time::Virtual, setup);
    outcome.figures = figures(&measured);
    Ok(outcome)
}

/// A row of a table.
type Quantity = (&'static str, fn(&Measured) -> f64);

const DRAM: &[Quantity] = &[("index", |size| size.index_bytes), ("maps of units", |size| size.maps_bytes)];

const DRIVE: &[Quantity] = &[
    ("load", |size| size.load.drive_s * 1e3),
    ("recovery after a power cut", |size| size.after_cut.drive_s * 1e3),
    ("recovery after a shutdown", |size| size.after_shutdown.drive_s * 1e3),
];

const MACHINE: &[Quantity] = &[
    ("load", |size| size.load.machine_s),
    ("recovery after a power cut", |size| size.after_cut.machine_s),
    ("recovery after a shutdown", |size| size.after_shutdown.machine_s),
];

const RATES: &[Quantity] = &[
    ("in the drive's time", |size| size.records as f64 / size.load.drive_s / 1e3),
    ("in the machine's", |size| size.records as f64 / size.load.machine_s / 1e3),
];

const FOLDED: &[Quantity] = &[("folded over the checkpoint", |size| size.folded as f64)];

fn figures(measured: &[Measured]) -> Vec<Figures> {
    let columns: Vec<String> = measured.iter().map(|size| grouped(size.records)).collect();
    let table = |title: &str, unit, quantities: &[Quantity]| Figures {
        title: title.to_owned(),
        unit,
        columns: columns.clone(),
        rows: quantities
            .iter()
            .map(|(name, of)| Row {
                name: (*name).to_owned(),
                ours: measured.iter().map(of).collect(),
                paper: None,
            })
            .collect(),
    };
    let growth = |title: &str, quantities: &[Quantity]| Figures {
        title: title.to_owned(),
        unit: "times the size before",
        columns: columns[1..].to_vec(),
        rows: quantities
            .iter()
            .map(|(name, of)| Row {
                name: (*name).to_owned(),
                ours: measured.windows(2).map(|two| of(&two[1]) / of(&two[0])).collect(),
                paper: None,
            })
            .collect(),
    };
    vec![
        table("DRAM of the drive for each record", "bytes", DRAM),
        table("the drive's time", "ms", DRIVE),
        table("this machine's time", "s", MACHINE),
        table("records put", "1000/s", RATES),
        table("records that recovery read after the cut", "records", FOLDED),
        growth("growth of the drive's time", DRIVE),
        growth("growth of this machine's time", MACHINE),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    fn with_run<T>(test: impl FnOnce(&Run<'_>) -> T) -> T {
        test(&Run { scale: 0.0001, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() })
    }

    #[test]
    fn an_index_takes_as_much_for_each_record_and_recovery_reads_a_fourth_of_them() {
        let outcome = with_run(run).unwrap();
        let index = outcome.figures[0].row("index");
        assert!(index.iter().all(|bytes| (21.0..23.0).contains(bytes)), "{index:?}");
        let folded = outcome.figures[4].row("folded over the checkpoint");
        with_run(|run| assert_eq!(folded, sizes(run).map(|count| count as f64 / 4.0)));
        let load = outcome.figures[1].row("load");
        assert!(load.is_sorted_by(|few, many| few < many), "{load:?}");
    }

    #[test]
    fn sizes_grow_by_the_same_factor_and_all_of_them_have_a_drive() {
        for scale in [1e-9, 0.01, 1.0] {
            let run = Run { scale, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
            let sizes = sizes(&run);
            assert!(sizes.iter().all(|count| count.is_multiple_of(BATCH * CHECKPOINTS)), "{sizes:?}");
            assert_eq!([sizes[0] * 16, sizes[1] * 4], [sizes[2]; 2]);
            assert!(sizes.iter().all(|count| profile(*count).is_ok()), "{sizes:?}");
        }
    }

    #[test]
    fn records_that_are_not_as_they_were_put_are_noticed() {
        let count = BATCH * CHECKPOINTS;
        let mut records = Records::new(&profile(count).unwrap(), count, 1).unwrap();
        with_run(|run| records.load(run)).unwrap();
        records.check().unwrap();
        let now_ns = records.drive.lock().time_ns();
        records.put(count, now_ns).unwrap();
        let more = records.check().unwrap_err().to_string();
        assert!(more.contains("5120 of 4096 are there"), "{more}");
        records.count += BATCH;
        records.check().unwrap();
        for number in 0..records.count {
            let changed = KvRecord { namespace: records.namespace, key: key(number), value: Some(b"other") };
            records.drive.lock().issue(Command::KvPut { records: &[changed] }, When::AfterAll).unwrap();
        }
        let other = records.check().unwrap_err().to_string();
        assert!(other.contains("holds"), "{other}");
    }
}
