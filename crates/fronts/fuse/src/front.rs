//! From a request to its answer: takes the mutex, calls the file system, releases the mutex, answers in time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use fuser::{Errno, INodeNo, OpenFlags, ReplyData, ReplyIoctl, ReplyWrite};
use parking_lot::Mutex;
use tantalum::{Fills, Nanoseconds, Status};
use tantalum_drive::{Answers, Delivery, Ticket};
use tantalum_filesystem::FileSystem;

use crate::answer::Answer;
use crate::convert::inode_number;
use crate::host::{Done, Host, Outcome};

/// Read buffers kept for reuse, besides one for each thread.
const SPARE_BUFFERS: usize = 32;

thread_local! {
    /// The read buffer that this thread used last: much of it is in its processor's cache.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A file system that is mounted, or was until it was closed.
pub(crate) struct Front {
    host: Mutex<Option<Host>>,
    answers: Answers,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// A separate thread sends the answers of ioctls, see [`Changed`].
    pub changed: Mutex<Option<Sender<Changed>>>,
    /// Called once, when the drive has stopped for good.
    pub on_stop: Mutex<Option<OnStop>>,
}

/// A request that the file system has finished.
pub(crate) struct Ended<T> {
    pub outcome: Outcome<T>,
    /// When the drive finishes it.
    done_ns: Nanoseconds,
    ticket: Ticket,
}

impl<T> Ended<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> Ended<U> {
        let Ended { outcome, done_ns, ticket } = self;
        Ended { outcome: outcome.map(map), done_ns, ticket }
    }
}

/// Called with the error that stopped the drive.
pub(crate) type OnStop = Box<dyn FnOnce(Status) + Send>;

/// An ioctl that changed files without the kernel: the kernel must drop its cached data of them before the answer is
/// sent. Dropping may have to wait for reads that the kernel has already sent, so it must not happen in a thread that
/// answers reads.
pub(crate) struct Changed {
    pub files: Vec<INodeNo>,
    pub reply: ReplyIoctl,
    pub out: Vec<u8>,
}

impl Front {
    pub fn new(host: Host, answers: Answers) -> Front {
        answers.follow(host.file_system.client().drive());
        Front {
            host: Mutex::new(Some(host)),
            answers,
            buffers: Mutex::default(),
            changed: Mutex::new(None),
            on_stop: Mutex::new(None),
        }
    }

    /// Calls the file system. Without power, or when the file system is closed, the answer is `EIO`.
    pub fn with<T>(&self, request: impl FnOnce(&mut Host) -> Outcome<T>) -> Ended<T> {
        self.known(|host| {
            let has_power = host.file_system.client().device().has_power();
            if has_power { request(host) } else { Err(Errno::EIO.into()) }
        })
    }

    /// Begins a request: sets the clock of the drive's client to the machine's.
    fn begin(&self, file_system: &mut dyn FileSystem) {
        if let Some(now_ns) = self.answers.now_ns() {
            file_system.client_mut().begin_at(now_ns);
        }
    }

    /// Answers at the time at which the drive would. If power fails before that, the answer is an error.
    pub fn finish<T: Send + 'static>(
        &self,
        ended: Ended<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) {
        let Ended { outcome, done_ns, ticket } = ended;
        self.answers.at(ticket, done_ns, move |delivery| match delivery {
            Delivery::InTime => answer(outcome),
            Delivery::PowerLost => answer(outcome.and(Err(Errno::EIO.into()))),
        });
    }

    fn notice_stop(&self, file_system: &dyn FileSystem) {
        if let Some(status) = file_system.client().end()
            && let Some(tell) = self.on_stop.lock().take()
        {
            tell(status);
        }
    }

    /// Cuts the drive's power, at once or at a later flash operation. Returns whether it still has power; none if the
    /// file system is closed.
    pub fn cut(&self, after_flash_operations: Option<u64>) -> Option<bool> {
        self.look(|host| {
            self.begin(&mut *host.file_system);
            let now_ns = host.file_system.client().now_ns();
            let mut device = host.file_system.client().device();
            match after_flash_operations {
                Some(operations) => device.cut_after(Some(operations)),
                None => device.cut_power(now_ns),
            }
            let has_power = device.has_power();
            drop(device);
            self.notice_stop(&*host.file_system);
            has_power
        })
    }

    /// Calls `look` on the file system, in whatever state it is; none if it is closed.
    pub fn look<T>(&self, look: impl FnOnce(&mut Host) -> T) -> Option<T> {
        self.host.lock().as_mut().map(look)
    }

    /// Takes the file system out: every request fails from now on.
    pub fn take(&self) -> Option<Host> {
        self.host.lock().take()
    }

    /// Calls the file system for what it has in memory, names and attributes, and answers, also if the drive has no power.
    /// A program may take an error for the absence of a file: SQLite then ignores a rollback journal, and reads a
    /// database with half of a transaction. Where the file system must read the drive, the answer is `EIO` as ever.
    pub fn serve_known<A: Answer>(&self, reply: A, request: impl FnOnce(&mut Host) -> Outcome<A::Value>) {
        let ended = self.known(request);
        self.answers.at(ended.ticket, ended.done_ns, move |_| reply.send(ended.outcome));
    }

    /// As [`Front::with`], for what the file system has in memory.
    pub(crate) fn known<T>(&self, request: impl FnOnce(&mut Host) -> Outcome<T>) -> Ended<T> {
        let mut guard = self.host.lock();
        let ticket = self.answers.ticket();
        let Some(host) = guard.as_mut() else {
            return Ended { outcome: Err(Errno::EIO.into()), done_ns: 0, ticket };
        };
        let has_power = host.file_system.client().device().has_power();
        if has_power {
            self.begin(&mut *host.file_system);
        }
        let outcome = request(host);
        self.notice_stop(&*host.file_system);
        Ended { outcome, done_ns: host.file_system.client().now_ns(), ticket }
    }

    /// Calls the file system and answers.
    pub fn serve<A: Answer>(&self, reply: A, request: impl FnOnce(&mut Host) -> Outcome<A::Value>) {
        let ended = self.with(request);
        self.finish(ended, move |outcome| reply.send(outcome));
    }

    /// Reads, and answers with the bytes that there were.
    pub fn read(self: &Arc<Self>, inode: INodeNo, offset: u64, bytes: usize, reply: ReplyData) {
        let mut buffer = self.buffer();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let ended = self.read_into(inode, offset, &mut buffer[..bytes]);
        let front = Arc::clone(self);
        self.finish(ended, move |outcome| {
            match outcome {
                Ok(bytes) => reply.data(&buffer[..bytes]),
                Err(refusal) => reply.error(refusal.0),
            }
            front.keep(buffer);
        });
    }

    /// Under the mutex, only looks up what must be read and from where. The bytes move while others have the mutex.
    fn read_into(&self, inode: INodeNo, offset: u64, data: &mut [u8]) -> Ended<usize> {
        let ended = self.with(|host| host.read_later(inode, offset, data));
        match &ended.outcome {
            Ok((_, Some(fetches))) if !fetches.fetch(data) => {
                self.with(|host| host.read(inode, offset, data))
            }
            _ => ended.map(|(bytes, _)| bytes),
        }
    }

    /// Writes with `write` and answers. If the drive provides buffers, they are filled first, without the mutex.
    pub fn write(
        &self,
        offset: u64,
        data: &[u8],
        flags: OpenFlags,
        reply: ReplyWrite,
        write: impl FnOnce(&mut Host, Option<&mut Fills>) -> Outcome<u32>,
    ) {
        let mut fills = self.look(|host| host.fills(offset, data.len(), flags)).flatten();
        let is_filled = fills.as_mut().is_some_and(|fills| fills.fill(data).is_ok());
        self.serve(reply, |host| {
            // without them the write fails where filling them did, and reports why
            let written = write(host, fills.as_mut().filter(|_| is_filled));
            if let Some(fills) = &mut fills {
                host.file_system.client().device().skip_fills(fills, usize::MAX);
            }
            written
        });
    }

    /// This thread's buffer, or one that an answer took to a thread that does not read.
    fn buffer(&self) -> Vec<u8> {
        let own = BUFFER.take();
        if own.is_empty() { self.buffers.lock().pop().unwrap_or_default() } else { own }
    }

    fn keep(&self, buffer: Vec<u8>) {
        let other = BUFFER.replace(buffer);
        if other.is_empty() {
            return;
        }
        let mut buffers = self.buffers.lock();
        if buffers.len() < SPARE_BUFFERS {
            buffers.push(other);
        }
    }

    /// Executes an ioctl, and answers when the kernel has dropped its cached data of changed files.
    pub fn ioctl(&self, reply: ReplyIoctl, request: impl FnOnce(&mut Host) -> Outcome<Done>) {
        let ended = self.with(request);
        let changed = self.changed.lock().clone();
        self.finish(ended, move |outcome| match outcome {
            Err(refusal) => reply.error(refusal.0),
            Ok(done) => {
                let files = done.changed.into_iter().map(inode_number).collect();
                match changed {
                    // If the thread has ended, so has the mount, and nobody is waiting for the answer.
                    Some(sender) => drop(sender.send(Changed { files, reply, out: done.out })),
                    None => reply.error(Errno::EIO),
                }
            }
        });
    }
}
