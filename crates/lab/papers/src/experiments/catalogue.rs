//! All experiments by name.

use tantalum_report::{InvalidSetting, Monitor, Outcome, Time};

use super::experiment::{Experiment, Run, Settings, processors};
#[cfg(feature = "rocksdb")]
use super::kaml_rocks;
use super::{
    calibrate_openssd, couch, durassd_device, fidelity, kaml_conflicts, kaml_device, kaml_scale, kaml_store,
    pebble, pebble_fs, share_ext4, suspension, swwal, willow_programs, willow_rpc, willow_store,
};
#[cfg(feature = "servers")]
use super::{durassd_server, pgbench, share, tpcc, ycsb};
use crate::error::ExperimentError;
use crate::feature::Feature;

/// What runs an experiment with a database server: in a build without their clients, an error.
#[cfg(feature = "servers")]
macro_rules! on_servers {
    ($run:path) => {
        $run
    };
}
#[cfg(not(feature = "servers"))]
macro_rules! on_servers {
    ($run:path) => {
        |_| Err(Feature::Servers.missing().into())
    };
}

/// The same for RocksDB.
#[cfg(feature = "rocksdb")]
macro_rules! on_rocksdb {
    ($run:path) => {
        $run
    };
}
#[cfg(not(feature = "rocksdb"))]
macro_rules! on_rocksdb {
    ($run:path) => {
        |_| Err(Feature::RocksDb.missing().into())
    };
}

/// All experiments, in display order.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "calibrate-durassd",
        about: "DuraSSD's drive alone, cell by cell (DuraSSD, tables 1 and 2)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: durassd_device::calibrate,
    },
    Experiment {
        name: "calibrate-openssd",
        about: "SHARE's board under the requests of LinkBench (SHARE, table 1)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: calibrate_openssd::run,
    },
    Experiment {
        name: "calibrate-kaml",
        about: "KAML's board alone, claim by claim (KAML, figures 5 to 8)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_device::calibrate,
    },
    Experiment {
        name: "fidelity",
        about: "write amplification, rates and latencies beside theory",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: fidelity::run,
    },
    Experiment {
        name: "suspend-wuhe",
        about: "read and write latency by scheduling and load (Wu and He, FAST 2012)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: suspension::run,
    },
    Experiment {
        name: "swwal-fig7",
        about: "flash writes of SQLite with a log, X-FTL and SW-WAL (SW-WAL, figure 7)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: swwal::figure_7,
    },
    Experiment {
        name: "swwal-fig8",
        about: "throughput of SQLite with a log, X-FTL and SW-WAL (SW-WAL, figure 8)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: swwal::figure_8,
    },
    Experiment {
        name: "share-fig5a",
        about: "LinkBench by page size: doublewrite, remapped, off (SHARE, figure 5a)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(share::figure_5a),
    },
    Experiment {
        name: "share-fig5b",
        about: "LinkBench by buffer size: doublewrite, remapped, off (SHARE, figure 5b)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(share::figure_5b),
    },
    Experiment {
        name: "share-fig6",
        about: "what the drive does under LinkBench (SHARE, figure 6)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(share::figure_6),
    },
    Experiment {
        name: "share-table1",
        about: "latencies of LinkBench, doublewrite and remapped (SHARE, table 1)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(share::table_1),
    },
    Experiment {
        name: "share-fig7",
        about: "YCSB F on a document store by batch: original, share (SHARE, figure 7)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: couch::figure_7,
    },
    Experiment {
        name: "share-fig8",
        about: "YCSB A on a document store by batch: original, share (SHARE, figure 8)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: couch::figure_8,
    },
    Experiment {
        name: "share-table2",
        about: "compaction of a document store: original, share (SHARE, table 2)",
        needs: "",
        feature: None,
        scale: 0.1,
        processors: None,
        run: couch::table_2,
    },
    Experiment {
        name: "atomic-writes",
        about: "LinkBench with doublewrite, remapped, and off on a drive with NVMe's atomic writes (after SHARE, figure 6)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(share::atomic_writes),
    },
    Experiment {
        name: "share-pgbench",
        about: "TPC-B on PostgreSQL, full-page writes on and off (SHARE, section 5.3.1)",
        needs: "PostgreSQL",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: Some(2),
        run: on_servers!(pgbench::run),
    },
    Experiment {
        name: "share-ext4",
        about: "ext4 with data=journal on a drive that remaps duplicates (no paper's figure)",
        needs: "QEMU",
        feature: None,
        scale: 1.0,
        processors: None,
        run: share_ext4::run,
    },
    Experiment {
        name: "durassd-table1",
        about: "random writes by the number of writes for each sync (DuraSSD, table 1)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: durassd_device::table_1,
    },
    Experiment {
        name: "durassd-table2",
        about: "random reads and writes by page size (DuraSSD, table 2)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: durassd_device::table_2,
    },
    Experiment {
        name: "durassd-fig5",
        about: "LinkBench by barrier, doublewrite and page size (DuraSSD, figure 5)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.001,
        processors: Some(32),
        run: on_servers!(durassd_server::figure_5),
    },
    Experiment {
        name: "durassd-fig6",
        about: "LinkBench by buffer and page size (DuraSSD, figure 6)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.001,
        processors: Some(32),
        run: on_servers!(durassd_server::figure_6),
    },
    Experiment {
        name: "durassd-table3",
        about: "latencies of LinkBench, default and best set-up (DuraSSD, table 3)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.001,
        processors: Some(32),
        run: on_servers!(durassd_server::table_3),
    },
    Experiment {
        name: "durassd-table4",
        about: "TPC-C by barrier and page size (DuraSSD, table 4)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.008,
        processors: Some(32),
        run: on_servers!(tpcc::table_4),
    },
    Experiment {
        name: "kaml-fig5",
        about: "bandwidth of Fetch, Update, Insert by value size, records against blocks (KAML, figure 5)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_device::figure_5,
    },
    Experiment {
        name: "kaml-fig6",
        about: "latency of Fetch, Update, Insert by value size, records against blocks (KAML, figure 6)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_device::figure_6,
    },
    Experiment {
        name: "kaml-fig7",
        about: "records in each Put (KAML, figure 7)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_device::figure_7,
    },
    Experiment {
        name: "kaml-fig8",
        about: "Update by the number of logs (KAML, figure 8)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_device::figure_8,
    },
    Experiment {
        name: "kaml-fig9",
        about: "TPC-B and TPC-C over records and over a log (KAML, figure 9)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_store::figure_9,
    },
    Experiment {
        name: "kaml-fig10",
        about: "YCSB over records and over a log (KAML, figure 10)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_store::figure_10,
    },
    Experiment {
        name: "kaml-fig9-rocksdb",
        about: "TPC-B and TPC-C over records and over RocksDB (KAML, figure 9)",
        needs: "",
        feature: Some(Feature::RocksDb),
        scale: 0.1,
        processors: Some(8),
        run: on_rocksdb!(kaml_rocks::figure_9),
    },
    Experiment {
        name: "kaml-fig10-rocksdb",
        about: "YCSB over records and over RocksDB (KAML, figure 10)",
        needs: "",
        feature: Some(Feature::RocksDb),
        scale: 0.1,
        processors: Some(8),
        run: on_rocksdb!(kaml_rocks::figure_10),
    },
    Experiment {
        name: "kaml-conflicts",
        about: "concurrent updates that find their lock taken, by records per lock (KAML, equation 3.12)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: kaml_conflicts::run,
    },
    Experiment {
        name: "kaml-scale",
        about: "DRAM, load and recovery of 100 million small records, at three sizes (no paper's figure)",
        needs: "",
        feature: None,
        scale: 0.01,
        processors: None,
        run: kaml_scale::run,
    },
    Experiment {
        name: "pebble-fig5",
        about: "fs_write against write (PebbleSSD, figure 4.5 of the thesis)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: pebble::figure_5,
    },
    Experiment {
        name: "pebble-fig6",
        about: "MOVE by remap against read and write (PebbleSSD, figure 4.6 of the thesis)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: pebble::figure_6,
    },
    Experiment {
        name: "pebble-fig7",
        about: "cleaning by remap against copying, under Filebench (PebbleSSD, figure 4.7 of the thesis)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: pebble_fs::figure_7,
    },
    Experiment {
        name: "pebble-fig8",
        about: "fs_write under four synced writers (PebbleSSD, figure 4.8 of the thesis)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: pebble_fs::figure_8,
    },
    Experiment {
        name: "pebble-fig9",
        about: "fs_write under Filebench's OLTP: throughput (PebbleSSD, figure 4.9 of the thesis)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: pebble_fs::figure_9,
    },
    Experiment {
        name: "pebble-fig10",
        about: "fs_write under Filebench's OLTP: file write amplification (PebbleSSD, figure 4.10 of the thesis)",
        needs: "",
        feature: None,
        scale: 0.25,
        processors: None,
        run: pebble_fs::figure_10,
    },
    Experiment {
        name: "pebble-fig9-mariadb",
        about: "fs_write under TPC-C and LinkBench: throughput, amplification (PebbleSSD, figures 4.9 and 4.10 of the thesis)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.05,
        processors: Some(4),
        run: on_servers!(pebble_fs::servers),
    },
    Experiment {
        name: "willow-fig4",
        about: "TPC-B with ARIES over Base-IO and Direct-IO, and with MARS over Atomic-Writes (Willow, figure 5.4 of the thesis)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: willow_store::figure_4,
    },
    Experiment {
        name: "willow-rpc",
        about: "requests to programs: round trip, rate, bandwidth, permission check (Willow, section 5.2 of the thesis)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: willow_rpc::run,
    },
    Experiment {
        name: "willow-programs",
        about: "programs against the host doing the same: tree walk, filter, append (no paper's figure)",
        needs: "",
        feature: None,
        scale: 1.0,
        processors: None,
        run: willow_programs::run,
    },
    Experiment {
        name: "ycsb",
        about: "YCSB A to F on MariaDB, doublewrite and remapped (no paper's figure)",
        needs: "MariaDB",
        feature: Some(Feature::Servers),
        scale: 0.1,
        processors: None,
        run: on_servers!(ycsb::run),
    },
];

/// The experiment of that name.
pub fn find(name: &str) -> Result<&'static Experiment, ExperimentError> {
    ALL.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        InvalidSetting::new("experiment", name, format!("use one of {}", known.join(", "))).into()
    })
}

/// Runs one experiment.
pub fn run(
    experiment: &Experiment,
    settings: &Settings,
    monitor: &Monitor,
) -> Result<Outcome, ExperimentError> {
    let scale = settings.scale.unwrap_or(experiment.scale);
    if !(scale.is_finite() && scale > 0.0 && scale <= 100.0) {
        let expected = "it must be above 0 and at most 100; 1 is the full set-up";
        return Err(InvalidSetting::new("--scale", scale, expected).into());
    }
    let slower = slower_by(experiment, settings)?;
    let run = Run { scale, slower, seed: settings.seed, program: &settings.program, monitor };
    let outcome = (experiment.run)(&run);
    // Ctrl-C also reaches the running programs; their messages are not why the experiment ends.
    let mut outcome = outcome.map_err(|error| monitor.check().err().map_or(error, Into::into))?;
    outcome.experiment = experiment.name;
    outcome.scale = scale;
    outcome.seed = settings.seed;
    if outcome.time == Time::Real && run.slower > 1 {
        let theirs =
            experiment.processors.map_or_else(String::new, |number| format!(", the paper's {number}"));
        outcome.setup.push(format!(
            "the drive is {slower} times slower, and times are divided by {slower}: this machine has {} processors{theirs}",
            processors()
        ));
    }
    Ok(outcome)
}

/// The requested factor, or the paper's number of processors over this machine's.
fn slower_by(experiment: &Experiment, settings: &Settings) -> Result<u32, ExperimentError> {
    const MOST: u32 = 1000;
    match settings.slower {
        None => Ok((experiment.processors.unwrap_or(1) / processors()).max(1)),
        Some(slower) if (1..=MOST).contains(&slower) => Ok(slower),
        Some(slower) => {
            let expected = format!("it must be from 1 to {MOST}; 1 is the drive as it is");
            Err(InvalidSetting::new("--slower", slower, expected).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = find("swwal-fig9").unwrap_err().to_string();
        assert!(
            error.contains("swwal-fig9") && ALL.iter().all(|known| error.contains(known.name)),
            "{error}"
        );
    }

    #[test]
    fn names_are_told_apart() {
        for (place, experiment) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != experiment.name), "{}", experiment.name);
        }
    }

    #[test]
    fn impossible_scales_are_refused() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let settings = Settings { scale: Some(scale), slower: None, seed: 1, program: PathBuf::new() };
            let error = run(&ALL[0], &settings, &Monitor::silent()).unwrap_err().to_string();
            assert!(error.starts_with("--scale"), "{error}");
        }
    }

    #[test]
    fn a_drive_is_slower_by_what_the_machine_has_less_than_the_papers() {
        let settings = |slower| Settings { scale: None, slower, seed: 1, program: PathBuf::new() };
        let experiment = find("durassd-fig5").unwrap();
        assert_eq!(slower_by(experiment, &settings(None)).unwrap(), (32 / processors()).max(1));
        assert_eq!(slower_by(experiment, &settings(Some(3))).unwrap(), 3);
        assert_eq!(slower_by(find("ycsb").unwrap(), &settings(None)).unwrap(), 1);
        let error = slower_by(experiment, &settings(Some(0))).unwrap_err().to_string();
        assert!(error.starts_with("--slower"), "{error}");
    }
}
