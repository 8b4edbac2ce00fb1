//! Power comes back: the drive recovers, the volume is mounted, the program opens its files, and their contents are checked
//! against the allowed states. Occasionally power is cut again meanwhile.

use tantalum::{Device, PowerLoss};

use super::drive_in_use::DriveInUse;
use super::run_end::Broken;
use super::test_bed::TestBed;
use super::under_test::Program;
use crate::CrashOutcome;

/// One recovery in this many loses power again while the drive recovers, and the same share while the program does.
const SECOND_CUT_ONE_IN: u64 = 3;

/// How often power may fail in one recovery before something else must be wrong.
const ATTEMPTS: u32 = 4;

/// The recovery from one cut.
pub(super) struct Recovery<'a, P> {
    pub program: P,
    /// The seed of what the program sets up again.
    pub seed: u64,
    /// Decides the outcome of operations in flight, and when power is lost again.
    pub loss: &'a mut PowerLoss,
    pub outcome: &'a mut CrashOutcome,
}

impl<P: Program> Recovery<'_, P> {
    /// Recovers, and checks.
    pub fn recover(
        &mut self,
        place: P::DriveInUse,
        expected: &P::Expected,
    ) -> Result<(P::DriveInUse, P::Opened), Broken> {
        let mut place = self.power_on(place, true)?;
        if self.loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
            place.cut_after(Some(1 + self.loss.random() % P::SECOND_CUT_OPERATIONS));
            let opened = self.program.open_again(&place);
            let lost_power = !place.has_power();
            place.cut_after(None);
            match opened {
                Ok(opened) if !lost_power => return self.checked(place, opened, expected),
                Err(broken) if !lost_power => return Err(broken),
                // Everything open is closed here: without power this does not affect the drive.
                _ => {}
            }
            self.outcome.second_cuts += 1;
            place = self.power_on(place, false)?;
        }
        let opened = self.program.open_again(&place)?;
        self.checked(place, opened, expected)
    }

    fn checked(
        &mut self,
        place: P::DriveInUse,
        opened: P::Opened,
        expected: &P::Expected,
    ) -> Result<(P::DriveInUse, P::Opened), Broken> {
        self.outcome.promises_checked += P::PROMISES;
        P::check(expected, &opened)?;
        Ok((place, opened))
    }

    /// Turns power on and mounts the volume. The first recovery after a cut may be cut again, which is counted.
    fn power_on(&mut self, place: P::DriveInUse, first: bool) -> Result<P::DriveInUse, Broken> {
        let mut device = P::give_back(place)?.into_device();
        if first && self.loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
            device.cut_after(Some(1 + self.loss.random() % P::SECOND_CUT_OPERATIONS));
        }
        self.recover_drive(&mut device, first)?;
        Ok(self.program.take(P::TestBed::from_device(device, P::CACHE_BYTES)?, self.seed))
    }

    fn recover_drive(&mut self, device: &mut Device, counted: bool) -> Result<(), Broken> {
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            match device.power_on(self.loss) {
                Ok(report) if device.has_power() => {
                    device.cut_after(None);
                    self.outcome.torn_pages_seen += report.torn_pages;
                    self.outcome.dirty_recoveries += u64::from(counted && !report.clean);
                    return Ok(());
                }
                Ok(_) => reason = "power went at the end of recovery".to_owned(),
                Err(error) => reason = error.to_string(),
            }
            self.outcome.second_cuts += 1;
        }
        Err(Broken::new("the drive recovers", reason))
    }
}
