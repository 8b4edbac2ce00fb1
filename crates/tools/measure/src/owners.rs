//! The owners of the units that a replay writes.

use std::collections::HashMap;

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;
use tantalum_record::operation::FileNumber;
use tantalum_volume::Volume;

use crate::tap::Tap;

/// A range longer than this is not followed beyond its first hole: programs reserve more than they use.
const LONG_BYTES: u64 = 1 << 30;

/// Units that went to the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// By path, as in the tally.
    pub by_path: HashMap<usize, u64>,
    /// Units of the file system itself.
    pub metadata: u64,
    /// How often each unit of a file was written.
    pub times: HashMap<(FileNumber, u32), u32>,
}

/// The places of files' units.
#[derive(Debug)]
pub(crate) struct Owners {
    tap: Tap,
    /// The file, its number on the volume, and the unit there.
    of: HashMap<Lpn, (FileNumber, FileId, u32)>,
}

impl Owners {
    /// The owners on a volume whose writes pass `tap`.
    pub fn new(tap: Tap) -> Owners {
        Owners { tap, of: HashMap::new() }
    }

    /// Records where the units of a file's range are.
    pub fn note(&mut self, volume: &Volume, (file, id): (FileNumber, FileId), offset: u64, bytes: u64) {
        let unit = UNIT_BYTES as u64;
        let units = offset / unit..offset.saturating_add(bytes).div_ceil(unit).min(u64::from(u32::MAX));
        for unit in units {
            match volume.lpn(id, unit) {
                Some(lpn) => drop(self.of.insert(lpn, (file, id, unit as u32))),
                None if bytes > LONG_BYTES => return,
                None => {}
            }
        }
    }

    /// Adds what was written since the last call, if it is measured. A unit that belongs to no file, or no longer does, is
    /// the file system's.
    pub fn take(
        &self,
        volume: &Volume,
        path_of: impl Fn(FileNumber) -> Option<usize>,
        mut written: Option<&mut Written>,
    ) {
        self.tap.take(|lpn| {
            let Some(written) = &mut written else { return };
            let is_there =
                |(_, id, unit): &(FileNumber, FileId, u32)| volume.lpn(*id, u64::from(*unit)) == Some(lpn);
            let owner = self.of.get(&lpn).filter(|owner| is_there(owner));
            match owner.and_then(|(file, _, unit)| Some((path_of(*file)?, *file, *unit))) {
                Some((path, file, unit)) => {
                    *written.by_path.entry(path).or_default() += 1;
                    *written.times.entry((file, unit)).or_default() += 1;
                }
                None => written.metadata += 1,
            }
        });
    }
}
