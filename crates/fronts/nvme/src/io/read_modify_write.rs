//! Parts of units: a read-modify-write while nobody else has the drive, so that no other command comes in between and no
//! unit is torn.

use tantalum::{Command, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_drive::{DeviceGuard, When};

use crate::blocks::Units;
use crate::failure::Failure;

/// Fills in what the units hold before and after the blocks to be written.
pub fn surround(
    device: &mut DeviceGuard<'_>,
    when: When,
    units: Units,
    buffer: &mut [u8],
) -> Result<Nanoseconds, Failure> {
    let mut unit = [0; UNIT_BYTES];
    let mut done_ns = 0;
    let end = buffer.len();
    assert_eq!(end, units.bytes(), "a buffer surrounds {units:?}");
    assert!(units.before + units.after < end, "nothing of {units:?} is written");
    if units.before > 0 {
        done_ns = device.issue(Command::Read { lpn: units.first, data: &mut unit }, when)?.done_ns;
        buffer[..units.before].copy_from_slice(&unit[..units.before]);
    }
    if units.after > 0 {
        // a single unit may have been read already
        if units.before == 0 || units.count > 1 {
            let lpn = Lpn(units.first.0 + units.count - 1);
            let completion = device.issue(Command::Read { lpn, data: &mut unit }, when)?;
            done_ns = done_ns.max(completion.done_ns);
        }
        buffer[end - units.after..].copy_from_slice(&unit[UNIT_BYTES - units.after..]);
    }
    Ok(done_ns)
}
