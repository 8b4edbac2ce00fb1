//! A journaling file system that writes its data once: unmodified ext4 with `data=journal`, on a served drive that
//! remaps duplicates.
//!
//! Not a figure of a paper. SHARE's authors name ext4 as future work (section 7), and JFTL does it in a modified ext4.
//! Here neither ext4 nor the kernel knows about it: the drive recognises the blocks that were sent for the journal.

use tantalum::{Counters, UNIT_BYTES};
use tantalum_report::table::{bytes, grouped};
use tantalum_report::{Figures, Outcome, Row, Time};

use super::Run;
use crate::error::ExperimentError;
use crate::servers::{Guest, GuestMessage, PlainFolder, Served, ServerError, ServerFolder};

/// Files and overwrites at scale 1.
const FILES: u64 = 200;
const FILE_BYTES: u64 = 64 << 10;
const OVERWRITES: u64 = 400;
const OVERWRITE_BYTES: u64 = 16 << 10;

const CAPACITY_BYTES: u64 = 1 << 30;

/// What runs in the guest.
const SCRIPT: &str = include_str!("../../guest/ext4_journal.sh");

/// Ext4's mode, and whether the drive remaps duplicates.
const CASES: [(&str, &str, bool); 4] = [
    ("data=ordered", "ordered", false),
    ("data=ordered, duplicates remapped", "ordered", true),
    ("data=journal", "journal", false),
    ("data=journal, duplicates remapped", "journal", true),
];

/// Of the flash writes: the drive's own journal and checkpoints, and the empty rest of pages.
const COLUMNS: [&str; 7] =
    ["host writes", "shares", "flash writes", "journal", "padding", "flash / host", "flash / data"];

/// What the guest does, and the units of data that it syncs.
struct Workload {
    title: String,
    units: u64,
}

/// The counters of one case, for each workload.
type Measured = Vec<Counters>;

pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    Guest::require()?;
    let (files, overwrites) = (run.scaled(FILES, 10), run.scaled(OVERWRITES, 10));
    let workloads = [
        Workload {
            title: format!("{} synced files of {}", grouped(files), bytes(FILE_BYTES)),
            units: files * FILE_BYTES / UNIT_BYTES as u64,
        },
        Workload {
            title: format!("{} synced overwrites of {}", grouped(overwrites), bytes(OVERWRITE_BYTES)),
            units: overwrites * OVERWRITE_BYTES / UNIT_BYTES as u64,
        },
    ];
    let parameters = format!("FILES={files}\nOVERWRITES={overwrites}\nSEED={}\n", run.seed);
    let measured = measure(run, &parameters, &workloads)?;
    let setup = vec![
        format!("drive tlc-nvme, {}, new, over NVMe/TCP", bytes(CAPACITY_BYTES)),
        "a guest in QEMU with Debian's kernel; ext4 with blocks of 4 KiB, otherwise as it comes".to_owned(),
        "each workload from a mount to the end of its unmount, when nothing is left in the journal"
            .to_owned(),
        "overwrites: of a file of 8 MiB, at random".to_owned(),
    ];
    let mut outcome = Outcome::new("ext4 that writes its data once", "no paper's figure", Time::Real, setup);
    outcome.figures =
        workloads.iter().enumerate().map(|(at, workload)| figures(workload, at, &measured)).collect();
    Ok(outcome)
}

/// A drive for each case.
fn serve_drives(run: &Run<'_>, folder: &PlainFolder) -> Result<Vec<Served>, ExperimentError> {
    let mut drives = Vec::new();
    for (number, (_, _, remap)) in CASES.iter().enumerate() {
        let image = folder.folder().join(format!("drive{number}.tant"));
        drives.push(Served::create(run.program, &image, CAPACITY_BYTES, *remap)?);
    }
    Ok(drives)
}

/// Boots one guest for all cases, each on a drive of its own.
fn measure(
    run: &Run<'_>,
    parameters: &str,
    workloads: &[Workload],
) -> Result<Vec<Measured>, ExperimentError> {
    let folder = PlainFolder::new()?;
    let bar = run.monitor.bar("workloads", (CASES.len() * workloads.len()) as u64);
    let drives = serve_drives(run, &folder)?;
    let cases = drives.iter().zip(CASES);
    let cases = cases.map(|(drive, (_, mode, _))| format!("{mode},{},{}", drive.port, drive.name));
    let cases = cases.collect::<Vec<String>>().join(" ");
    let mut guest = Guest::boot(folder.folder(), SCRIPT, &format!("{parameters}CASES='{cases}'\n"))?;
    let (mut measured, mut before): (Vec<Measured>, _) = (vec![Vec::new()], Counters::default());
    loop {
        let said = guest.listen::<ExperimentError>(|| Ok(run.monitor.check()?))?;
        let case = measured.len() - 1;
        match said {
            GuestMessage::Asks(question) if question == "begin" => {
                before = counters(&drives, case)?;
                drives[case].begin_work();
            }
            GuestMessage::Asks(_) => {
                measured[case].push(counters(&drives, case)?.since(&before));
                if measured[case].len() == workloads.len() {
                    measured.push(Vec::new());
                }
                bar.advance(1)?;
            }
            GuestMessage::Failed(what) => return Err(failed(&what).into()),
            GuestMessage::Ended => break,
        }
        guest.answer()?;
    }
    measured.pop();
    let is_complete = measured.len() == CASES.len();
    if is_complete { Ok(measured) } else { Err(failed("its script ended early").into()) }
}

fn counters(drives: &[Served], case: usize) -> Result<Counters, ServerError> {
    drives.get(case).ok_or_else(|| failed("it asks for more than there is"))?.counters()
}

fn failed(what: &str) -> ServerError {
    let (program, status) = ("the guest".to_owned(), "a check failed".to_owned());
    ServerError::Failed { program, status, message: what.to_owned() }
}

fn figures(workload: &Workload, at: usize, measured: &[Measured]) -> Figures {
    let row = |((name, _, _), measured): (&(&str, &str, bool), &Measured)| Row {
        name: (*name).to_owned(),
        ours: columns(&measured[at], workload.units),
        paper: None,
    };
    Figures {
        title: format!("{}: {} units of data", workload.title, grouped(workload.units)),
        unit: "units of 4 KiB",
        columns: COLUMNS.map(str::to_owned).into(),
        rows: CASES.iter().zip(measured).map(row).collect(),
    }
}

fn columns(counters: &Counters, data_units: u64) -> Vec<f64> {
    let units = &counters.flash_units;
    let (host, flash) = (counters.host_units_written as f64, units.total() as f64);
    vec![
        host,
        counters.units_shared as f64,
        flash,
        (units.journal + units.checkpoint) as f64,
        units.padding as f64,
        flash / host,
        flash / data_units as f64,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_amplification_counts_what_the_host_wrote_and_what_it_meant() {
        let mut counters = Counters { host_units_written: 200, units_shared: 50, ..Counters::default() };
        counters.flash_units.host = 200;
        counters.flash_units.journal = 20;
        counters.flash_units.padding = 80;
        assert_eq!(columns(&counters, 150), [200.0, 50.0, 300.0, 20.0, 80.0, 1.5, 2.0]);
    }
}
