//! Moving the live units of a segment.

use tantalum::ShareRange;
use tantalum_canaries::guard;

use crate::bytes::zeros;
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::{MovedPlace, Owner, Purpose, Resident};
use crate::segments::State;
use crate::superblock::Cleaning;

/// A unit that the drive is to move.
struct Move {
    resident: Resident,
    to: MovedPlace,
}

impl LogFs {
    /// Moves residents of a segment that are still live there.
    pub(super) fn move_all(&mut self, residents: &[Resident], is_late: bool) -> Result<()> {
        let limit = self.log.client.device().limits().share_units.max(1) as usize;
        let (mut moves, mut copies) = (Vec::new(), Vec::new());
        let mut most = 0;
        for resident in residents {
            // It may have been rewritten elsewhere or given up since.
            let lives =
                guard!(StaleMove(self, resident, is_late)?, self.index.lives_at(&mut self.log, resident)?);
            if !lives {
                continue;
            }
            if self.is_written_anyway(resident, &mut moves)? {
                continue;
            }
            match self.superblock.cleaning {
                Cleaning::Copy => copies.push(*resident),
                Cleaning::Remap => {
                    if moves.is_empty() {
                        most = limit.min(self.index.moves_at_once(&mut self.log)?);
                        assert!(most > 0, "the index has no place for unit {} to be moved to", resident.lpn);
                    }
                    let to = self.index.place_for(&mut self.log, resident.owner)?;
                    self.assert_place(resident, to);
                    moves.push(Move { resident: *resident, to });
                    if moves.len() == most {
                        self.remap(&std::mem::take(&mut moves))?;
                    }
                }
            }
        }
        self.copy_all(&copies)?;
        self.remap(&moves)
    }

    /// Checks that a unit moves to another place, where a log head writes.
    fn assert_place(&self, resident: &Resident, to: MovedPlace) {
        assert_ne!(resident.lpn, to.lpn, "{resident:?} moves to where it is");
        let segments = &self.log.segments;
        let state = segments.find(to.lpn).map(|segment| segments.get(segment).state);
        assert_eq!(state, Some(State::Open), "{resident:?} moves to {}", to.lpn);
    }

    /// Checks that contents in memory are no newer than what is moved or copied (hazard 18).
    fn assert_clean(&self, resident: &Resident) {
        if let Owner::Content { file, unit } = resident.owner {
            assert!(!self.pages.is_dirty((file, unit)), "{resident:?} is moved, but is newer in memory");
        }
    }

    /// Units that differ in memory are written from there: contents now, units of the index with the checkpoint.
    fn is_written_anyway(&mut self, resident: &Resident, moves: &mut Vec<Move>) -> Result<bool> {
        match resident.owner {
            Owner::Content { file, unit } if self.pages.is_dirty((file, unit)) => {
                // Nothing is appended while assigned places are empty.
                self.remap(&std::mem::take(moves))?;
                self.write_back_page(file, unit, false)?;
                Ok(true)
            }
            Owner::Content { .. } => Ok(false),
            Owner::Index(unit) => Ok(self.index.is_changed(unit)),
        }
    }

    /// Reads the units that are not in memory, all at once, and appends them.
    fn copy_all(&mut self, residents: &[Resident]) -> Result<()> {
        let mut contents = Vec::new();
        let mut read_ns = self.log.client.now_ns();
        for resident in residents {
            self.assert_clean(resident);
            self.cleaned.copied_units += 1;
            match resident.owner {
                Owner::Index(unit) => self.index.rewrite(&mut self.log, unit)?,
                Owner::Content { file, unit } => {
                    let mut page = zeros();
                    match self.pages.find((file, unit)) {
                        Some(frame) => *page = *self.pages.data(frame),
                        None => {
                            read_ns = read_ns.max(self.log.read_queued(resident.lpn, &mut page[..], None)?)
                        }
                    }
                    contents.push((file, unit, page));
                }
            }
        }
        self.log.client.wait_until(read_ns);
        contents.iter().try_for_each(|(file, unit, page)| {
            self.index.append(&mut self.log, Purpose::MovedContent, *file, *unit, page)
        })
    }

    /// Lets the drive map new places to the same flash. Units that it refuses to map are copied there.
    fn remap(&mut self, moves: &[Move]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        moves.iter().for_each(|one| self.assert_clean(&one.resident));
        let most = self.log.client.device().limits().share_units.max(1) as usize;
        assert!(moves.len() <= most, "{} units move at once, and the drive takes {most}", moves.len());
        let is_shared = self.log.share(&ranges(moves))?;
        self.since.is_share_refused |= !is_shared;
        for one in moves {
            if is_shared {
                self.cleaned.remapped_units += 1;
            } else {
                let mut page = zeros();
                self.log.read(one.resident.lpn, &mut page[..])?;
                self.log.fill(one.to.head, one.to.lpn, &page)?;
                match one.resident.owner {
                    Owner::Content { .. } => self.log.written.contents += 1,
                    Owner::Index(_) => self.log.written.nodes += 1,
                }
                self.cleaned.copied_units += 1;
            }
            self.index.moved(&mut self.log, one.resident.owner, one.to.lpn)?;
        }
        Ok(())
    }
}

/// Adjacent units that go to adjacent places are one range.
fn ranges(moves: &[Move]) -> Vec<ShareRange> {
    let mut ranges: Vec<ShareRange> = Vec::new();
    for one in moves {
        let (src, dst) = (one.resident.lpn, one.to.lpn);
        let follows = |range: &&mut ShareRange| {
            range.src.0 + range.units == src.0 && range.dst.0 + range.units == dst.0
        };
        match ranges.last_mut().filter(follows) {
            Some(range) => range.units += 1,
            None => ranges.push(ShareRange { dst, src, units: 1 }),
        }
    }
    let units: u32 = ranges.iter().map(|range| range.units).sum();
    assert_eq!(units as usize, moves.len(), "the ranges have other units than the moves: {ranges:?}");
    ranges
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};
    use tantalum_drive::Drive;
    use tantalum_filesystem::{Content, FileId, FileKind, Names, NewFile, Timestamp};

    use super::*;
    use crate::superblock::LfsKind;

    const UNIT: u64 = tantalum::UNIT_BYTES as u64;

    /// A file system with a file of three segments, which holds 1.
    fn with_file(kind: LfsKind, cleaning: Cleaning) -> (LogFs, FileId) {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let mut fs = LogFs::format(drive.client(), kind, cleaning, 32 << 20).unwrap();
        let now = Timestamp { seconds: 1, nanoseconds: 2 };
        let (kind, device_number) = (FileKind::File, 0);
        let new = NewFile { kind, permissions: 0o600, owner: 0, group: 0, device_number, now };
        let file = fs.create_in(FileId::ROOT, b"file", &new).unwrap();
        let units = 3 * u64::from(fs.log.segments.units());
        fs.write(file, 0, &vec![1; (units * UNIT) as usize]).unwrap();
        fs.sync_folder(FileId::ROOT).unwrap();
        fs.sync(file).unwrap();
        (fs, file)
    }

    /// The units of the file in the segment that holds the most of them.
    fn residents_of(fs: &mut LogFs, file: FileId) -> Vec<Resident> {
        let is_of_file = |one: &Resident| matches!(one.owner, Owner::Content { file: of, .. } if of == file);
        let segments = fs.log.segments.count();
        let of_segment = |segment| {
            let residents = fs.index.residents(&mut fs.log, segment).unwrap();
            residents.into_iter().filter(is_of_file).collect::<Vec<_>>()
        };
        (0..segments).map(of_segment).max_by_key(Vec::len).unwrap()
    }

    fn unit_of(resident: &Resident) -> u32 {
        match resident.owner {
            Owner::Content { unit, .. } => unit,
            Owner::Index(unit) => panic!("{unit} is a unit of the index"),
        }
    }

    /// Hazard 18, its other half. A move of what a dirty page replaces costs a write or an owner for nothing, and a copy
    /// would take what is in memory, which no sync has asked for yet. Nothing is lost then, so no random test noticed.
    #[test]
    fn a_page_that_is_dirty_is_written_and_not_moved() {
        for kind in [LfsKind::Nat, LfsKind::Tree] {
            for cleaning in [Cleaning::Copy, Cleaning::Remap] {
                let (mut fs, file) = with_file(kind, cleaning);
                let residents = residents_of(&mut fs, file);
                assert!(
                    residents.len() as u32 > fs.log.segments.units() / 2,
                    "{kind:?}: {}",
                    residents.len()
                );
                let dirty: Vec<u32> = residents.iter().step_by(2).map(unit_of).collect();
                for unit in &dirty {
                    fs.write(file, u64::from(*unit) * UNIT, &[2; UNIT as usize]).unwrap();
                }
                let (written, before) = (fs.log.written.contents, fs.cleaned);
                fs.move_all(&residents, false).unwrap();
                assert!(!dirty.iter().any(|unit| fs.pages.is_dirty((file, *unit))), "they are written");
                fs.sync(file).unwrap();
                let copied = fs.cleaned.copied_units - before.copied_units;
                let moved = copied + fs.cleaned.remapped_units - before.remapped_units;
                assert_eq!(
                    moved,
                    (residents.len() - dirty.len()) as u64,
                    "{kind:?}, {cleaning:?}: the clean ones"
                );
                assert_eq!(
                    fs.log.written.contents - written,
                    dirty.len() as u64 + copied,
                    "{kind:?}, {cleaning:?}"
                );
                for unit in residents.iter().map(unit_of) {
                    let mut data = [9];
                    fs.read(file, u64::from(unit) * UNIT, &mut data, None).unwrap();
                    assert_eq!(
                        data[0],
                        1 + u8::from(dirty.contains(&unit)),
                        "{kind:?}, {cleaning:?}: unit {unit}"
                    );
                }
            }
        }
    }
}
