//! When a recording runs, where its events go, and the numbers that it gives to files.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tantalum::Nanoseconds;
use tantalum_filesystem::{FileId, FileKind, FileSystem, Metadata, Outcome};

use crate::event::{Event, Stamped};
use crate::operation::{FileNumber, FolderName, Made, Operation, ROOT, is_first_part};

/// Takes a recorder's events.
pub trait Sink: Send {
    /// Takes an event. Failures to store events are reported by [`Sink::flush`].
    fn take(&mut self, event: Stamped<'_>);

    /// Finishes what waits in memory, and reports whether everything was kept.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether contents may move between files without being written. If not, such requests are refused while this sink
    /// is in use, and programs write instead.
    fn takes_moves(&self) -> bool {
        true
    }
}

/// Starts and ends the recording of a file system, from outside. Clones are the same tape.
#[derive(Clone, Default)]
pub struct Tape(Arc<Reel>);

#[derive(Default)]
struct Reel {
    /// Whether anything is recorded: checked before each operation.
    runs: AtomicBool,
    running: Mutex<Option<Running>>,
}

/// A recording in progress.
struct Running {
    sink: Box<dyn Sink>,
    numbers: Numbers,
}

/// File systems reuse the numbers of removed files; a recording does not.
pub(crate) struct Numbers {
    of: HashMap<FileId, FileNumber>,
    next: FileNumber,
}

impl Numbers {
    fn new() -> Numbers {
        Numbers { of: HashMap::from([(FileId::ROOT, ROOT)]), next: ROOT + 1 }
    }

    /// The number of a file. A file that had no name when the recording started gets its number now.
    pub fn number(&mut self, file: FileId) -> FileNumber {
        match self.of.get(&file) {
            Some(number) => *number,
            None => self.give(file),
        }
    }

    pub fn give(&mut self, file: FileId) -> FileNumber {
        let number = self.next;
        self.of.insert(file, number);
        self.next += 1;
        number
    }

    pub fn entry(&mut self, folder: FileId, name: &[u8]) -> FolderName {
        FolderName { folder: self.number(folder), name: name.to_vec() }
    }
}

impl Tape {
    /// Starts a recording with the existing files. `None` if another one is in progress.
    pub fn start(&self, file_system: &mut dyn FileSystem, sink: Box<dyn Sink>) -> Outcome<Option<()>> {
        let mut running = self.0.running.lock();
        if running.is_some() {
            return Ok(None);
        }
        let mut started = Running { sink, numbers: Numbers::new() };
        tell_of_files(file_system, &mut started)?;
        *running = Some(started);
        self.0.runs.store(true, Ordering::Release);
        Ok(Some(()))
    }

    /// Starts a recording on a file system that is empty, or whose files do not matter.
    pub fn start_empty(&self, sink: Box<dyn Sink>) {
        *self.0.running.lock() = Some(Running { sink, numbers: Numbers::new() });
        self.0.runs.store(true, Ordering::Release);
    }

    /// Sets a mark; when it returns, the sink has everything so far.
    pub fn mark(&self, at_ns: Nanoseconds) -> io::Result<()> {
        match &mut *self.0.running.lock() {
            Some(running) => {
                running.sink.take(Stamped { at_ns, took_ns: 0, event: Event::Marked });
                running.sink.flush()
            }
            None => Err(io::Error::other("nothing is recorded")),
        }
    }

    /// Whether this write is recorded and may be only the first part of its system call.
    pub fn may_be_first_part(&self, offset: u64, bytes: u64) -> bool {
        is_first_part(offset, bytes, offset + bytes) && self.runs()
    }

    /// Records that the last write is all of its system call.
    pub fn call_ends(&self, at_ns: Nanoseconds) {
        self.record(at_ns, 0, |_| Event::CallEnded);
    }

    /// Ends the recording, if there is one.
    pub fn end(&self) {
        self.0.runs.store(false, Ordering::Release);
        let ended = self.0.running.lock().take();
        if let Some(mut running) = ended {
            // so that readers of the recording see where it ends
            let _ = running.sink.flush();
        }
    }

    /// Whether anything is recorded.
    pub(crate) fn runs(&self) -> bool {
        self.0.runs.load(Ordering::Acquire)
    }

    /// Passes an event to the sink, if there is one.
    pub(crate) fn record<'a>(
        &self,
        at_ns: Nanoseconds,
        took_ns: Nanoseconds,
        event: impl FnOnce(&mut Numbers) -> Event<'a>,
    ) {
        if let Some(Running { sink, numbers }) = &mut *self.0.running.lock() {
            sink.take(Stamped { at_ns, took_ns, event: event(numbers) });
        }
    }

    /// Whether contents must not move without being written.
    pub(crate) fn refuses_moves(&self) -> bool {
        self.runs() && self.0.running.lock().as_ref().is_some_and(|running| !running.sink.takes_moves())
    }
}

/// The existing files, as if they were created now.
fn tell_of_files(file_system: &mut dyn FileSystem, running: &mut Running) -> Outcome<()> {
    let mut folders = vec![FileId::ROOT];
    while let Some(folder) = folders.pop() {
        let mut entries = Vec::new();
        file_system.read_folder(folder, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.file, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (name, file, kind) in entries {
            tell_of_file(file_system, running, folder, &name, file)?;
            if kind == FileKind::Folder {
                folders.push(file);
            }
        }
    }
    Ok(())
}

fn tell_of_file(
    file_system: &mut dyn FileSystem,
    running: &mut Running,
    folder: FileId,
    name: &[u8],
    file: FileId,
) -> Outcome<()> {
    let Running { sink, numbers } = running;
    let entry = numbers.entry(folder, name);
    let mut tell = |event| sink.take(Stamped { at_ns: 0, took_ns: 0, event });
    if let Some(number) = numbers.of.get(&file) {
        tell(Event::Done(Operation::Link(entry, *number)));
        return Ok(());
    }
    let metadata = file_system.metadata(file)?;
    let target = match metadata.kind {
        FileKind::SymbolicLink => file_system.read_symbolic_link(file)?,
        _ => Vec::new(),
    };
    let Metadata { kind, permissions, owner, group, size, .. } = metadata;
    let number = numbers.give(file);
    tell(Event::Done(Operation::Create(entry, number, Made { kind, permissions, owner, group, target })));
    if kind == FileKind::File {
        tell(Event::Held { file: number, bytes: size });
    }
    Ok(())
}
