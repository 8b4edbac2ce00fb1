//! A drive at a glance: what an observer asks for several times a second.
//!
//! Clients wait while the drive is held, so it is held only briefly: for some counters, for the copy of one histogram, for
//! [`PIECE`] blocks. Everything else is done without it. So the parts of a look may be from slightly different moments.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tantalum::{BlockId, BlockState, BlockUse, Counters, Kind, RecoveryReport, Usage};

use tantalum_drive::{DeviceGuard, Pacing, WeakDrive};

use crate::report::HandleReport;
use crate::zones::ZonesReport;

/// Blocks examined before others may have the drive again.
pub const PIECE: usize = 4096;

/// Characters that stand for a block in [`Look::blocks`].
pub const BLOCK_CHARACTERS: usize = 5;

/// Digits of base 64.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// A snapshot of the drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// The image.
    #[serde(with = "crate::path")]
    pub image: PathBuf,
    /// Whether programs see the drive's latencies; none if it is not known or does not apply.
    pub time: Option<Pacing>,
    /// The drive's profile.
    pub profile: String,
    /// How the flash is divided.
    pub shape: Shape,
    /// Logical capacity in units of 4 KiB.
    pub capacity_units: u64,
    /// The profile's rated erase cycles of a block.
    pub endurance_cycles: u32,
    /// Whether the drive has power.
    pub has_power: bool,
    /// Whether too few good blocks are left for writes.
    pub read_only: bool,
    /// Units that are mapped: written, and not trimmed since.
    pub mapped_units: u64,
    /// The drive's own time.
    pub device_ns: u64,
    /// Counters since the drive was created.
    pub counters: Counters,
    /// How busy the drive's parts were and how long commands waited, since the image was opened.
    pub usage: Usage,
    /// What the last recovery did.
    pub recovery: RecoveryReport,
    /// Latencies of commands in device time, since the image was opened.
    pub latency: LatencyCounts,
    /// Every block, in the order of their numbers, each as [`BLOCK_CHARACTERS`] characters: a letter for its use (`f`ree,
    /// `o`pen, `c`losed, `j`ournal, check`p`oint, `d`ump, `z`one, `b`ad); then in base-64 digits (`0-9A-Za-z-_`) one for the
    /// share in use, where 0 is nothing and 63 everything, and three for the erase count. Empty once there is no drive to
    /// look at, because its power has failed for good.
    pub blocks: String,
    /// Its reclaim unit handles; empty without power, and on a drive without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<HandleReport>,
    /// Its zones; none without power, and on a drive without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZonesReport>,
    /// The longest time for which the drive was held, on this machine's clock.
    pub longest_hold_ns: u64,
}

/// How the flash is divided. Blocks are numbered plane by plane; planes go round the dies, and dies round the channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Channels.
    pub channels: u32,
    /// Dies of all channels.
    pub dies: u32,
    /// Planes in each die.
    pub planes_per_die: u32,
    /// Blocks in each plane.
    pub blocks_per_plane: u32,
    /// Units in each block.
    pub units_per_block: u32,
}

/// Histograms of commands' latencies, by kind: pairs of nanoseconds and a count, in ascending order. Two looks give the
/// percentiles of the time between them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// Reads.
    pub read: Vec<(u64, u64)>,
    /// Writes.
    pub write: Vec<(u64, u64)>,
    /// Flushes.
    pub flush: Vec<(u64, u64)>,
    /// Share, trim, atomic writes, commits.
    pub map: Vec<(u64, u64)>,
    /// Puts and deletes of records.
    pub put: Vec<(u64, u64)>,
    /// Reads of records.
    pub get: Vec<(u64, u64)>,
}

/// Looks at a drive, and measures how long it was held.
struct Glance<'a> {
    drive: &'a WeakDrive,
    longest_hold_ns: u64,
}

impl Look {
    /// The drive now; the caller supplies `image` and how it is used. `None` if nobody has the drive any more.
    pub fn at(drive: &WeakDrive, image: PathBuf, time: Option<Pacing>) -> Option<Look> {
        let mut glance = Glance { drive, longest_hold_ns: 0 };
        let mut look = glance.hold(|device| without_blocks(device, image, time))?;
        let units_per_block = look.shape.units_per_block;
        look.blocks.reserve(BLOCK_CHARACTERS * (look.shape.blocks() as usize));
        glance.each_piece(|states| {
            for state in states {
                look.blocks.extend(characters(state, units_per_block).map(char::from));
            }
        })?;
        look.latency = LatencyCounts {
            read: glance.latencies(Kind::Read)?,
            write: glance.latencies(Kind::Write)?,
            flush: glance.latencies(Kind::Flush)?,
            map: glance.latencies(Kind::Map)?,
            put: glance.latencies(Kind::Put)?,
            get: glance.latencies(Kind::Get)?,
        };
        look.longest_hold_ns = glance.longest_hold_ns;
        Some(look)
    }
}

impl Shape {
    /// Blocks of the drive.
    pub fn blocks(&self) -> u32 {
        self.dies * self.planes_per_die * self.blocks_per_plane
    }
}

impl Glance<'_> {
    fn hold<T>(&mut self, look: impl FnOnce(&DeviceGuard<'_>) -> T) -> Option<T> {
        self.drive.with(|device| {
            let begun = Instant::now();
            let seen = look(device);
            self.longest_hold_ns = self.longest_hold_ns.max(begun.elapsed().as_nanos() as u64);
            seen
        })
    }

    /// Shows all blocks, [`PIECE`] at a time; meanwhile others may have the drive. None if it is gone.
    fn each_piece(&mut self, mut show: impl FnMut(&[BlockState])) -> Option<()> {
        let mut states = [BlockState::default(); PIECE];
        let mut first = 0;
        loop {
            let count = self.hold(|device| device.block_states(BlockId(first), &mut states))?;
            show(&states[..count]);
            first += count as u32;
            if count < PIECE {
                return Some(());
            }
        }
    }

    fn latencies(&mut self, kind: Kind) -> Option<Vec<(u64, u64)>> {
        let copy = self.hold(|device| {
            let histogram = device.latencies().of(kind);
            (!histogram.is_empty()).then(|| histogram.clone())
        })?;
        Some(copy.map_or_else(Vec::new, |copy| {
            let recorded = copy.iter_recorded();
            recorded.map(|value| (value.value_iterated_to(), value.count_since_last_iteration())).collect()
        }))
    }
}

fn without_blocks(device: &DeviceGuard<'_>, image: PathBuf, time: Option<Pacing>) -> Look {
    let profile = device.profile();
    let shape = profile.geometry().map(|geometry| Shape {
        channels: geometry.channels,
        dies: geometry.dies(),
        planes_per_die: geometry.planes_per_die,
        blocks_per_plane: geometry.blocks_per_plane,
        units_per_block: geometry.units_per_block(),
    });
    Look {
        image,
        time,
        profile: profile.name.clone(),
        shape: shape.expect("the drive was made with it"),
        capacity_units: device.limits().capacity_units,
        endurance_cycles: profile.flash.endurance_cycles,
        has_power: device.has_power(),
        read_only: device.is_read_only(),
        mapped_units: device.mapped_units(),
        device_ns: device.time_ns(),
        counters: device.counters(),
        usage: device.usage(),
        recovery: *device.recovery(),
        latency: LatencyCounts::default(),
        blocks: String::new(),
        handles: HandleReport::all(device),
        zones: ZonesReport::of(device),
        longest_hold_ns: 0,
    }
}

/// A block as [`Look::blocks`] has it. A block that is used a little never looks unused.
fn characters(state: &BlockState, units_per_block: u32) -> [u8; BLOCK_CHARACTERS] {
    let digit = |value: u32| DIGITS[(value & 63) as usize];
    let used = match state.block_use {
        BlockUse::Free => b'f',
        BlockUse::Open => b'o',
        BlockUse::Closed => b'c',
        BlockUse::Journal => b'j',
        BlockUse::Checkpoint => b'p',
        BlockUse::Dump => b'd',
        BlockUse::Zone => b'z',
        BlockUse::Bad => b'b',
    };
    let share = u64::from(state.valid_units) * 63;
    let share = share.div_ceil(u64::from(units_per_block.max(1))).min(63) as u32;
    let erases = state.erases.min((1 << 18) - 1);
    [used, digit(share), digit(erases >> 12), digit(erases >> 6), digit(erases)]
}

#[cfg(test)]
mod tests {
    use tantalum::{Command, Device, Lpn, Profile, UNIT_BYTES};

    use super::*;
    use tantalum_drive::Drive;

    fn profile(capacity_bytes: u64) -> Profile {
        Profile { capacity_bytes, ..Profile::load("openssd-barefoot").unwrap() }
    }

    fn look(drive: &Drive) -> Look {
        Look::at(&drive.downgrade(), PathBuf::from("drive.tant"), Some(Pacing::None)).unwrap()
    }

    #[test]
    fn a_block_is_five_characters() {
        let state = |block_use, valid_units, erases| BlockState { block_use, valid_units, erases };
        let text = |state| String::from_utf8(characters(&state, 256).to_vec()).unwrap();
        assert_eq!(text(state(BlockUse::Free, 0, 0)), "f0000");
        assert_eq!(text(state(BlockUse::Open, 1, 1)), "o1001");
        assert_eq!(text(state(BlockUse::Closed, 256, 64 * 64 + 63)), "c_10_");
        assert_eq!(text(state(BlockUse::Journal, 0, 10)), "j000A");
        assert_eq!(text(state(BlockUse::Checkpoint, 0, u32::MAX)), "p0___");
        assert_eq!(text(state(BlockUse::Dump, 0, 1)), "d0001");
        assert_eq!(text(state(BlockUse::Zone, 128, 1)), "zW001");
        assert_eq!(text(state(BlockUse::Bad, 128, 36)), "bW00a");
    }

    #[test]
    fn a_look_shows_what_the_drive_did() {
        let drive = Drive::new(Device::in_memory(&profile(64 << 20)).unwrap());
        let mut client = drive.client();
        let before = look(&drive);
        for lpn in 0..300 {
            let data = [lpn as u8; UNIT_BYTES];
            client.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None }).unwrap();
        }
        client.submit(Command::Flush).unwrap();
        let after = look(&drive);
        assert_eq!(after.blocks.len(), BLOCK_CHARACTERS * after.shape.blocks() as usize);
        assert_ne!(after.blocks, before.blocks);
        assert!(after.blocks.as_bytes().chunks(BLOCK_CHARACTERS).any(|block| block[0] == b'o'));
        assert_eq!(after.counters.since(&before.counters).host_units_written, 300);
        let total = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!((total(&after.latency.write), total(&after.latency.flush)), (300, 1));
        assert!(after.latency.write.is_sorted_by_key(|(ns, _)| *ns));
        assert_eq!(after.mapped_units, 300);
        let text = serde_json::to_string(&after).unwrap();
        assert_eq!(serde_json::from_str::<Look>(&text).unwrap(), after);
    }

    /// The drive asserts that no thread asks for it while holding it.
    #[test]
    fn between_two_pieces_others_have_the_drive() {
        let mut profile = profile(1 << 30);
        // many small blocks
        profile.flash.pages_per_block = 8;
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let blocks = look(&drive).shape.blocks() as usize;
        assert!(blocks > 2 * PIECE, "{blocks} blocks are too few to test this");
        let (weak, mut sizes) = (drive.downgrade(), Vec::new());
        let mut glance = Glance { drive: &weak, longest_hold_ns: 0 };
        glance.each_piece(|states| sizes.push(drive.lock().has_power().then_some(states.len()))).unwrap();
        assert_eq!(sizes.iter().flatten().sum::<usize>(), blocks);
        assert!(sizes.iter().flatten().all(|size| *size <= PIECE), "{sizes:?}");
    }

    #[test]
    fn a_drive_without_power_can_be_looked_at_until_it_is_settled() {
        let drive = Drive::new(Device::in_memory(&profile(64 << 20)).unwrap());
        let whole = look(&drive).blocks;
        let now_ns = drive.lock().time_ns();
        drive.lock().cut_power(now_ns);
        let cut = look(&drive);
        assert!(!cut.has_power && cut.blocks == whole);
        drive.lock().settle_power_loss(&mut tantalum::PowerLoss::seeded(1)).unwrap();
        let settled = look(&drive);
        assert!(!settled.has_power && settled.blocks.is_empty());
    }
}
