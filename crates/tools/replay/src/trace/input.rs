//! Where the bytes of a trace come from: a file, the files of one recording by blktrace, or a pipe.
//!
//! A trace is read more than once. What cannot be read again, such as a pipe, is first copied to a temporary file without a
//! name (in `$TMPDIR`, else in `/tmp`), so memory stays bounded. Each reading has its own position.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tantalum_report::{Monitor, system_error};

use super::error::TraceError;

/// Standard input, on the command line.
const DASH: &str = "-";
const STANDARD_INPUT: &str = "/dev/stdin";

/// Bytes of a pipe that are read at a time, and how many of these pieces wait to be copied.
const PIECE_BYTES: usize = 1 << 20;
const WAITING_PIECES: usize = 2;

/// The time between two checks for cancellation while a pipe gives nothing.
const CHECKED: Duration = Duration::from_millis(50);

/// What stands between the name of a device and the number of a processor in the names of blktrace's files.
const PER_PROCESSOR: &str = ".blktrace.";

/// A trace that can be read again and again.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    files: Vec<Opened>,
}

#[derive(Clone, Debug)]
struct Opened {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
}

impl Input {
    /// Opens the trace at `path`. blktrace's files of all processors are one trace: `path` is one of them, or the name
    /// before `.blktrace.`.
    pub(crate) fn open(path: &Path, monitor: &Monitor) -> Result<Input, TraceError> {
        let path = if path == Path::new(DASH) { Path::new(STANDARD_INPUT) } else { path };
        let paths = files(path).map_err(failed(path))?;
        let files: Result<Vec<Opened>, TraceError> = paths.iter().map(|path| opened(path, monitor)).collect();
        Ok(Input { files: files? })
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads its files from the beginning, and counts into `read`.
    pub(super) fn readers(&self, read: &Arc<AtomicU64>) -> Vec<(PathBuf, Raw)> {
        let raw = |file: &Opened| Raw { file: Arc::clone(&file.file), at: 0, read: Arc::clone(read) };
        self.files.iter().map(|file| (file.path.clone(), raw(file))).collect()
    }
}

/// One reading of a file.
#[derive(Debug)]
pub(super) struct Raw {
    file: Arc<File>,
    at: u64,
    read: Arc<AtomicU64>,
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> TraceError + use<> {
    let path = path.to_owned();
    move |error| TraceError::File { path: path.clone(), error }
}

fn opened(path: &Path, monitor: &Monitor) -> Result<Opened, TraceError> {
    let metadata = fs::metadata(path).map_err(failed(path))?;
    if metadata.is_dir() {
        return Err(failed(path)(io::ErrorKind::IsADirectory.into()));
    }
    // a block device can be read again, too
    let file = if metadata.is_file() || metadata.file_type().is_block_device() {
        File::open(path).map_err(failed(path))?
    } else {
        copied(path, monitor)?
    };
    let bytes = file.metadata().map_err(failed(path))?.len();
    Ok(Opened { path: path.to_owned(), file: Arc::new(file), bytes })
}

/// A temporary file with all that a pipe gives.
fn copied(path: &Path, monitor: &Monitor) -> Result<File, TraceError> {
    let folder = std::env::temp_dir();
    let no_room = |error| TraceError::Copy {
        path: path.to_owned(),
        folder: folder.clone(),
        error: system_error(error),
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(no_room)?;
    let pieces = read_apart(path.to_owned());
    loop {
        monitor.check().map_err(TraceError::Interrupted)?;
        match pieces.recv_timeout(CHECKED) {
            Ok(piece) => file.write_all(&piece.map_err(failed(path))?).map_err(no_room)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(file),
        }
    }
}

/// Reads a pipe on a thread, because opening and reading one may wait for its writer without end. The thread ends with the pipe,
/// or with the first piece that nobody takes.
fn read_apart(path: PathBuf) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, pieces) = mpsc::sync_channel(WAITING_PIECES);
    thread::spawn(move || {
        let opened: io::Result<Box<dyn Read>> = match path == Path::new(STANDARD_INPUT) {
            true => Ok(Box::new(io::stdin().lock())),
            false => File::open(&path).map(|file| Box::new(file) as Box<dyn Read>),
        };
        let mut source = match opened {
            Ok(source) => source,
            Err(error) => return drop(sender.send(Err(error))),
        };
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = source.read(&mut piece).map(|bytes| piece.truncate(bytes));
            let is_last = piece.is_empty();
            let sent = match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(()) if is_last => return,
                read => sender.send(read.map(|()| piece)),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    pieces
}

/// The files of the trace at `path`: that of this name, or those of one recording by blktrace.
pub(super) fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let parts = siblings(path)?;
    Ok(if parts.is_empty() { vec![path.to_owned()] } else { parts })
}

/// The files of one recording by blktrace, in the order of processors; empty if `path` does not stand for them.
fn siblings(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let stem = match name.rsplit_once(PER_PROCESSOR) {
        Some((stem, end)) if processor(end).is_some() => stem,
        _ if path.exists() => return Ok(Vec::new()),
        _ => name.strip_suffix(".blktrace").unwrap_or(name),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut parts = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let end = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_prefix(PER_PROCESSOR));
        if let Some(number) = end.and_then(processor) {
            parts.push((number, path.with_file_name(&name)));
        }
    }
    parts.sort();
    Ok(parts.into_iter().map(|(_, path)| path).collect())
}

/// The number of a processor at the end of a file's name, which may be compressed.
fn processor(end: &str) -> Option<u32> {
    end.strip_suffix(".gz").or(end.strip_suffix(".zst")).unwrap_or(end).parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn contents(input: &Input) -> Vec<String> {
        let read = |(_, mut raw): (PathBuf, Raw)| {
            let mut text = String::new();
            raw.read_to_string(&mut text).unwrap();
            text
        };
        input.readers(&Arc::default()).into_iter().map(read).collect()
    }

    #[test]
    fn the_files_of_all_processors_are_one_trace() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["sda.blktrace.0", "sda.blktrace.10", "sda.blktrace.2.gz", "sdb.blktrace.0", "sda.txt"];
        for name in names {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let of = |name: &str| contents(&Input::open(&folder.path().join(name), &Monitor::silent()).unwrap());
        let all = ["sda.blktrace.0", "sda.blktrace.2.gz", "sda.blktrace.10"];
        for name in ["sda", "sda.blktrace", "sda.blktrace.0", "sda.blktrace.10"] {
            assert_eq!(of(name), all, "{name}");
        }
        assert_eq!(of("sda.txt"), ["sda.txt"]);
        let missing = Input::open(&folder.path().join("sdc"), &Monitor::silent());
        assert!(matches!(missing, Err(TraceError::File { .. })), "{missing:?}");
        let folder = Input::open(folder.path(), &Monitor::silent()).unwrap_err().to_string();
        assert!(folder.contains("directory"), "{folder}");
    }

    /// A pipe gives its bytes once, but a trace is read twice.
    #[test]
    fn a_pipe_can_be_read_again() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        writer.write_all(b"twice").unwrap();
        drop(writer);
        let input = Input::open(Path::new(&path), &Monitor::silent()).unwrap();
        assert_eq!(
            (contents(&input), contents(&input)),
            (vec!["twice".to_owned()], vec!["twice".to_owned()])
        );
        assert_eq!(input.bytes(), 5);
    }

    /// The first Ctrl-C was without effect until the writer of the pipe did something.
    #[test]
    fn a_pipe_that_gives_nothing_is_not_waited_for_after_an_interruption() {
        let (reader, _writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let cancelled = Arc::new(AtomicBool::new(false));
        let monitor = Monitor::new(Arc::clone(&cancelled)).quiet();
        let opened = thread::spawn(move || Input::open(Path::new(&path), &monitor).map(|_| ()));
        thread::sleep(Duration::from_millis(100));
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(opened.join().unwrap(), Err(TraceError::Interrupted(_))));
    }
}
