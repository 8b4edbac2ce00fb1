//! `tantalum mount`.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use tantalum::{Access, Device, Status};
use tantalum_filesystem::FileSystem;
use tantalum_fuse::{Ending, Mounted, Notice, Options, Pacing, SYNC_INTERVAL};

use crate::background;
use crate::drive::{ImageOptions, only_read as only_read_line};
use crate::failure::Failure;
use crate::file_system::{self, FileSystemOptions, Use};
use crate::log::{Log, log_path};
use crate::output;

/// Bytes of the volume's page cache: up to half of it may be unsynced writes.
const CACHE_BYTES: u64 = 256 << 20;

/// The maximum number of threads started by default.
const MOST_THREADS: usize = 8;

/// What this command does with an image.
const VERB: &str = "mount";

/// What the background process prints once the volume is mounted; the rest of the line is a warning.
const MOUNTED: &str = "mounted";

/// `tantalum mount`.
#[derive(Args, Debug)]
pub struct MountOptions {
    /// The image file of the drive
    pub image: PathBuf,

    /// The folder to mount on; it must be empty
    pub folder: PathBuf,

    /// Return once the volume is mounted, and continue in the background
    #[arg(long)]
    pub background: bool,

    /// Whether programs see the drive's latencies: real, or none to answer as fast as this machine can
    #[arg(long, value_name = "real|none", default_value = "real")]
    pub time: Pacing,

    /// Create an empty volume or other file system on the drive; everything on the drive is lost
    #[arg(long)]
    pub format: bool,

    #[command(flatten)]
    pub made: ImageOptions,

    #[command(flatten)]
    pub kind: FileSystemOptions,

    /// Mount a snapshot of an lfs-tree file system, read-only (`tantalum snapshot list` shows the numbers)
    #[arg(long, value_name = "N", conflicts_with_all = ["create", "format"])]
    pub snapshot: Option<u32>,

    /// Write a block even if the same bytes were written shortly before, instead of sharing the earlier copy
    #[arg(long)]
    pub no_remap_duplicates: bool,

    /// Make each write of whole 4 KiB blocks atomic under power loss, so that databases need no protection against torn
    /// pages
    #[arg(long)]
    pub atomic_writes: bool,

    /// Flush after each write, as if every file were opened with O_DSYNC, like a database that issues a barrier with each
    /// page
    #[arg(long)]
    pub sync_writes: bool,

    /// Let the kernel gather writes in its cache: small ones are several times as fast, but a full volume is noticed only when
    /// a file is synced or closed
    #[arg(long, conflicts_with_all = ["atomic_writes", "sync_writes"])]
    pub write_back: bool,

    /// How often what nobody has synced becomes durable, in seconds, and the cleaner of a log-structured file system works in the
    /// background
    #[arg(long, value_name = "SECONDS", default_value_t = SYNC_INTERVAL.as_secs() as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub sync_interval: u32,

    /// Number of threads that handle the kernel's requests [default: one for each processor, 2 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,

    /// Passed to the background process
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Mounts the volume and runs until it is unmounted.
pub fn run(options: &MountOptions) -> Result<(), Failure> {
    if options.background {
        let (image, folder) = (options.image.display(), options.folder.display());
        return background::start(MOUNTED)?.announce(&format!("{image} is mounted on {folder}"));
    }
    if options.detached {
        background::detach();
    }
    let mount_options = Options {
        image: options.image.clone(),
        folder: options.folder.clone(),
        pacing: options.time,
        threads: options.threads.map_or_else(default_threads, usize::from),
        atomic_writes: options.atomic_writes,
        sync_writes: options.sync_writes,
        write_back: options.write_back,
        sync_interval: Duration::from_secs(options.sync_interval.into()),
    };
    // Refuse whatever can be refused before a drive is created or recovered.
    options.made.check()?;
    mount_options.check()?;
    options.kind.check(options.made.create || options.format)?;
    let (file_system, only_read) = open(options)?;
    // the same command can be tried again
    let mounted =
        Mounted::mount(file_system, &mount_options).inspect_err(|_| options.made.forget(&options.image))?;
    let stopper = mounted.stopper();
    // Without a handler a signal ends the process, and the next mount recovers.
    let _ = ctrlc::set_handler(move || stopper.stop());
    let mut log = announce(options, only_read.as_ref())?;
    mounted.wait(|notice| {
        let line = line_of(&notice);
        match &mut log {
            Some(log) => log.add(&line),
            // This command reports why a mount failed when it ends.
            None if !matches!(notice, Notice::Ended(Ok(Ending::Closed | Ending::OnlyRead) | Err(_))) => {
                output::complain(&line);
            }
            None => {}
        }
    })?;
    Ok(())
}

/// What a drive that has stopped no longer does.
pub fn stopped(has_power: bool) -> &'static str {
    if has_power { "changes fail, and what it has can be read," } else { "every request fails" }
}

/// An event of a mount, as text.
fn line_of(notice: &Notice<'_>) -> String {
    match notice {
        Notice::DriveStopped(status) => {
            let what = stopped(**status != Status::PowerLost);
            format!("the drive stopped: {status}; {what} until the volume is unmounted and mounted again")
        }
        Notice::Ended(Ok(Ending::Closed)) => "unmounted: everything is durable".to_owned(),
        Notice::Ended(Ok(Ending::OnlyRead)) => "unmounted: it was only read".to_owned(),
        Notice::Ended(Ok(Ending::CutOff)) => {
            "unmounted although programs had files open: everything is durable \
             except what they had mapped or, with --write-back, written and not synced"
                .to_owned()
        }
        Notice::Ended(Ok(Ending::PowerLost)) => {
            "unmounted: the drive had lost power; the next mount recovers".to_owned()
        }
        Notice::Ended(Err(error)) => {
            format!(
                "unmounted: {error}; data that were not synced are lost, and the next mount recovers the rest"
            )
        }
    }
}

/// Announces that the volume is mounted. In the background, later events go to the log.
fn announce(options: &MountOptions, only_read: Option<&Status>) -> Result<Option<Log>, Failure> {
    let only_read = only_read.map(|why| only_read_line(&options.image, why));
    if options.detached {
        let image = options.image.canonicalize().unwrap_or_else(|_| options.image.clone());
        let log = Log::open(&image).map(|mut log| {
            let folder = std::path::absolute(&options.folder).unwrap_or_else(|_| options.folder.clone());
            log.add(&format!("mounted on {}", folder.display()));
            only_read.iter().for_each(|line| log.add(line));
            log
        });
        let mut warning = match &log {
            Ok(_) => String::new(),
            Err(error) => format!(", without a log: {}: {error}", log_path(&image).display()),
        };
        only_read.iter().for_each(|line| warning += &format!("; {line}"));
        output::print(&format!("{MOUNTED}{warning}\n"))?;
        return Ok(log.ok());
    }
    only_read.iter().for_each(|line| output::complain(line));
    output::print(&format!(
        "{} is mounted on {} until Ctrl-C or `tantalum unmount`\n",
        options.image.display(),
        options.folder.display()
    ))?;
    Ok(None)
}

fn default_threads() -> usize {
    thread::available_parallelism().map_or(2, usize::from).clamp(2, MOST_THREADS)
}

/// The drive and its file system, each created or opened; with the reason if they can only be read.
fn open(options: &MountOptions) -> Result<(Box<dyn FileSystem>, Option<Status>), Failure> {
    let path = &options.image;
    let remap_duplicates = !options.no_remap_duplicates;
    let how = Use { cache_bytes: CACHE_BYTES, snapshot: options.snapshot, remap_duplicates };
    if options.made.create || options.format {
        let device = options.made.device(path, Access::Write, VERB)?;
        let made = options.kind.make(path, device, how);
        return Ok((made.inspect_err(|_| options.made.forget(path))?, None));
    }
    let opened = Device::or_read(Access::Write, |access| open_existing(options, access, how), Failure::host);
    let (file_system, why) = opened?;
    if let Some(why) = &why {
        file_system.client().device().refuse_changes(why.clone());
    }
    Ok((file_system, why))
}

fn open_existing(options: &MountOptions, access: Access, how: Use) -> Result<Box<dyn FileSystem>, Failure> {
    let path = &options.image;
    let mut device = options.made.device(path, access, VERB)?;
    let Some(kind) = options.kind.recognise(path, &mut device)? else {
        let (now_ns, namespaces) = (device.time_ns(), device.namespaces().len());
        device.shutdown(now_ns).map_err(|status| shutdown_failure(path, status))?;
        let path = path.clone();
        return Err(match namespaces {
            0 => Failure::NoVolume { path },
            namespaces => Failure::HoldsRecords { path, namespaces },
        });
    };
    file_system::mount(kind, path, device, how)
}

fn shutdown_failure(path: &Path, status: Status) -> Failure {
    Failure::Shutdown { path: path.to_path_buf(), status }
}
