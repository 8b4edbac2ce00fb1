//! Reads and writes of several commands that are issued together.
//!
//! The drive is locked once for all of them. Where the drive allows it, their bytes move while others have the lock: bytes
//! to be written before the commands are issued, bytes that were read afterwards.

use tantalum::{Command, Completion, Fetches, Fills, Handle, Lpn, Nanoseconds, Status, UNIT_BYTES};

use crate::drive::Drive;
use crate::fence::Fence;
use crate::guard::DeviceGuard;
use crate::when::When;

/// Number of commands whose cache misses overlap: as many as [`tantalum::Device::prefetch`] takes.
const PREFETCHED: usize = 16;

/// A read or a write of whole units.
#[derive(Debug)]
pub struct Transfer<'a> {
    lpn: Lpn,
    bytes: Bytes<'a>,
    moving: Moving,
    /// When it is done, unless it failed.
    done_ns: Nanoseconds,
    failed: Option<Status>,
    fence: Option<Fence<'a>>,
    is_kept_out: bool,
}

/// The bytes of a command, and their direction.
#[derive(Debug)]
enum Bytes<'a> {
    Read(&'a mut [u8]),
    Write { data: &'a [u8], fua: bool, handle: Option<Handle> },
}

/// Bytes that move while others have the drive.
#[derive(Debug, Default)]
enum Moving {
    #[default]
    Nothing,
    Fills(Fills),
    Fetches(Fetches),
}

impl<'a> Transfer<'a> {
    /// A [`Command::Read`].
    pub fn read(lpn: Lpn, data: &'a mut [u8]) -> Transfer<'a> {
        Transfer::new(lpn, Bytes::Read(data))
    }

    /// A [`Command::Write`], or a share where it repeats a recent write; see
    /// [`DeviceGuard::issue_or_share`](crate::DeviceGuard::issue_or_share).
    pub fn write(lpn: Lpn, data: &'a [u8], fua: bool) -> Transfer<'a> {
        Transfer::new(lpn, Bytes::Write { data, fua, handle: None })
    }

    /// The same write with a reclaim unit handle; a read stays as it is.
    #[must_use]
    pub fn placed(mut self, with: Option<Handle>) -> Transfer<'a> {
        if let Bytes::Write { handle, .. } = &mut self.bytes {
            *handle = with;
        }
        self
    }

    fn new(lpn: Lpn, bytes: Bytes<'a>) -> Transfer<'a> {
        Transfer {
            lpn,
            bytes,
            moving: Moving::Nothing,
            done_ns: 0,
            failed: None,
            fence: None,
            is_kept_out: false,
        }
    }

    /// The same, which reaches the drive only as long as this right holds.
    pub fn within(self, fence: Fence<'a>) -> Transfer<'a> {
        Transfer { fence: Some(fence), ..self }
    }

    /// Whether its right had been withdrawn when it would have reached the drive: nothing was read or written.
    pub fn was_kept_out(&self) -> bool {
        self.is_kept_out
    }

    /// How it ended, unless it was kept out.
    pub fn ended(self) -> Result<Completion, Status> {
        self.failed.map_or(Ok(Completion { done_ns: self.done_ns }), Err)
    }

    fn is_read(&self) -> bool {
        matches!(self.bytes, Bytes::Read(_))
    }

    /// Reserves buffers for what is to be written. Returns whether there are any.
    fn reserve(&mut self, drive: &mut DeviceGuard<'_>) -> bool {
        if let Bytes::Write { data, fua: false, .. } = &self.bytes
            && data.len().is_multiple_of(UNIT_BYTES)
            // if there are none, the write reports why
            && let Ok(Some(fills)) = drive.fills(data.len() / UNIT_BYTES)
        {
            self.moving = Moving::Fills(fills);
        }
        matches!(self.moving, Moving::Fills(_))
    }

    /// Fills the reserved buffers. Returns whether that worked, or there are none.
    fn fill(&mut self) -> bool {
        match (&mut self.moving, &self.bytes) {
            (Moving::Fills(fills), Bytes::Write { data, .. }) => fills.fill(data).is_ok(),
            _ => true,
        }
    }

    fn issue(&mut self, drive: &mut DeviceGuard<'_>, is_filled: bool, when: When) {
        let lpn = self.lpn;
        if self.fence.is_some_and(|fence| !fence.holds(drive)) {
            if let Moving::Fills(fills) = &mut self.moving {
                // the image may have been purged meanwhile, and nobody purges it of this
                self.failed = drive.discard_fills(fills).err();
            }
            self.is_kept_out = self.failed.is_none();
            return;
        }
        let ended = match (&mut self.bytes, &mut self.moving) {
            (Bytes::Write { data, handle, .. }, Moving::Fills(fills)) if is_filled => {
                drive.issue_or_share(Command::WriteFilled { lpn, data, fills, handle: *handle }, when)
            }
            (Bytes::Write { data, fua, handle }, _) => {
                drive.issue_or_share(Command::Write { lpn, data, fua: *fua, handle: *handle }, when)
            }
            (Bytes::Read(data), moving) => match drive.fetches() {
                None => drive.issue(Command::Read { lpn, data }, when),
                Some(mut fetches) => {
                    let later = Command::ReadLater { lpn, data, fetches: &mut fetches };
                    let ended = drive.issue(later, when);
                    if ended.is_ok() {
                        *moving = Moving::Fetches(fetches);
                    }
                    ended
                }
            },
        };
        // Moving the result would load it with another width than it was stored, and right after a copy of data such a load
        // stalls.
        match &ended {
            Ok(completion) => self.done_ns = completion.done_ns,
            Err(_) => self.failed = ended.err(),
        }
        if let Moving::Fills(fills) = &mut self.moving {
            drive.skip_fills(fills, usize::MAX);
        }
    }

    /// Fetches what was read.
    fn fetch(&mut self, drive: &Drive) {
        if let (Moving::Fetches(fetches), Bytes::Read(data)) = (&self.moving, &mut self.bytes)
            && !fetches.fetch(data)
        {
            let mut device = drive.lock();
            if self.fence.is_some_and(|fence| !fence.holds(&device)) {
                self.is_kept_out = true;
                return;
            }
            // the drive reports what is wrong
            let again = Command::Read { lpn: self.lpn, data };
            match device.issue(again, self.done_ns) {
                Ok(completion) => self.done_ns = completion.done_ns,
                Err(status) => self.failed = Some(status),
            }
        }
        self.moving = Moving::Nothing;
    }
}

impl Drive {
    /// Issues reads and writes in their order, as [`DeviceGuard::issue`] would. The data read are there when this returns, but the
    /// caller must hold each answer back until it is due.
    pub fn transfer(&self, transfers: &mut [Transfer<'_>], when: impl Into<When>) {
        let when = when.into();
        let mut drive = self.lock();
        let mut reserved = 0;
        for transfer in &mut *transfers {
            reserved += usize::from(transfer.reserve(&mut drive));
        }
        let mut is_filled = true;
        if reserved > 0 {
            drop(drive);
            for transfer in &mut *transfers {
                is_filled &= transfer.fill();
            }
            drive = self.lock();
        }
        for some in transfers.chunks_mut(PREFETCHED) {
            if some.len() > 1 {
                drive
                    .prefetch(some.iter().filter(|transfer| transfer.is_read()).map(|transfer| transfer.lpn));
            }
            for index in 0..some.len() {
                if let Some(next) = some.get(index + 1).filter(|next| next.is_read()) {
                    drive.prefetch_data(next.lpn);
                }
                some[index].issue(&mut drive, is_filled, when);
            }
        }
        drop(drive);
        for transfer in transfers {
            transfer.fetch(self);
        }
    }

    /// Reads units, as many as fit in `data`: [`Drive::perform`] of a [`Request::Read`](crate::Request::Read), for callers
    /// with a buffer. The data are there at once.
    pub fn read(&self, lpn: Lpn, data: &mut [u8], when: impl Into<When>) -> Result<Completion, Status> {
        self.transfer_one(Transfer::read(lpn, data), when)
    }

    /// Writes units: [`Drive::perform`] of a [`Request::Write`](crate::Request::Write), for callers that keep the data.
    pub fn write(
        &self,
        lpn: Lpn,
        data: &[u8],
        fua: bool,
        when: impl Into<When>,
    ) -> Result<Completion, Status> {
        self.transfer_one(Transfer::write(lpn, data, fua), when)
    }

    pub(crate) fn transfer_one(
        &self,
        transfer: Transfer<'_>,
        when: impl Into<When>,
    ) -> Result<Completion, Status> {
        let mut transfers = [transfer];
        self.transfer(&mut transfers, when);
        let [transfer] = transfers;
        transfer.ended()
    }
}
