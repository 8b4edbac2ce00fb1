//! A host that fails, for tests: any call on an image's file may fail, once or from then on, and the machine may be lost.
//!
//! The file itself is what the host's cache has. Beside it, this keeps what the disk has of each page that was written since
//! the last sync. As on Linux, a sync that fails says nothing about which pages reached the disk, and later ones succeed
//! without them; the cache keeps or drops what it has of each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::host_file::{HOST_PAGE, Unstored};
use super::life::{Ended, Life};
use crate::random::SplitMix64;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// Pages given back at once.
const PUNCHED_PAGES: u64 = 16;

/// A kind of call on the file of an image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostCall {
    /// Reading its bytes, or its length.
    Read,
    /// Writing.
    Write,
    /// Waiting until what was written is on the disk.
    Sync,
    /// Setting its length.
    Grow,
    /// Reserving space.
    Reserve,
    /// Giving space back.
    Punch,
    /// Mapping it.
    Map,
    /// Reading through memory.
    Load,
    /// Storing through memory.
    Store,
}

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostFailure {
    /// ENOSPC. A write may be made in part.
    NoSpace,
    /// EIO. A write may be made in part; after a sync, any of what was written may be on the disk.
    Io,
}

impl HostFailure {
    /// Whether such a call can fail in this way.
    pub fn applies_to(self, call: HostCall) -> bool {
        match self {
            HostFailure::NoSpace => !matches!(call, HostCall::Read | HostCall::Map | HostCall::Load),
            HostFailure::Io => call != HostCall::Reserve,
        }
    }

    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            HostFailure::NoSpace => libc::ENOSPC,
            HostFailure::Io => libc::EIO,
        })
    }
}

/// Which call fails, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostFault {
    /// So many calls are made before it, counted from [`HostFaults::fail`] on. The first one after them that can fail in this
    /// way does.
    pub after: u64,
    /// How it fails.
    pub failure: HostFailure,
    /// Whether the later calls that can fail in this way do so too, until [`HostFaults::heal`].
    pub lasts: bool,
}

/// How a test wants an image mapped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mapping {
    /// As its file system allows.
    #[default]
    Allowed,
    /// Not at all: all bytes move in system calls.
    Never,
}

/// A host in a test. Clones are the same host.
#[derive(Clone, Debug)]
pub struct TestHost {
    /// The process that has the image open.
    pub life: Life,
    /// How it is mapped.
    pub mapping: Mapping,
    /// Which calls fail.
    pub faults: HostFaults,
}

impl TestHost {
    /// A host on which nothing fails yet. What a failure leaves is drawn from the seed.
    pub fn new(mapping: Mapping, seed: u64) -> TestHost {
        TestHost { life: Life::default(), mapping, faults: HostFaults::new(seed) }
    }

    /// A call that may fail, and leaves nothing if it does.
    pub(super) fn ask(&self, call: HostCall) -> io::Result<()> {
        self.faults.state().ask(call)
    }

    /// A call that changes the file. It may fail, and leaves nothing if it does.
    pub(super) fn ask_for_change(&self, call: HostCall) -> io::Result<()> {
        self.live()?;
        self.ask(call)
    }

    fn live(&self) -> io::Result<()> {
        if self.life.is_over() { Err(Ended { stored: 0 }.into()) } else { Ok(()) }
    }

    pub(super) fn write(&self, file: &File, data: &[u8], at: u64) -> io::Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let at = at + (data.len() - rest.len()) as u64;
            let (piece, others) = rest.split_at((HOST_PAGE - at as usize % HOST_PAGE).min(rest.len()));
            self.life.store(at, piece.len())?;
            self.faults.state().write(file, piece, at)?;
            rest = others;
        }
        Ok(())
    }

    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        self.live()?;
        self.faults.state().sync(file)
    }

    /// Gives space back, some pages at a time: a process that ends has given back the first of them. `punch` does it on the real
    /// host.
    pub(super) fn punch(
        &self,
        file: &File,
        pages: Range<u64>,
        mut punch: impl FnMut(Range<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut next = pages.start;
        while next < pages.end {
            let end = pages.end.min(next + PUNCHED_PAGES);
            self.life.store(next * HOST_PAGE as u64, (end - next) as usize * HOST_PAGE)?;
            self.faults.state().punch(file, next..end, &mut punch)?;
            next = end;
        }
        Ok(())
    }

    /// A store of mapped memory.
    pub(super) fn store(&self, at: u64, bytes: usize) -> Result<(), Unstored> {
        self.life.store(at, bytes).map_err(Unstored::Ended)?;
        let mut state = self.faults.state();
        match state.ask(HostCall::Store) {
            Ok(()) => Ok(()),
            Err(_) => Err(Unstored::NotServed { stored: state.random.below(bytes as u64 + 1) as usize }),
        }
    }
}

/// Which calls on an image's file fail, and what the disk has. Clones are the same.
#[derive(Clone, Debug)]
pub struct HostFaults(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: SplitMix64,
    /// The calls so far.
    calls: Vec<HostCall>,
    /// The fault, and the number of the call at which it begins.
    armed: Option<(HostFault, u64)>,
    /// The call that failed first since the fault was armed.
    failed: Option<HostCall>,
    /// What the disk has of pages that the next sync writes.
    unwritten: Pages,
    /// What it has of pages that no sync writes, because one failed.
    forgotten: Pages,
}

type Pages = BTreeMap<u64, Box<[u8; HOST_PAGE]>>;

impl HostFaults {
    fn new(seed: u64) -> HostFaults {
        HostFaults(Arc::new(Mutex::new(State {
            random: SplitMix64(seed),
            calls: Vec::new(),
            armed: None,
            failed: None,
            unwritten: Pages::new(),
            forgotten: Pages::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call fail.
    pub fn fail(&self, fault: HostFault) {
        let mut state = self.state();
        state.armed = Some((fault, state.calls.len() as u64 + fault.after));
        state.failed = None;
    }

    /// From now on no call fails.
    pub fn heal(&self) {
        self.state().armed = None;
    }

    /// The fault that is armed and not over, counted from now on.
    pub fn armed(&self) -> Option<HostFault> {
        let state = self.state();
        let (fault, first) = state.armed?;
        let made = state.calls.len() as u64;
        (state.failed.is_none() || fault.lasts)
            .then_some(HostFault { after: first.saturating_sub(made), ..fault })
    }

    /// The call that failed first since [`HostFaults::fail`].
    pub fn failed(&self) -> Option<HostCall> {
        self.state().failed
    }

    /// How many calls were made so far.
    pub fn call_count(&self) -> u64 {
        self.state().calls.len() as u64
    }

    /// The calls from number `first` on.
    pub fn calls_since(&self, first: u64) -> Vec<HostCall> {
        self.state().calls[first as usize..].to_vec()
    }

    /// The machine is lost, and comes back. The file, which nobody has open, is what the disk has then: of what was
    /// written since the last sync, any sectors.
    ///
    /// # Errors
    /// Those of the real host.
    pub fn lose_machine(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let file = File::options().write(true).open(path)?;
        for pages in [&mut state.unwritten, &mut state.forgotten] {
            for (number, page) in std::mem::take(pages) {
                // pages are often there or not as a whole
                let share = state.random.below(5);
                for (sector, bytes) in page.chunks_exact(SECTOR).enumerate() {
                    let is_lost = share == 0 || share < 4 && state.random.below(4) < share;
                    if is_lost {
                        file.write_all_at(bytes, number * HOST_PAGE as u64 + (sector * SECTOR) as u64)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// Counts a call, and says how it fails, if it does.
    fn next(&mut self, call: HostCall) -> Option<HostFailure> {
        let number = self.calls.len() as u64;
        self.calls.push(call);
        let (fault, first) = self.armed?;
        let is_due = number >= first && (fault.lasts || self.failed.is_none());
        if !is_due || !fault.failure.applies_to(call) {
            return None;
        }
        self.failed.get_or_insert(call);
        Some(fault.failure)
    }

    fn ask(&mut self, call: HostCall) -> io::Result<()> {
        self.next(call).map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// How much of a write to one page is made although it fails: some sectors, as past the cache; the cache itself takes all
    /// of it or nothing.
    fn part(&mut self, bytes: usize, at: u64) -> usize {
        let are_sectors = at.is_multiple_of(SECTOR as u64) && bytes.is_multiple_of(SECTOR);
        let piece = if are_sectors { SECTOR } else { bytes };
        self.random.below((bytes / piece) as u64 + 1) as usize * piece
    }

    /// Writes to one page of the cache.
    fn write(&mut self, file: &File, data: &[u8], at: u64) -> io::Result<()> {
        let failure = self.next(HostCall::Write);
        let done = failure.map_or(data.len(), |_| self.part(data.len(), at));
        if done > 0 {
            self.dirty(file, at / HOST_PAGE as u64)?;
            file.write_all_at(&data[..done], at)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Gives pages back: to the disk this is as if they were written, with zeros.
    fn punch(
        &mut self,
        file: &File,
        pages: Range<u64>,
        punch: &mut impl FnMut(Range<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let failure = self.next(HostCall::Punch);
        let end = match failure {
            None => pages.end,
            Some(_) => pages.start + self.random.below(pages.end - pages.start),
        };
        (pages.start..end).try_for_each(|page| self.dirty(file, page))?;
        if end > pages.start {
            punch(pages.start..end)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// The next sync writes a page.
    fn dirty(&mut self, file: &File, number: u64) -> io::Result<()> {
        if self.unwritten.contains_key(&number) {
            return Ok(());
        }
        let page = match self.forgotten.remove(&number) {
            Some(page) => page,
            None => {
                let mut page = Box::new([0; HOST_PAGE]);
                let length = file.metadata()?.len();
                let start = number * HOST_PAGE as u64;
                let bytes = length.saturating_sub(start).min(HOST_PAGE as u64) as usize;
                file.read_exact_at(&mut page[..bytes], start)?;
                page
            }
        };
        self.unwritten.insert(number, page);
        Ok(())
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        let Some(failure) = self.next(HostCall::Sync) else {
            self.unwritten.clear();
            return Ok(());
        };
        for (number, page) in std::mem::take(&mut self.unwritten) {
            match self.random.below(3) {
                // it was written
                0 => {}
                // the cache keeps it, and takes it for written
                1 => drop(self.forgotten.insert(number, page)),
                // the cache drops it
                _ => {
                    let start = number * HOST_PAGE as u64;
                    let bytes = file.metadata()?.len().saturating_sub(start).min(HOST_PAGE as u64);
                    file.write_all_at(&page[..bytes as usize], start)?;
                }
            }
        }
        Err(failure.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &File, at: u64) -> u8 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0]
    }

    #[test]
    fn a_call_fails_once_or_until_the_host_is_well() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        for lasts in [false, true] {
            let host = TestHost::new(Mapping::Never, 1);
            host.faults.fail(HostFault { after: 1, failure: HostFailure::NoSpace, lasts });
            host.write(&file, &[1], 0).unwrap();
            assert_eq!(host.write(&file, &[1], 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(host.faults.failed(), Some(HostCall::Write));
            host.ask(HostCall::Read).unwrap();
            assert_eq!(host.write(&file, &[1], 0).is_err(), lasts, "reading needs no space");
            host.faults.heal();
            host.write(&file, &[1], 0).unwrap();
        }
    }

    #[test]
    fn what_a_failed_sync_covered_may_be_lost_whatever_is_synced_later() {
        let mut outcomes = [0; 4];
        for seed in 0..60 {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(8192).unwrap();
            let host = TestHost::new(Mapping::Never, seed);
            host.write(file.as_file(), &[1; 4096], 0).unwrap();
            host.faults.fail(HostFault { after: 0, failure: HostFailure::Io, lasts: false });
            assert!(host.sync(file.as_file()).is_err());
            let is_cached = read(file.as_file(), 0) == 1;
            host.write(file.as_file(), &[2], 4096).unwrap();
            host.sync(file.as_file()).unwrap();
            host.faults.lose_machine(file.path()).unwrap();
            assert_eq!(read(file.as_file(), 4096), 2, "that was synced");
            outcomes[usize::from(is_cached) * 2 + usize::from(read(file.as_file(), 0) == 1)] += 1;
        }
        assert_eq!(outcomes[1], 0, "what the cache dropped does not come back");
        assert!([0, 2, 3].iter().all(|outcome| outcomes[*outcome] > 5), "{outcomes:?}");
    }

    #[test]
    fn a_page_that_is_written_again_is_written_by_the_next_sync() {
        for seed in 0..20 {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(4096).unwrap();
            let host = TestHost::new(Mapping::Never, seed);
            host.write(file.as_file(), &[1; 4096], 0).unwrap();
            host.faults.fail(HostFault { after: 0, failure: HostFailure::Io, lasts: false });
            assert!(host.sync(file.as_file()).is_err());
            host.write(file.as_file(), &[3; 4096], 0).unwrap();
            host.sync(file.as_file()).unwrap();
            host.faults.lose_machine(file.path()).unwrap();
            assert_eq!(read(file.as_file(), 4000), 3);
        }
    }
}
