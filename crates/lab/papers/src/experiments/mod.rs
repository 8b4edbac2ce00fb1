//! The papers' experiments by name: `tantalum lab list` and `tantalum lab run`.
//!
//! - Each prints the paper's figures and claimed ratios next to ours.
//! - An experiment on the device alone runs in virtual time. One with a database server runs in real time, where only
//!   ratios within one run are meaningful.
//! - An experiment ends whatever it starts: when it is done, when it fails, and when it is interrupted.

mod calibrate_openssd;
mod calibration;
mod catalogue;
mod couch;
mod couch_client;
mod durassd_device;
#[cfg(feature = "servers")]
mod durassd_server;
mod experiment;
mod fidelity;
#[cfg(feature = "servers")]
mod innodb;
#[cfg(feature = "rocksdb")]
mod kaml_clients;
mod kaml_conflicts;
mod kaml_device;
#[cfg(feature = "rocksdb")]
mod kaml_rocks;
mod kaml_scale;
mod kaml_store;
#[cfg(feature = "servers")]
mod linkbench_rig;
#[cfg(feature = "servers")]
mod mounted_mariadb;
mod pebble;
mod pebble_fs;
#[cfg(feature = "servers")]
mod pgbench;
mod printed;
#[cfg(any(feature = "rocksdb", feature = "servers"))]
mod rig;
#[cfg(feature = "servers")]
mod server_binds;
#[cfg(feature = "servers")]
mod share;
mod share_ext4;
mod suspension;
mod swwal;
#[cfg(feature = "servers")]
mod tpcc;
mod willow_meter;
mod willow_programs;
mod willow_rpc;
mod willow_store;
#[cfg(feature = "servers")]
mod ycsb;

pub use catalogue::{ALL, find, run};
pub use experiment::{Experiment, Settings};

use experiment::{Run, drive_of, smaller};
use tantalum_workloads::binds;
