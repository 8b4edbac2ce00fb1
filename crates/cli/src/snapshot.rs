//! `tantalum snapshot`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde::Serialize;
use tantalum::{Access, Device, DeviceError};
use tantalum_filesystem::Timestamp;
use tantalum_lfs::{LfsError, LogFs, Snapshot};
use tantalum_report::table::{Align, Table, grouped};

use crate::failure::Failure;
use crate::file_system::{FileSystemKind, recognise};
use crate::log::utc;
use crate::output;

/// Bytes of the page cache, small because little is read.
const CACHE_BYTES: u64 = 16 << 20;

/// What to do with snapshots.
#[derive(Subcommand, Debug)]
pub enum SnapshotAction {
    /// List the snapshots
    List(SnapshotOptions),
    /// Create a snapshot of the file system
    Create(SnapshotOptions),
    /// Delete a snapshot and free the space that only it used
    Delete {
        #[command(flatten)]
        options: SnapshotOptions,
        /// The snapshot's number
        number: u32,
    },
}

/// `tantalum snapshot`.
#[derive(Args, Debug)]
pub struct SnapshotOptions {
    /// The image file of the drive
    pub image: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A snapshot, for printing.
#[derive(Serialize)]
struct Line {
    number: u32,
    files: u32,
    created_seconds: i64,
}

/// What was done, and the snapshots that exist afterwards.
#[derive(Serialize)]
struct Outcome {
    command: &'static str,
    #[serde(with = "tantalum_control::path")]
    image: PathBuf,
    created: Option<u32>,
    deleted: Option<u32>,
    snapshots: Vec<Line>,
}

/// Executes it, and prints the snapshots. Listing changes nothing: recovery stays in memory.
pub fn run(action: &SnapshotAction) -> Result<(), Failure> {
    let (SnapshotAction::List(options)
    | SnapshotAction::Create(options)
    | SnapshotAction::Delete { options, .. }) = action;
    let path = &options.image;
    let failure = |error: LfsError| Failure::LogStructured { path: path.clone(), error };
    let access = match action {
        SnapshotAction::List(_) => Access::Overlay,
        _ => Access::Write,
    };
    let mut fs = LogFs::mount(open(path, access)?, CACHE_BYTES).map_err(failure)?;
    let (mut created, mut deleted) = (None, None);
    match action {
        SnapshotAction::List(_) => {}
        SnapshotAction::Create(_) => created = Some(fs.create_snapshot(now()).map_err(failure)?),
        SnapshotAction::Delete { number, .. } => {
            fs.delete_snapshot(*number).map_err(failure)?;
            deleted = Some(*number);
        }
    }
    let snapshots = fs.snapshots().iter().map(Line::of).collect();
    let image = path.to_path_buf();
    let outcome = Outcome { command: "snapshot", image, created, deleted, snapshots };
    close(path, fs)?;
    output::report(&outcome, options.json, Outcome::text)
}

fn open(path: &Path, access: Access) -> Result<Device, Failure> {
    let image = |error: DeviceError| Failure::Image { path: path.to_path_buf(), error };
    let mut device = Device::open_as(path, access).map_err(image)?;
    let kind = recognise(path, &mut device)?;
    if kind.is_some_and(|kind| kind != FileSystemKind::Volume) {
        return Ok(device);
    }
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(|status| Failure::Shutdown { path: path.to_path_buf(), status })?;
    let path = path.to_path_buf();
    Err(match kind {
        Some(_) => Failure::NoSnapshots { path },
        None => Failure::LogStructured { path, error: LfsError::NotFormatted },
    })
}

fn close(path: &Path, fs: LogFs) -> Result<(), Failure> {
    let path = path.to_path_buf();
    let client = match fs.unmount() {
        Ok(client) => client,
        Err(failed) => return Err(Failure::LogStructured { path, error: failed.1 }),
    };
    let device = client.into_device().expect("nobody shares the drive");
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(|status| Failure::Shutdown { path, status })
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

impl Line {
    fn of(snapshot: &Snapshot) -> Line {
        let Snapshot { number, files, created } = *snapshot;
        Line { number, files, created_seconds: created.seconds }
    }
}

impl Outcome {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(number) = self.created {
            text += &format!("snapshot {number} created\n");
        }
        if let Some(number) = self.deleted {
            text += &format!("snapshot {number} deleted\n");
        }
        if self.snapshots.is_empty() {
            return text + "there are no snapshots\n";
        }
        let columns = [("snapshot", Align::Right), ("made", Align::Left), ("files", Align::Right)];
        let mut table = Table::new(&columns);
        for line in &self.snapshots {
            let made = utc(line.created_seconds.max(0) as u64);
            table.push(vec![line.number.to_string(), made, grouped(line.files.into())]);
        }
        text + &table.render()
    }
}
