//! Rights to a part of a drive that may be withdrawn while commands are on their way.
//!
//! Whoever divides a drive among clients counts, for each part, how often it has changed hands. A command carries the count of
//! the time when it was checked, and is compared with the present one when the drive is locked for it. The count changes only
//! while its owner has the lock ([`Fences::withdraw`]), so a command either comes before the change or does not reach the drive.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::guard::DeviceGuard;

/// How often a part of the drive has changed hands.
#[derive(Debug, Default)]
pub struct Fences(AtomicU64);

impl Fences {
    /// A right to the part for as long as it does not change hands again.
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The part changes hands: earlier rights to it end. The guard shows that no command is under way.
    pub fn withdraw(&self, device: &DeviceGuard<'_>) {
        self.withdraw_by(device, 1);
    }

    /// The same, and the count grows by `step`: its digits can tell apart what has changed.
    pub fn withdraw_by(&self, _device: &DeviceGuard<'_>, step: u64) {
        self.0.fetch_add(step, Ordering::Release);
    }
}

/// A right to a part of the drive, to be checked while the drive is locked.
#[derive(Clone, Copy, Debug)]
pub struct Fence<'a> {
    fences: &'a Fences,
    then: u64,
}

impl<'a> Fence<'a> {
    /// The right that [`Fences::current`] gave.
    pub fn new(fences: &'a Fences, then: u64) -> Fence<'a> {
        Fence { fences, then }
    }

    /// Whether it still holds.
    #[inline]
    pub fn holds(&self, _device: &DeviceGuard<'_>) -> bool {
        self.fences.0.load(Ordering::Relaxed) == self.then
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Lpn, Profile, UNIT_BYTES};

    use super::*;
    use crate::{Drive, Transfer};

    #[test]
    fn what_was_checked_before_a_part_changed_hands_does_not_reach_the_drive() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let fences = Fences::default();
        let (before, data) = (Fence::new(&fences, fences.current()), [7; UNIT_BYTES]);
        let mut read = [1; UNIT_BYTES];
        fences.withdraw(&drive.lock());
        let after = Fence::new(&fences, fences.current());
        let mut transfers = [
            Transfer::write(Lpn(1), &data, false).within(before),
            Transfer::read(Lpn(1), &mut read).within(before),
            Transfer::write(Lpn(2), &data, false).within(after),
        ];
        drive.transfer(&mut transfers, 0);
        assert_eq!(transfers.each_ref().map(Transfer::was_kept_out), [true, true, false]);
        assert_eq!(read, [1; UNIT_BYTES]);
        let device = drive.lock();
        assert!(!device.is_mapped(Lpn(1)) && device.is_mapped(Lpn(2)));
        assert!(!before.holds(&device) && after.holds(&device));
        assert_eq!(device.stray_buffers(), 0, "what was filled for it is free again");
    }

    /// The buffer of a write in the image was filled before its namespace was sanitized, and was free again afterwards, with the data.
    #[test]
    fn data_of_a_write_that_was_kept_out_do_not_stay_in_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.tant");
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let drive = Drive::new(Device::create(&path, &profile).unwrap());
        let fences = Fences::default();
        let old = b"what-must-be-gone".repeat(300);
        let count = || std::fs::read(&path).unwrap().windows(17).filter(|found| *found == &old[..17]).count();
        let before = Fence::new(&fences, fences.current());
        let write = |fence| {
            let mut transfers = [Transfer::write(Lpn(1), &old[..UNIT_BYTES], false).within(fence)];
            drive.transfer(&mut transfers, 0);
            transfers[0].was_kept_out()
        };
        assert!(!write(before) && count() > 200, "the image has what was written");
        drive.lock().issue(tantalum::Command::Trim { lpn: Lpn(1), units: 1 }, crate::When::AfterAll).unwrap();
        drive.lock().issue(tantalum::Command::Flush, crate::When::AfterAll).unwrap();
        fences.withdraw(&drive.lock());
        let mut device = drive.lock();
        let at_ns = device.time_ns().max(device.issued_ns());
        assert_eq!(device.purge(at_ns), Ok(0));
        drop(device);
        assert_eq!(count(), 0);
        assert!(write(before));
        assert_eq!((count(), drive.lock().stray_buffers()), (0, 0));
    }
}
