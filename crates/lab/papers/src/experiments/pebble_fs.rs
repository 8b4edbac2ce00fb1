//! PebbleSSD's figures 7 to 10: log-structured file systems that clean by `remap` and sync by `fs_write` (Jin's thesis,
//! sections 4.4.3 and 4.4.4), in virtual time, of F2FS's kind and of NILFS2's.
//!
//! *File write amplification* is counted as the thesis defines it: everything that the file system wrote to the drive,
//! contents and index, over the contents of files. It includes a checkpoint at the end, so that what `fs_write` defers
//! is paid for.
//!
//! After each run power is cut, and the drive's contents are compared ([`cuts`]).

mod cleaning;
mod cost;
mod cuts;
#[cfg(feature = "servers")]
mod mariadb;
mod oltp;
mod printed;
mod synced_writes;

pub(super) use cleaning::figure_7;
#[cfg(feature = "servers")]
pub(super) use mariadb::servers;
pub(super) use oltp::{figure_9, figure_10};
pub(super) use synced_writes::figure_8;

use std::sync::LazyLock;

use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};
use tantalum_report::{Figures, PaperClaim, Span};

use super::printed::PrintedClaim;
use super::{Run, drive_of};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies, planes and memory are kept.
const CAPACITY_BYTES: u64 = 2 << 30;

/// The file system's page cache.
const CACHE_BYTES: u64 = 64 << 20;

/// What the paper prints.
static PRINTED: LazyLock<printed::Printed> =
    LazyLock::new(|| super::printed::parse("pebble_fs.toml", include_str!("pebble_fs.toml")));

/// The file systems, by the names that a mount gives them.
const KINDS: [(LfsKind, &str); 2] = [(LfsKind::Nat, "lfs-nat"), (LfsKind::Tree, "lfs-tree")];

/// The ways of syncing of a kind. `lfs-nat` has two without `fs_write`: conventionally it writes in place, as F2FS does since Linux
/// 3.18; appending it is what the thesis compares with, of Linux 3.16.
fn indexings(kind: LfsKind) -> &'static [(Indexing, &'static str)] {
    const ALL: [(Indexing, &str); 3] =
        [(Indexing::Appended, APPENDING), (Indexing::Conventional, CONVENTIONAL), (Indexing::Nvm, FS_WRITE)];
    match kind {
        LfsKind::Nat => &ALL,
        LfsKind::Tree => &ALL[1..],
    }
}

const APPENDING: &str = "appending";
const CONVENTIONAL: &str = "conventional";
const FS_WRITE: &str = "fs_write";

/// The baselines of `fs_write`: a file system, and its way of syncing.
const BASELINES: [(&str, &str); 3] =
    [("lfs-nat", APPENDING), ("lfs-nat", CONVENTIONAL), ("lfs-tree", CONVENTIONAL)];

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("pebblessd")?;
    profile.capacity_bytes = run.scaled(CAPACITY_BYTES, 512 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

fn format(
    run: &Run<'_>,
    kind: LfsKind,
    cleaning: Cleaning,
    indexing: Indexing,
) -> Result<LogFs, ExperimentError> {
    let drive = Drive::new(Device::in_memory(&profile(run)?)?);
    Ok(LogFs::format_indexed(drive.client(), kind, cleaning, indexing, CACHE_BYTES)?)
}

/// `fs_write` over each baseline, in a table with a row for each kind and way of syncing.
fn claims(printed: &printed::Kinds, table: &Figures) -> Vec<PaperClaim> {
    let compared = |((kind, baseline), printed): ((&str, &str), &PrintedClaim)| {
        let row = |name: &str| table.row(&format!("{kind}, {name}"));
        printed.beside(Span::factors(row(FS_WRITE), row(baseline)))
    };
    BASELINES.into_iter().zip(printed.kinds()).map(compared).collect()
}

fn setup(run: &Run<'_>, more: String) -> Result<Vec<String>, ExperimentError> {
    let about =
        "file systems lfs-nat (F2FS's kind) and lfs-tree (NILFS2's), new, with a page cache of 64 MiB";
    Ok(vec![drive_of(&profile(run)?), about.to_owned(), more])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::{Monitor, Outcome, Row, of_experiment};

    use super::*;

    type Experiment = fn(&Run<'_>) -> Result<Outcome, ExperimentError>;

    fn run(experiment: Experiment, scale: f64) -> Outcome {
        let monitor = Monitor::silent();
        let run = Run { scale, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = experiment(&run).unwrap();
        println!("{}", of_experiment(&outcome));
        outcome
    }

    #[test]
    fn cleaning_by_remap_writes_a_fraction() {
        let outcome = run(figure_7, 0.05);
        let [.., written_by_trees] = &outcome.claims[..] else { panic!("{:?}", outcome.claims) };
        assert!(written_by_trees.ours.high < -50.0, "{:?}", outcome.claims);
        // Not every workload leaves lfs-nat something to clean; the fileserver, the first, does.
        for kind in ["lfs-nat", "lfs-nat in place", "lfs-tree"] {
            let first = |figure: usize, way: &str| outcome.figures[figure].row(&format!("{kind}, {way}"))[0];
            for figure in [0, 1] {
                let [copied, remapped] = ["copy", "remap"].map(|way| first(figure, way));
                assert!(remapped < copied / 2.0, "{kind}: {remapped} of {copied}");
            }
            let moved = outcome.figures.iter().position(|figure| figure.title.contains("moved by remap"));
            let moved = moved.expect("it is printed");
            assert!(first(moved, "remap") > 1.0 && first(moved, "copy") == 0.0, "{kind}");
        }
        let in_place = outcome.figures[1].row("lfs-nat in place, copy");
        assert!(in_place[3] < 0.1, "OLTP leaves nothing to clean: {in_place:?}");
    }

    #[test]
    fn syncs_by_fs_write_write_next_to_nothing_but_contents() {
        let outcome = run(figure_8, 0.05);
        for (_, kind) in KINDS {
            let amplification = outcome.figures[1].row(&format!("{kind}, overwrites, fs_write"));
            let baseline = if kind == "lfs-nat" { APPENDING } else { CONVENTIONAL };
            let baseline = outcome.figures[1].row(&format!("{kind}, overwrites, {baseline}"));
            assert!(amplification[0] < 1.3 && baseline[0] > 1.9, "{amplification:?} {baseline:?}");
            let listed = outcome.figures[3].row(&format!("{kind}, overwrites, fs_write"));
            assert!(listed.iter().all(|percent| *percent > 90.0), "{listed:?}");
        }
    }

    #[test]
    fn what_is_overwritten_in_place_gains_next_to_nothing() {
        let table = &run(figure_8, 0.05).figures[1];
        let [in_place, listed] =
            [CONVENTIONAL, FS_WRITE].map(|name| table.row(&format!("lfs-nat, overwrites, {name}")));
        assert!(in_place.iter().zip(listed).all(|(a, b)| (a - b).abs() < 0.1), "{in_place:?} {listed:?}");
        assert!(table.row("lfs-nat, appends, conventional")[0] > 2.9);
    }

    #[test]
    fn what_power_cuts_leave_is_compared_after_each_run() {
        for (experiment, is_listed) in [(figure_7 as Experiment, false), (figure_8, true), (figure_10, true)]
        {
            let outcome = run(experiment, 0.01);
            let table = outcome.figures.last().unwrap();
            assert_eq!(table.title, "after power cuts, checked");
            for Row { name, ours, .. } in &table.rows {
                let [cuts, synced, listed, units] = ours[..] else { panic!("{ours:?}") };
                assert!(cuts >= 2.0 && synced > 0.0 && units > 0.0, "{name}: {ours:?}");
                let is_listed = is_listed && name.ends_with("fs_write");
                assert_eq!(listed > 0.0, is_listed, "{name}: {ours:?}");
            }
        }
    }

    #[test]
    fn oltp_is_amplified_less() {
        let claims = run(figure_10, 0.05).claims;
        let [appending, in_place, trees] = &claims[..] else { panic!("{claims:?}") };
        assert!(appending.ours.high < 0.8 && trees.ours.high < 0.8, "{claims:?}");
        assert!((0.9..1.1).contains(&in_place.ours.high), "{claims:?}");
        let claims = run(figure_9, 0.05).claims;
        assert!(claims.iter().all(|claim| claim.ours.low > 0.9), "{claims:?}");
    }
}
