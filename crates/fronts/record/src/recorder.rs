//! A file system that reports what is done to another.

mod attributes;
mod content;
mod names;

use tantalum::Nanoseconds;
use tantalum_drive::Client;
use tantalum_filesystem::{Errno, FileSystem, Outcome, Statistics, UnmountFailure};

use crate::event::Event;
use crate::tape::{Numbers, Tape};

/// A file system whose changes are recorded while its tape runs.
pub struct Recorder {
    inner: Box<dyn FileSystem>,
    tape: Tape,
}

impl Recorder {
    /// In front of `inner`.
    pub fn new(inner: Box<dyn FileSystem>, tape: Tape) -> Recorder {
        Recorder { inner, tape }
    }

    /// When the next operation begins; `None` if nothing is recorded.
    fn begins(&self) -> Option<Nanoseconds> {
        self.tape.runs().then(|| self.inner.client().now_ns())
    }

    /// Records the operation that began then.
    fn record<'a>(&self, begun: Option<Nanoseconds>, event: impl FnOnce(&mut Numbers) -> Event<'a>) {
        if let Some(at_ns) = begun {
            let took_ns = self.inner.client().now_ns().saturating_sub(at_ns);
            self.tape.record(at_ns, took_ns, event);
        }
    }

    fn check_moves(&self) -> Outcome<()> {
        if self.tape.refuses_moves() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }
}

impl FileSystem for Recorder {
    fn client(&self) -> &Client {
        self.inner.client()
    }

    fn client_mut(&mut self) -> &mut Client {
        self.inner.client_mut()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn write_back(&mut self) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_back()?;
        self.record(begun, |_| Event::WrittenBack);
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        self.tape.end();
        self.inner.unmount()
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        self.tape.end();
        self.inner.into_client_without_sync()
    }
}
