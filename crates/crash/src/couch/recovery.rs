//! Power comes back: the drive recovers, the volume is mounted, the store is opened, and what is there is held against what
//! is allowed. Now and then power goes once more on the way.

use tantalum::{Device, PowerLoss};
use tantalum_couch::{Store, VolumeStorage, Way};
use tantalum_volume::Volume;

use super::Broken;
use super::contents::Contents;
use super::session::{self, Expected};
use super::volume::CACHE_BYTES;
use crate::CrashOutcome;

/// One recovery in this many loses power again while the drive recovers, and as many while the store is opened.
const SECOND_CUT_ONE_IN: u64 = 3;

/// Flash operations after which a second cut comes, at most.
const SECOND_CUT_OPERATIONS: u64 = 6;

/// Times that power may fail in one recovery before something else must be wrong.
const ATTEMPTS: u32 = 4;

/// A store that is as it should be.
pub(super) struct Recovered {
    pub storage: VolumeStorage,
    pub store: Store<VolumeStorage>,
    pub contents: Contents,
}

/// Recovers from a cut, and checks.
pub(super) fn recover(
    storage: VolumeStorage,
    way: Way,
    expected: &Expected,
    loss: &mut PowerLoss,
    outcome: &mut CrashOutcome,
) -> Result<Recovered, Broken> {
    let mut storage = power_on(storage, loss, outcome, true)?;
    if loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
        let operations = 1 + loss.random() % SECOND_CUT_OPERATIONS;
        storage.volume().device().cut_after(Some(operations));
        let opened = open_and_read(&storage, way);
        let lost_power = !storage.volume().device().has_power();
        storage.volume().device().cut_after(None);
        match opened {
            Ok(recovered) if !lost_power => return checked(storage, recovered, expected, outcome),
            Err(broken) if !lost_power => return Err(broken),
            // the store is closed here: without power that does nothing
            _ => {}
        }
        outcome.second_cuts += 1;
        storage = power_on(storage, loss, outcome, false)?;
    }
    let opened = open_and_read(&storage, way)?;
    checked(storage, opened, expected, outcome)
}

fn checked(
    storage: VolumeStorage,
    (store, contents): (Store<VolumeStorage>, Contents),
    expected: &Expected,
    outcome: &mut CrashOutcome,
) -> Result<Recovered, Broken> {
    outcome.promises_checked += 1;
    expected.check(&contents)?;
    Ok(Recovered { storage, store, contents })
}

/// Brings power back and mounts the volume. The first recovery after a cut may be cut again, and is counted.
fn power_on(
    storage: VolumeStorage,
    loss: &mut PowerLoss,
    outcome: &mut CrashOutcome,
    first: bool,
) -> Result<VolumeStorage, Broken> {
    let volume = storage.into_volume().expect("nobody has the store open");
    let mut device = volume.into_client_without_sync().into_device().expect("nobody shares the drive");
    if first && loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
        device.cut_after(Some(1 + loss.random() % SECOND_CUT_OPERATIONS));
    }
    recover_drive(&mut device, loss, outcome, first)?;
    let volume = Volume::mount(device, CACHE_BYTES)
        .map_err(|error| Broken::new("the volume mounts", error.to_string()))?;
    Ok(VolumeStorage::new(volume))
}

fn recover_drive(
    device: &mut Device,
    loss: &mut PowerLoss,
    outcome: &mut CrashOutcome,
    counted: bool,
) -> Result<(), Broken> {
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        match device.power_on(loss) {
            Ok(report) if device.has_power() => {
                device.cut_after(None);
                outcome.torn_pages_seen += report.torn_pages;
                outcome.dirty_recoveries += u64::from(counted && !report.clean);
                return Ok(());
            }
            Ok(_) => reason = "power went at the end of recovery".to_owned(),
            Err(error) => reason = error.to_string(),
        }
        outcome.second_cuts += 1;
    }
    Err(Broken::new("the drive recovers", reason))
}

/// Opens the store and reads all of it.
fn open_and_read(storage: &VolumeStorage, way: Way) -> Result<(Store<VolumeStorage>, Contents), Broken> {
    let said = |error: tantalum_couch::Error| Broken::new("the store opens", error.to_string());
    let store = session::open(storage, way).map_err(said)?;
    let contents = Contents::read(&store.snapshot()).map_err(said)?;
    Ok((store, contents.map_err(|what| Broken::new("the store is intact", what))?))
}
