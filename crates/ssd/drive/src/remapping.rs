//! Turning the remapping of duplicates on and off, and writing through it.

use tantalum::{Command, Completion, Status, UNIT_BYTES};

use crate::drive::Drive;
use crate::duplicates::{DuplicateCounts, Duplicates, Write, write_command};
use crate::guard::{DeviceGuard, State};
use crate::when::When;

impl Drive {
    /// Whether writes that repeat a recent one become shares: those of [`DeviceGuard::issue_or_share`],
    /// [`Client::submit_or_share`](crate::Client::submit_or_share) and [`Request::Write`](crate::Request::Write). Off in
    /// a new drive.
    pub fn set_remap_duplicates(&self, on: bool) {
        let duplicates = &mut self.lock().state.duplicates;
        match on {
            true => drop(duplicates.get_or_insert_with(Box::<Duplicates>::default)),
            false => *duplicates = None,
        }
    }
}

impl DeviceGuard<'_> {
    /// What became of writes; zeros if duplicates are not remapped.
    pub fn duplicates(&self) -> DuplicateCounts {
        self.state.duplicates.as_ref().map_or_else(DuplicateCounts::default, |duplicates| duplicates.counts)
    }

    /// As [`DeviceGuard::issue`]; but if the drive remaps duplicates, units of a [`Command::Write`] or
    /// [`Command::WriteFilled`] that repeat a recent write become shares. If it fails, some units may have been written.
    pub fn issue_or_share(
        &mut self,
        command: Command<'_>,
        when: impl Into<When>,
    ) -> Result<Completion, Status> {
        let at_ns = self.start_ns(when);
        let State { device, duplicates: Some(duplicates), .. } = &mut *self.state else {
            return self.issue(command, at_ns);
        };
        let (lpn, data, fills, fua, handle) = match command {
            Command::Write { lpn, data, fua, handle } => (lpn, data, None, fua, handle),
            Command::WriteFilled { lpn, data, fills, handle } => (lpn, data, Some(fills), false, handle),
            other => return self.issue(other, at_ns),
        };
        let (units, rest) = data.as_chunks::<UNIT_BYTES>();
        let is_valid = rest.is_empty() && device.check_range(lpn, units.len() as u64).is_ok();
        if !is_valid || units.is_empty() {
            // The drive says what is wrong.
            return self.issue(write_command(lpn, data, fills, fua, handle), at_ns);
        }
        duplicates.write(device, Write { lpn, units, fills, fua, handle, at_ns })
    }
}
