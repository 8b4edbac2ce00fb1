//! Random operations on a tree of files against a model in memory, through remounts, crashes of the host, and power
//! cuts; with many writes that repeat others, which become shares in half of the runs.
//!
//! `VOLUME_SEED=n` runs only one seed, `VOLUME_SEEDS=n` runs n seeds; a failure names its seed.

use crate::common;

use std::collections::BTreeMap;

use common::model::{MOST_BYTES, UNIT};
use common::tree_model::*;
use common::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{PowerLoss, Status};
use tantalum_volume::{FileKind, NewFile, RangeCommit, RenameMode, SetMode, Timestamp, Volume, VolumeError};

const CAPACITY_MIB: u64 = 64;
const NOW: Timestamp = Timestamp { seconds: 1, nanoseconds: 2 };

type Step = Result<(), VolumeError>;

struct Run {
    rng: Xoshiro256PlusPlus,
    volume: Volume,
    model: TreeModel,
    /// What the model was before the operation under way.
    before: Option<TreeModel>,
    cuts: bool,
    remap: bool,
    cache: u64,
    crashes: u32,
    remapped: u64,
    /// The file whose contents were changed last.
    changed: Option<u32>,
    pool: Vec<Vec<u8>>,
}

impl Run {
    fn new(seed: u64, cuts: bool) -> Run {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let cache = if rng.random_bool(0.5) { SMALL_CACHE } else { LARGE_CACHE };
        let batches = if rng.random_bool(0.5) { 16 } else { 512 };
        let remap = rng.random_bool(0.5);
        let mut volume = Volume::format(device_with_batches_of(batches, CAPACITY_MIB), cache).unwrap();
        volume.set_remap_duplicates(remap);
        let pool = (0..6).map(|_| random_bytes(&mut rng, UNIT)).collect();
        let model = TreeModel::new();
        Run {
            rng,
            volume,
            model,
            before: None,
            cuts,
            remap,
            cache,
            crashes: 0,
            remapped: 0,
            changed: None,
            pool,
        }
    }

    fn attempt<R>(
        &mut self,
        change: impl FnOnce(&mut TreeModel),
        work: impl FnOnce(&mut Volume) -> Result<R, VolumeError>,
    ) -> Result<R, VolumeError> {
        self.before = Some(self.model.clone());
        change(&mut self.model);
        let result = work(&mut self.volume)?;
        self.before = None;
        Ok(result)
    }

    fn step(&mut self) {
        let result = match self.rng.random_range(0..100) {
            0..12 => self.create(),
            12..20 => self.rename(),
            20..25 => self.unlink(),
            25..29 => self.link(),
            29..45 => self.write(false),
            45..60 => self.write(true),
            60..63 => self.set_size(),
            63..68 => self.empty_range(),
            68..74 => self.copy(),
            74..77 => self.commit_range(),
            77..79 => self.exchange(),
            79..82 => self.open_or_close(),
            82..84 => self.read(),
            84..85 => self.set_extended_attribute(),
            85..87 => self.write_atomic(),
            87..88 => self.change_write_atomic_and_cut(),
            88..93 => self.sync(),
            93..95 => self.attempt(TreeModel::names_are_durable, Volume::sync_names),
            95..96 => self.attempt(TreeModel::all_synced, Volume::sync_all),
            96..98 => self.crash(),
            _ => self.remount(),
        };
        match result {
            Err(VolumeError::Device(Status::PowerLost)) if self.cuts => self.power_comes_back(),
            other => other.expect("only a power cut may stop a step"),
        }
    }

    // -- choosing -----------------------------------------------------------------------------------------------

    fn pick<T: Clone>(&mut self, from: Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from[self.rng.random_range(0..from.len())].clone())
    }

    fn place(&mut self) -> Place {
        let named = self.model.names.values().copied().filter(|file| self.model.is_folder(*file));
        let folders = std::iter::once(ROOT).chain(named).collect();
        (self.pick(folders).unwrap(), format!("n{}", self.rng.random_range(0..6)))
    }

    fn taken(&mut self) -> Option<Place> {
        self.pick(self.model.names.keys().cloned().collect())
    }

    /// A file with content, sometimes one that is only open.
    fn content_file(&mut self) -> Option<u32> {
        let is_there = |number: &&u32| {
            self.model.opens.contains_key(*number) || self.model.names.values().any(|file| file == *number)
        };
        self.pick(self.model.files.keys().filter(is_there).copied().collect())
    }

    fn data(&mut self, bytes: usize) -> Vec<u8> {
        let mut data = random_bytes(&mut self.rng, bytes);
        for unit in data.as_chunks_mut::<UNIT>().0 {
            if self.rng.random_bool(0.6) {
                let index = self.rng.random_range(0..self.pool.len());
                unit.copy_from_slice(&self.pool[index]);
            }
        }
        data
    }

    fn size_of(&self, number: u32) -> usize {
        self.model.files[&number].data.len()
    }

    // -- names --------------------------------------------------------------------------------------------------

    fn create(&mut self) -> Step {
        let place = self.place();
        let kind = match self.rng.random_range(0..10) {
            0..6 => FileKind::File,
            6..9 => FileKind::Folder,
            _ => FileKind::SymbolicLink,
        };
        let new = NewFile { kind, permissions: 0o700, owner: 1, group: 2, device_number: 0, now: NOW };
        let (folder, name) = (id(place.0), place.1.as_bytes());
        if self.model.names.contains_key(&place) {
            let refused = self.volume.create_in(folder, name, &new);
            return expect_refusal(refused.map(drop));
        }
        let bytes = self.rng.random_range(1..3000);
        let target = vec![b'x'; bytes];
        let number = self.attempt(
            |model| model.create(&place, kind, &target),
            |volume| match kind {
                FileKind::SymbolicLink => volume.create_symbolic_link(folder, name, &target, &new),
                _ => volume.create_in(folder, name, &new),
            },
        )?;
        assert_eq!(number.0, self.model.last_number);
        Ok(())
    }

    fn link(&mut self) -> Step {
        let Some(from) = self.taken() else { return Ok(()) };
        let (to, number) = (self.place(), self.model.names[&from]);
        let link = |volume: &mut Volume| volume.link(id(number), id(to.0), to.1.as_bytes(), NOW);
        if self.model.is_folder(number) || self.model.names.contains_key(&to) {
            return expect_refusal(link(&mut self.volume));
        }
        self.attempt(|model| model.link(&to, number), link)
    }

    fn unlink(&mut self) -> Step {
        let Some(place) = self.taken() else { return Ok(()) };
        let (folder, name) = (id(place.0), place.1.as_bytes());
        let number = self.model.names[&place];
        if !self.model.is_folder(number) {
            return self.attempt(|model| model.unlink(&place), |volume| volume.unlink(folder, name, NOW));
        }
        let remove = |volume: &mut Volume| volume.remove_folder(folder, name, NOW);
        if !self.model.is_empty(number) {
            return expect_refusal(remove(&mut self.volume));
        }
        self.attempt(|model| model.unlink(&place), remove)
    }

    fn rename(&mut self) -> Step {
        let Some(from) = self.taken() else { return Ok(()) };
        let to = if self.rng.random_bool(0.5) { self.taken().unwrap() } else { self.place() };
        let mode = match self.rng.random_range(0..4) {
            0..2 => RenameMode::Replace,
            2 => RenameMode::NoReplace,
            _ => RenameMode::Exchange,
        };
        let rename = |volume: &mut Volume| {
            volume.rename_in(id(from.0), from.1.as_bytes(), id(to.0), to.1.as_bytes(), mode, NOW)
        };
        match self.model.may_rename(&from, &to, mode) {
            Err(()) => expect_refusal(rename(&mut self.volume)),
            Ok(false) => rename(&mut self.volume),
            Ok(true) => self.attempt(|model| model.rename(&from, &to, mode), rename),
        }
    }

    fn open_or_close(&mut self) -> Step {
        let open = self.model.opens.keys().next().copied();
        if let Some(number) = open.filter(|_| self.rng.random_bool(0.5)) {
            self.model.opens.remove(&number);
            return self.volume.close(id(number));
        }
        let Some(number) = self.content_file() else { return Ok(()) };
        if self.model.opens.insert(number, 1).is_none() {
            self.volume.open(id(number))?;
        }
        Ok(())
    }

    // -- content ------------------------------------------------------------------------------------------------

    fn write(&mut self, direct: bool) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let size = self.size_of(number);
        let mut offset = self.rng.random_range(0..=(size + 20_000).min(MOST_BYTES - UNIT));
        let mut bytes = self.rng.random_range(1..20_000).min(MOST_BYTES - offset);
        if direct || self.rng.random_bool(0.5) {
            offset = offset / UNIT * UNIT;
            bytes = bytes.next_multiple_of(UNIT).min(MOST_BYTES - offset);
        }
        let data = self.data(bytes);
        self.changed = Some(number);
        self.attempt(
            |model| model.file(number).write(offset, &data),
            |volume| match direct {
                true => volume.write_direct(id(number), offset as u64, &data),
                false => volume.write(id(number), offset as u64, &data),
            },
        )
    }

    fn set_size(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let size = self.rng.random_range(0..=MOST_BYTES);
        let resize = |volume: &mut Volume| volume.set_size(id(number), size as u64);
        self.attempt(|model| model.file(number).set_size(size), resize)
    }

    fn empty_range(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let size = self.size_of(number);
        let mut offset = self.rng.random_range(0..MOST_BYTES);
        let mut bytes = self.rng.random_range(1..=(MOST_BYTES - offset).min(40_000));
        if self.rng.random_bool(0.5) {
            (offset, bytes) = (offset / UNIT * UNIT, bytes.next_multiple_of(UNIT));
        }
        let zeros = |model: &mut TreeModel| {
            let end = size.min(offset + bytes);
            if offset < end {
                model.file(number).write(offset, &vec![0; end - offset]);
            }
        };
        let grow = |model: &mut TreeModel| {
            if offset + bytes > size {
                model.file(number).set_size(offset + bytes);
            }
        };
        let (file, offset, bytes) = (id(number), offset as u64, bytes as u64);
        self.changed = Some(number);
        match self.rng.random_range(0..4) {
            0..2 => self.attempt(zeros, |volume| volume.punch_hole(file, offset, bytes)),
            2 => self.attempt(
                |model| {
                    zeros(model);
                    grow(model);
                },
                |volume| volume.zero_range(file, offset, bytes, false),
            ),
            _ => self.attempt(|_| (), |volume| volume.allocate(file, offset, bytes, true)),
        }
    }

    fn copy(&mut self) -> Step {
        let (Some(from), Some(to)) = (self.content_file(), self.content_file()) else { return Ok(()) };
        let (from_size, most) = (self.size_of(from), MOST_BYTES - UNIT);
        if from_size == 0 || from == to {
            return Ok(());
        }
        let mut from_offset = self.rng.random_range(0..from_size);
        let mut to_offset = self.rng.random_range(0..most);
        if self.rng.random_bool(0.7) {
            let within = self.rng.random_range(0..UNIT) * usize::from(self.rng.random_bool(0.3));
            from_offset = (from_offset / UNIT * UNIT + within).min(from_size - 1);
            to_offset = to_offset / UNIT * UNIT + from_offset % UNIT;
        }
        let bytes = self.rng.random_range(1..60_000).min(from_size - from_offset).min(MOST_BYTES - to_offset);
        let data = self.model.files[&from].data[from_offset..from_offset + bytes].to_vec();
        self.changed = Some(to);
        let copied = self.attempt(
            |model| model.file(to).write(to_offset, &data),
            |volume| volume.copy_range(id(from), from_offset as u64, id(to), to_offset as u64, bytes as u64),
        )?;
        assert_eq!(copied, bytes as u64);
        Ok(())
    }

    /// Two different files that are not empty, and a range of whole units of both, perhaps with the last one of a file,
    /// in which its end lies.
    fn two_ranges(&mut self) -> Option<(u32, usize, u32, usize, usize)> {
        let (a, b) = (self.content_file()?, self.content_file()?);
        let (a_units, b_units) = (self.size_of(a).div_ceil(UNIT), self.size_of(b).div_ceil(UNIT));
        if a == b || a_units == 0 || b_units == 0 {
            return None;
        }
        let (a_unit, b_unit) = (self.rng.random_range(0..a_units), self.rng.random_range(0..b_units));
        let units = self.rng.random_range(1..=(a_units - a_unit).min(b_units - b_unit).min(8));
        Some((a, a_unit * UNIT, b, b_unit * UNIT, units * UNIT))
    }

    /// A range of whole units of a file, as another file will show it from `offset` on: zeros behind the end of the one,
    /// and nothing behind the end of the other.
    fn units_for(&self, from: u32, from_offset: usize, bytes: usize, to: u32, offset: usize) -> Vec<u8> {
        let data = &self.model.files[&from].data;
        let mut units = data[from_offset..data.len().min(from_offset + bytes)].to_vec();
        units.resize(bytes.min(self.size_of(to) - offset), 0);
        units
    }

    fn commit_range(&mut self) -> Step {
        let Some((from, from_offset, to, to_offset, bytes)) = self.two_ranges() else { return Ok(()) };
        self.attempt(|model| model.synced(to), |volume| volume.sync(id(to)))?;
        let data = self.units_for(from, from_offset, bytes, to, to_offset);
        let range = RangeCommit {
            from: id(from),
            from_offset: from_offset as u64,
            to: id(to),
            to_offset: to_offset as u64,
            bytes: bytes as u64,
        };
        self.attempt(
            |model| {
                model.file(to).write(to_offset, &data);
                model.file(to).synced();
            },
            |volume| volume.commit_ranges(&[range]),
        )
    }

    fn exchange(&mut self) -> Step {
        let Some((a, a_offset, b, b_offset, bytes)) = self.two_ranges() else { return Ok(()) };
        // So that both are as the model knows them when the step comes: it makes all of them durable.
        self.attempt(|model| model.synced(a), |volume| volume.sync(id(a)))?;
        self.attempt(|model| model.synced(b), |volume| volume.sync(id(b)))?;
        let of_a = self.units_for(a, a_offset, bytes, b, b_offset);
        let of_b = self.units_for(b, b_offset, bytes, a, a_offset);
        self.attempt(
            |model| {
                model.file(a).write(a_offset, &of_b);
                model.file(b).write(b_offset, &of_a);
                model.file(a).synced();
                model.file(b).synced();
            },
            |volume| volume.exchange_ranges(id(a), a_offset as u64, id(b), b_offset as u64, bytes as u64),
        )
    }

    /// Writes units and changes the size in one step. The inode that this stores shows everything that was done to the
    /// file before, so all of it is durable. A file without a name has no inode there.
    fn write_atomic(&mut self) -> Step {
        match self.content_file() {
            Some(number) => self.write_atomic_to(number),
            None => Ok(()),
        }
    }

    fn write_atomic_to(&mut self, number: u32) -> Step {
        let size = self.rng.random_range(0..=MOST_BYTES);
        let is_stored = |size| size == self.model.files[&number].durable.data.len();
        if self.model.links(number) == 0 || size == self.size_of(number) || is_stored(size) {
            return Ok(());
        }
        let mut units = BTreeMap::new();
        for _ in 0..self.rng.random_range(0..3).min(size / UNIT) {
            units.insert(self.rng.random_range(0..size / UNIT) as u64, self.data(UNIT));
        }
        let units: Vec<(u64, Vec<u8>)> = units.into_iter().collect();
        let writes: Vec<(u64, &[u8])> = units.iter().map(|(unit, data)| (*unit, &data[..])).collect();
        self.attempt(
            |model| {
                model.file(number).write_units(&units, Some(size as u64));
                model.file(number).synced();
            },
            |volume| volume.write_atomic(id(number), &writes, Some(size as u64)),
        )
    }

    /// Changes one file of a clean volume in one way, and makes the inode durable with an atomic write; then power goes at
    /// once. Among other operations something else of the file or of another one is nearly always flushed for.
    fn change_write_atomic_and_cut(&mut self) -> Step {
        if !self.cuts {
            return Ok(());
        }
        self.attempt(TreeModel::all_synced, Volume::sync_all)?;
        self.changed = None;
        match self.rng.random_range(0..5) {
            0..2 => self.copy(),
            2..4 => self.empty_range(),
            _ => self.write(true),
        }?;
        let Some(number) = self.changed else { return Ok(()) };
        self.write_atomic_to(number)?;
        let now_ns = self.volume.now_ns();
        self.volume.device().cut_power(now_ns);
        Err(VolumeError::Device(Status::PowerLost))
    }

    fn read(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let expected = &self.model.files[&number].data;
        let offset = self.rng.random_range(0..=expected.len()) / UNIT * UNIT;
        let mut data = vec![0xee; self.rng.random_range(1..8) * UNIT];
        let bytes = self.volume.read_direct(id(number), offset as u64, &mut data)?;
        let end = expected.len().min(offset + data.len());
        assert!(data[..bytes] == expected[offset..end], "direct read at {offset} of file {number}");
        Ok(())
    }

    fn set_extended_attribute(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let value = vec![7; self.rng.random_range(0..6000)];
        self.volume.set_extended_attribute(id(number), b"user.x", &value, SetMode::Any)
    }

    fn sync(&mut self) -> Step {
        let number = match self.rng.random_range(0..4) {
            0 => self.place().0,
            _ => match self.content_file() {
                Some(number) => number,
                None => return Ok(()),
            },
        };
        self.attempt(|model| model.synced(number), |volume| volume.sync(id(number)))
    }

    // -- crashes ------------------------------------------------------------------------------------------------

    fn take_volume(&mut self) -> Volume {
        self.remapped += self.volume.statistics().units_remapped;
        std::mem::replace(&mut self.volume, Volume::format(device(1), 0).unwrap())
    }

    fn mount(&mut self, device: tantalum::Device) {
        self.volume = Volume::mount(device, self.cache).expect("the volume mounts");
        self.volume.set_remap_duplicates(self.remap);
    }

    fn remount(&mut self) -> Step {
        self.before = Some(self.model.clone());
        self.model.all_synced();
        match self.take_volume().unmount() {
            Ok(client) => {
                let mut device = client.into_device().unwrap();
                device.cut_after(None);
                self.mount(device);
            }
            Err(error) => {
                self.volume = error.volume;
                return Err(error.error);
            }
        }
        self.before = None;
        self.start_again();
        Ok(())
    }

    fn crash(&mut self) -> Step {
        if !self.volume.device().has_power() {
            return Err(VolumeError::Device(Status::PowerLost)); // it went in a trim, for which nobody waits
        }
        self.volume.device().cut_after(None);
        let device = self.take_volume().into_client_without_sync().into_device().unwrap();
        self.mount(device);
        self.find_what_is_left();
        Ok(())
    }

    fn power_comes_back(&mut self) {
        let mut device = self.take_volume().into_client_without_sync().into_device().unwrap();
        device.power_on(&mut PowerLoss::seeded(self.rng.random())).expect("the drive recovers");
        self.mount(device);
        self.find_what_is_left();
    }

    fn see(&mut self) -> Seen {
        let mut seen = Seen::default();
        let mut folders = vec![ROOT];
        while let Some(folder) = folders.pop() {
            let entries = self.volume.read_folder(id(folder), 0).unwrap();
            let entries: Vec<(String, u32, FileKind)> =
                entries.map(|e| (String::from_utf8(e.name.to_vec()).unwrap(), e.file.0, e.kind)).collect();
            for (name, number, kind) in entries {
                seen.names.insert((folder, name), number);
                match kind {
                    FileKind::Folder => folders.push(number),
                    FileKind::File => {
                        drop(seen.contents.insert(number, content(&mut self.volume, id(number))))
                    }
                    _ => {}
                }
            }
        }
        seen
    }

    fn find_what_is_left(&mut self) {
        self.crashes += 1;
        let seen = self.see();
        let before = self.before.take().unwrap_or_else(|| self.model.clone());
        if let Err(why) = is_allowed(&before, &self.model, &seen) {
            panic!("after crash {}: {why}", self.crashes);
        }
        for (number, file) in before.files {
            self.model.files.entry(number).or_insert(file);
        }
        for (number, kind) in before.kinds {
            self.model.kinds.entry(number).or_insert(kind);
        }
        self.model.names = seen.names;
        for (number, data) in seen.contents {
            self.model.file(number).data = data;
        }
        self.start_again();
    }

    fn start_again(&mut self) {
        self.model.start_again();
        self.check_all();
        if self.cuts {
            let operations = self.rng.random_range(1..60);
            self.volume.device().cut_after(Some(operations));
        }
    }

    fn check_all(&mut self) {
        let seen = self.see();
        assert_eq!(seen.names, self.model.names);
        for (number, data) in &seen.contents {
            let expected = &self.model.files[number].data;
            let difference = data.iter().zip(expected).position(|(a, b)| a != b);
            assert_eq!((data.len(), difference), (expected.len(), None), "content of file {number}");
        }
        for number in seen.names.values() {
            let metadata = self.volume.metadata(id(*number)).unwrap();
            assert_eq!(
                (metadata.kind, metadata.links),
                (self.model.kinds[number], self.model.links(*number))
            );
            if let Some(target) = self.model.targets.get(number) {
                assert_eq!(&self.volume.read_symbolic_link(id(*number)).unwrap(), target);
            }
        }
    }

    /// Without files all of the volume is free but its table, and nothing but that is mapped.
    fn finish(mut self) -> (u32, u64) {
        if !self.volume.device().has_power() {
            self.power_comes_back();
        }
        self.cuts = false;
        self.volume.device().cut_after(None);
        self.check_all();
        self.remount().unwrap();
        self.empty_folder(ROOT);
        self.volume.sync_names().unwrap();
        let statistics = self.volume.statistics();
        assert_eq!((statistics.files, statistics.free_units), (1, statistics.units));
        let capacity = self.volume.device().limits().capacity_units;
        let lpns = (0..capacity as u32).map(tantalum::Lpn);
        let mapped = lpns.filter(|lpn| self.volume.device().is_mapped(*lpn)).count() as u64;
        assert!(mapped <= capacity - statistics.units, "{mapped} units are mapped");
        (self.crashes, self.remapped)
    }

    fn empty_folder(&mut self, number: u32) {
        let inside = self.model.names.iter().filter(|((folder, _), _)| *folder == number);
        let inside: Vec<(Place, u32)> = inside.map(|(place, file)| (place.clone(), *file)).collect();
        for (place, file) in inside {
            let (folder, name) = (id(place.0), place.1.as_bytes());
            if self.model.is_folder(file) {
                self.empty_folder(file);
                self.volume.remove_folder(folder, name, NOW).unwrap();
            } else {
                self.volume.unlink(folder, name, NOW).unwrap();
            }
        }
    }
}

fn random_bytes(rng: &mut Xoshiro256PlusPlus, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    rng.fill_bytes(&mut data);
    data
}

/// What the model refuses, the volume must refuse, and not for want of power or space.
fn expect_refusal(result: Step) -> Step {
    match result {
        Err(error @ VolumeError::Device(_)) => Err(error),
        Err(_) => Ok(()),
        Ok(()) => panic!("what the model refuses was done"),
    }
}

fn run_seeds(seeds: u64, steps: u32, cuts: bool) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let one: Option<u64> = number("VOLUME_SEED");
    let seeds = number("VOLUME_SEEDS").unwrap_or(seeds);
    let (mut crashes, mut remapped) = (0, 0);
    for seed in one.map_or(0..seeds, |seed| seed..seed + 1) {
        let failed = FailedSeed(seed);
        let mut run = Run::new(seed, cuts);
        run.start_again();
        for _ in 0..steps {
            run.step();
        }
        let (run_crashes, run_remapped) = run.finish();
        crashes += run_crashes;
        remapped += run_remapped;
        std::mem::forget(failed);
    }
    if one.is_none() {
        assert!(u64::from(crashes) > seeds * 3, "only {crashes} crashes happened");
        assert!(remapped > seeds * 10, "only {remapped} units became shares");
    }
}

#[test]
fn crashes_of_the_host_and_remounts_agree_with_the_model() {
    run_seeds(40, 400, false);
}

#[test]
fn power_cuts_in_any_operation_agree_with_the_model() {
    run_seeds(60, 300, true);
}

/// Names the seed if the run panics.
struct FailedSeed(u64);

impl Drop for FailedSeed {
    fn drop(&mut self) {
        eprintln!("failed with VOLUME_SEED={}", self.0);
    }
}
