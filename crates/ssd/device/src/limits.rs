//! The drive's limits for one step, and all checks of commands that do not need the drive's state.

use std::collections::BTreeSet;

use tantalum_ftl::{Handle, Lpn, ShareRange};
use tantalum_nand::UNIT_BYTES;

use crate::command::{Command, Operands};
use crate::effective::Effective;
use crate::engine::KeyValueLimits;
use crate::status::Status;

/// What the drive reports about itself (NVMe Identify).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Logical capacity in units.
    pub capacity_units: u64,
    /// Over-provisioning and geometry as they are: blocks are whole, and small drives have smaller ones.
    pub flash: Effective,
    /// Units in one atomic write or batch.
    pub atomic_units: u32,
    /// Units of the largest write that is all or nothing, wherever it lies.
    pub atomic_write_units: u32,
    /// Units in one `share` or `remap`.
    pub share_units: u32,
    /// Transactions open at once.
    pub open_transactions: u32,
    /// Units that all open transactions may hold together.
    pub transaction_units: u32,
    /// Hints that may live at once.
    pub hints: u32,
    /// Files that may have a list of what `fs_write` wrote; 0 if the drive keeps no lists.
    pub files: u32,
    /// Limits of keys and values.
    pub key_value: KeyValueLimits,
}

/// The limits that commands are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub capacity_units: u64,
    pub atomic_units: u32,
    /// 0 without placement.
    pub handles: u32,
}

impl Shape {
    /// Refuses a command that no drive of this shape can execute, whatever the drive contains.
    pub fn check(&self, command: &Command<'_>) -> Result<(), Status> {
        match command.operands() {
            Operands::Nothing => Ok(()),
            Operands::Range { lpn, units } => self.check_range(lpn, u64::from(units)),
            Operands::Units { lpn, bytes, handle } => {
                self.check_handle(handle)?;
                self.check_units(lpn, bytes)
            }
            Operands::Zoned { bytes } => check_whole(bytes),
            Operands::Unit { lpn, bytes } => self.check_one(lpn, bytes),
            Operands::Hinted { lpn, bytes, home } => {
                self.check_one(lpn, bytes)?;
                let Some(home) = home else { return Ok(()) };
                self.check_range(home, 1)?;
                match home == lpn {
                    true => Err(Status::InvalidField(format!("unit {lpn} cannot be its own home"))),
                    false => Ok(()),
                }
            }
            Operands::Shares(ranges) => self.check_ranges(ranges),
            Operands::Move { src, dst, units } => self.check_ranges(&[ShareRange { dst, src, units }]),
            Operands::Scattered(writes) => self.check_atomic(writes),
        }
    }

    pub fn check_range(&self, lpn: Lpn, units: u64) -> Result<(), Status> {
        let capacity_units = self.capacity_units;
        if u64::from(lpn.0) + units > capacity_units {
            return Err(Status::OutOfRange { lpn, units, capacity_units });
        }
        Ok(())
    }

    /// Refuses a handle that the drive does not have.
    #[inline]
    pub fn check_handle(&self, handle: Option<Handle>) -> Result<(), Status> {
        match handle {
            Some(handle) if u32::from(handle.0) >= self.handles => Err(self.no_handle(handle)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn no_handle(&self, handle: Handle) -> Status {
        Status::InvalidField(match self.handles {
            0 => format!("handle {handle}: the drive has no reclaim unit handles"),
            handles => format!("handle {handle}: the drive has reclaim unit handles 0 to {}", handles - 1),
        })
    }

    fn check_units(&self, lpn: Lpn, bytes: usize) -> Result<(), Status> {
        check_whole(bytes)?;
        self.check_range(lpn, (bytes / UNIT_BYTES) as u64)
    }

    fn check_one(&self, lpn: Lpn, bytes: usize) -> Result<(), Status> {
        if bytes != UNIT_BYTES {
            return Err(Status::DataLength { bytes, expected: "must be exactly one unit of 4096 bytes" });
        }
        self.check_range(lpn, 1)
    }

    fn check_ranges(&self, ranges: &[ShareRange]) -> Result<(), Status> {
        for range in ranges {
            self.check_range(range.src, u64::from(range.units))?;
            self.check_range(range.dst, u64::from(range.units))?;
        }
        Ok(())
    }

    fn check_atomic(&self, writes: &[(Lpn, &[u8])]) -> Result<(), Status> {
        let limit = self.atomic_units;
        if writes.len() > limit as usize {
            let asked = writes.len() as u64;
            return Err(Status::OverLimit { what: "units in an atomic write", asked, limit: limit.into() });
        }
        let mut seen = BTreeSet::new();
        for (lpn, data) in writes {
            self.check_one(*lpn, data.len())?;
            if !seen.insert(lpn) {
                return Err(Status::InvalidField(format!("unit {lpn} occurs twice in the atomic write")));
            }
        }
        Ok(())
    }
}

#[inline]
fn check_whole(bytes: usize) -> Result<(), Status> {
    if bytes == 0 || !bytes.is_multiple_of(UNIT_BYTES) {
        return Err(Status::DataLength { bytes, expected: "must be one or more whole units of 4096 bytes" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { capacity_units: 100, atomic_units: 4, handles: 2 };

    fn is_refused(command: &Command<'_>) -> bool {
        SHAPE.check(command).is_err()
    }

    fn write(lpn: u32, data: &[u8]) -> Command<'_> {
        Command::Write { lpn: Lpn(lpn), data, fua: false, handle: None }
    }

    #[test]
    fn data_are_whole_units_within_the_capacity() {
        let data = [0; 4 * UNIT_BYTES];
        assert!(!is_refused(&write(96, &data)));
        assert!(is_refused(&write(97, &data)), "one unit is beyond the end");
        assert!(is_refused(&write(0, &[])));
        assert!(is_refused(&write(0, &data[1..])));
        let one = |bytes| Command::TxWrite { tx: tantalum_ftl::TxId(1), lpn: Lpn(99), data: &data[..bytes] };
        assert!(!is_refused(&one(UNIT_BYTES)));
        assert!(is_refused(&one(2 * UNIT_BYTES)) && is_refused(&one(0)));
    }

    #[test]
    fn a_handle_that_the_drive_does_not_have_is_refused() {
        let (data, handles) = ([0; UNIT_BYTES], [None, Some(0), Some(1), Some(2), Some(255)]);
        let write = |handle: Option<u8>| Command::Write {
            lpn: Lpn(0),
            data: &data,
            fua: false,
            handle: handle.map(Handle),
        };
        assert_eq!(handles.map(|handle| is_refused(&write(handle))), [false, false, false, true, true]);
        let without = Shape { handles: 0, ..SHAPE };
        let refused = without.check(&write(Some(0)));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "invalid field in command: handle 0: the drive has no reclaim unit handles"
        );
        assert_eq!(without.check(&write(None)), Ok(()));
    }

    #[test]
    fn both_ends_of_a_share_are_within_the_capacity() {
        let share = |dst, src| {
            let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 2 }];
            is_refused(&Command::Share { ranges: &ranges, deferred: false })
        };
        assert!(!share(98, 0) && !share(0, 98));
        assert!(share(99, 0) && share(0, 99));
    }
}
