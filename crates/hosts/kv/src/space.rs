//! Space of the host's disk that the store does not need: how much of it stays, and how the rest goes back.
//!
//! What is overwritten or deleted takes space until the drive erases its block. Between commits the store asks the drive for a
//! small step, so that no commit waits long; without any garbage worth a step this costs next to nothing. It is asked where the
//! image is synced: the drive knows what survives the loss of the machine, and gives back nothing that may still be needed.

use tantalum::{Device, GivenBack, Portion, Slack, Status};

/// Garbage that stays, in percent of what is in use: less would have to be moved ever more often.
const GARBAGE_PERCENT: u32 = 25;

/// Beside that, this share of the drive stays, up to a limit.
const LEAST_SHARE: u64 = 64;
const LEAST_UNITS: u64 = 1024;

/// What is done between two commits.
const BETWEEN_COMMITS: Portion = Portion { blocks: 2, holes: 16 };

/// What is done at once while others wait only for that.
const AT_ONCE: Portion = Portion { blocks: 16, holes: 1024 };

/// Nothing that nobody needs stays.
const NONE: Slack = Slack { garbage_percent: 0, units: 0 };

/// What may stay.
fn usual(device: &Device) -> Slack {
    let units = (device.profile().capacity_units() / LEAST_SHARE).min(LEAST_UNITS);
    Slack { garbage_percent: GARBAGE_PERCENT, units: units as u32 }
}

/// A step between two commits.
pub(crate) fn tidy(device: &mut Device) -> Result<GivenBack, Status> {
    let (slack, at_ns) = (usual(device), device.issued_ns());
    // clients that run in the drive's time go on from there
    device.give_space_back(slack, BETWEEN_COMMITS, at_ns)
}

/// A step towards giving back everything. What it erases is durable with the next sync.
pub(crate) fn compact(device: &mut Device) -> Result<GivenBack, Status> {
    at_once(device, NONE)
}

/// After the last commit: what is due, and what waits for syncs. No sync may be under way.
pub(crate) fn leave(device: &mut Device) -> Result<(), Status> {
    let slack = usual(device);
    finish(device, slack)
}

/// After the last step of [`compact`]: what waits for syncs. No sync may be under way.
pub(crate) fn finish_compacting(device: &mut Device) -> Result<(), Status> {
    finish(device, NONE)
}

fn finish(device: &mut Device, slack: Slack) -> Result<(), Status> {
    all_at_once(device, slack)?;
    // the erases are over when the next step begins
    if at_once(device, slack)?.waits {
        device.sync_in_place()?;
        all_at_once(device, slack)?;
    }
    Ok(())
}

fn all_at_once(device: &mut Device, slack: Slack) -> Result<(), Status> {
    in_steps(most_steps(device), || at_once(device, slack))
}

/// Goes on while there is more to do, for so many steps at most.
pub(crate) fn in_steps<E>(most: u32, mut step: impl FnMut() -> Result<GivenBack, E>) -> Result<(), E> {
    for _ in 0..most {
        if !step()?.has_more {
            break;
        }
    }
    Ok(())
}

/// So many steps empty and erase each block of the drive twice: more of them come to no end, because others write meanwhile.
pub(crate) fn most_steps(device: &Device) -> u32 {
    2 * device.profile().geometry().expect("the drive has one").blocks().div_ceil(AT_ONCE.blocks)
}

fn at_once(device: &mut Device, slack: Slack) -> Result<GivenBack, Status> {
    device.give_space_back(slack, AT_ONCE, device.time_ns())
}
