//! Random operations against a model in memory, through remounts, crashes of the host, and power cuts.
//!
//! `VOLUME_SEED=n` runs only one seed, `VOLUME_SEEDS=n` runs n seeds with power cuts; a failure names its seed.

use crate::common;

use std::collections::BTreeMap;

use common::model::*;
use common::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{PowerLoss, Status};
use tantalum_volume::{ATTRIBUTE_BYTES, FileId, Volume, VolumeError};

/// Capacity that is never used up, so that nothing becomes durable but by the operations' own promises.
const CAPACITY_MIB: u64 = 64;

/// A program on a volume, and the model of what it did. Steps end early with the drive's error when power is lost.
struct Run {
    rng: Xoshiro256PlusPlus,
    volume: Volume,
    model: Model,
    /// What the model was before the operation under way, if power may be lost in it.
    before: Option<Model>,
    /// Whether power is cut now and then.
    cuts: bool,
    cache: u64,
    crashes: u32,
    batches: u32,
}

type Step = Result<(), VolumeError>;

impl Run {
    fn new(seed: u64, cuts: bool) -> Run {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let cache = if rng.random_bool(0.5) { SMALL_CACHE } else { LARGE_CACHE };
        let batches = if rng.random_bool(0.3) { 16 } else { 512 };
        let volume = Volume::format(device_with_batches_of(batches, CAPACITY_MIB), cache).unwrap();
        let mut model = Model::default();
        model.names_are_durable();
        Run { rng, volume, model, before: None, cuts, cache, crashes: 0, batches }
    }

    /// Does one operation on the volume, and on the model what it does if power is not lost.
    fn attempt<R>(
        &mut self,
        change: impl FnOnce(&mut Model),
        work: impl FnOnce(&mut Volume) -> Result<R, VolumeError>,
    ) -> Result<R, VolumeError> {
        self.before = self.cuts.then(|| self.model.clone());
        change(&mut self.model);
        let result = work(&mut self.volume)?;
        self.before = None;
        Ok(result)
    }

    fn step(&mut self) {
        let result = match self.rng.random_range(0..100) {
            0..40 => self.write(),
            40..46 => self.set_size(),
            46..60 => self.read(),
            60..68 => self.sync(),
            68..74 => self.create(),
            74..77 => self.remove(),
            77..81 => self.rename(),
            81..83 => self.sync_names(),
            83..88 => self.write_atomic(),
            88..92 => self.transaction(),
            92..94 => self.set_attributes(),
            94..96 => self.reserve(),
            96..98 => self.crash(),
            _ => self.remount(),
        };
        match result {
            Err(VolumeError::Device(Status::PowerLost)) if self.cuts => self.power_comes_back(),
            other => other.expect("only a power cut may stop a step"),
        }
    }

    fn arm_cut(&mut self) {
        let operations = self.rng.random_range(1..40);
        self.volume.device().cut_after(Some(operations));
    }

    fn pick(&mut self) -> Option<(String, FileId, u32)> {
        let at = self.rng.random_range(0..self.model.names.len().max(1));
        let (name, &number) = self.model.names.iter().nth(at)?;
        Some((name.clone(), self.volume.find(name).expect("the model has it"), number))
    }

    fn name(&mut self) -> String {
        format!("name {}", self.rng.random_range(0..12))
    }

    fn data(&mut self, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.rng.fill_bytes(&mut data);
        data
    }

    fn write(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let size = self.model.files[&number].data.len();
        let offset = match self.rng.random_range(0..4) {
            0 => size,
            1 if !self.model.files[&number].reserved => size + self.rng.random_range(0..20_000),
            _ => self.rng.random_range(0..=size),
        };
        let bytes = if self.rng.random_bool(0.3) { 4120 } else { self.rng.random_range(0..20_000) };
        let bytes = bytes.min(MOST_BYTES.saturating_sub(offset));
        if bytes == 0 {
            return Ok(());
        }
        let data = self.data(bytes);
        self.attempt(
            |model| model.file(number).write(offset, &data),
            |volume| volume.write(file, offset as u64, &data),
        )
    }

    fn set_size(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let model = &self.model.files[&number];
        let most = if model.reserved { model.data.len() } else { MOST_BYTES };
        let size = self.rng.random_range(0..=most);
        self.attempt(|model| model.file(number).set_size(size), |volume| volume.set_size(file, size as u64))
    }

    fn read(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let expected = &self.model.files[&number].data;
        let offset = self.rng.random_range(0..=expected.len() + 100);
        let mut data = vec![0xee; self.rng.random_range(0..30_000)];
        let bytes = self.volume.read(file, offset as u64, &mut data)?;
        let end = expected.len().min(offset + data.len());
        assert_same(&data[..bytes], &expected[offset.min(end)..end], "what was read");
        Ok(())
    }

    fn sync(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        self.attempt(|model| model.synced(number), |volume| volume.sync(file))
    }

    fn create(&mut self) -> Step {
        let name = self.name();
        if self.model.names.contains_key(&name) {
            let refused = self.volume.create(&name).expect_err("the name is taken");
            return if refused == VolumeError::NameExists(name) { Ok(()) } else { Err(refused) };
        }
        self.attempt(|model| model.create(&name), |volume| volume.create(&name).map(drop))
    }

    fn remove(&mut self) -> Step {
        let Some((name, ..)) = self.pick() else { return Ok(()) };
        self.attempt(|model| model.remove(&name), |volume| volume.remove(&name))
    }

    fn rename(&mut self) -> Step {
        let Some((from, ..)) = self.pick() else { return Ok(()) };
        let to = self.name();
        self.attempt(|model| model.rename(&from, &to), |volume| volume.rename(&from, &to))
    }

    fn sync_names(&mut self) -> Step {
        self.attempt(Model::names_are_durable, Volume::sync_names)
    }

    /// Whole units for an atomic write or a transaction, none twice, and a size that may be new.
    fn units(&mut self, number: u32) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let file = &self.model.files[&number];
        let most = if file.reserved { file.data.len() } else { MOST_BYTES };
        let mut units = BTreeMap::new();
        for _ in 0..self.rng.random_range(0..5).min(most / UNIT) {
            units.insert(self.rng.random_range(0..most / UNIT) as u64, self.data(UNIT));
        }
        let needed = units.keys().next_back().map_or(0, |unit| (unit + 1) * UNIT as u64);
        let size = self.model.files[&number].data.len() as u64;
        // A program does not write beyond the size that it sets.
        let new_size = needed.max(self.rng.random_range(0..=most) as u64);
        let new_size = (needed > size || self.rng.random_bool(0.3)).then_some(new_size);
        (units.into_iter().collect(), new_size)
    }

    /// What an atomic write or commit changed is durable, whatever else of the file is: asked of a crashed copy.
    fn check_durable_units(&mut self, number: u32, units: &[(u64, Vec<u8>)], new_size: Option<u64>) {
        let name = self.model.name_of(number);
        let mut copy = crash(self.volume.try_clone().unwrap(), self.cache);
        let Some(file) = copy.find(&name) else {
            assert!(units.is_empty() && new_size.is_none());
            return;
        };
        let data = content(&mut copy, file);
        if let Some(size) = new_size {
            assert_eq!(data.len() as u64, size);
        }
        for (unit, expected) in units {
            let start = *unit as usize * UNIT;
            let end = data.len().min(start + UNIT);
            let expected = &expected[..end.saturating_sub(start)];
            assert_same(&data[start.min(end)..end], expected, "the unit after a crash");
        }
    }

    /// Sometimes makes a file clean, so that the model knows what is durable after the one step to come.
    fn clean_now_and_then(&mut self, file: FileId, number: u32) -> Result<bool, VolumeError> {
        let is_clean = self.cuts || self.rng.random_bool(0.5);
        if is_clean {
            self.sync_file(file, number)?;
        }
        Ok(is_clean)
    }

    /// Does what takes effect in one step with all that it changes. If the file was not clean before, the step is
    /// checked alone, and a sync follows.
    fn in_one_step(
        &mut self,
        (file, number): (FileId, u32),
        is_clean: bool,
        (units, new_size): (&[(u64, Vec<u8>)], Option<u64>),
        work: impl FnOnce(&mut Volume) -> Step,
    ) -> Step {
        let change = |model: &mut Model| {
            model.file(number).write_units(units, new_size);
            if is_clean {
                model.synced(number);
            }
        };
        self.attempt(change, work)?;
        if is_clean {
            return Ok(());
        }
        self.check_durable_units(number, units, new_size);
        self.sync_file(file, number)
    }

    fn write_atomic(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let (units, new_size) = self.units(number);
        let is_clean = self.clean_now_and_then(file, number)?;
        let writes: Vec<(u64, &[u8])> = units.iter().map(|(unit, data)| (*unit, &data[..])).collect();
        self.in_one_step((file, number), is_clean, (&units, new_size), |volume| {
            volume.write_atomic(file, &writes, new_size)
        })
    }

    fn transaction(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let (units, new_size) = self.units(number);
        let is_clean = self.clean_now_and_then(file, number)?;
        let tx = self.volume.tx_begin()?;
        for (unit, data) in &units {
            self.volume.tx_write(tx, file, unit * UNIT as u64, data)?;
        }
        let mut before = vec![0; MOST_BYTES];
        let bytes = self.volume.read(file, 0, &mut before)?;
        assert_same(&before[..bytes], &self.model.files[&number].data, "the file during a transaction");
        for (unit, expected) in &units {
            let mut data = vec![0; UNIT];
            self.volume.tx_read(tx, file, unit * UNIT as u64, &mut data)?;
            assert_same(&data, expected, "the transaction's unit");
        }
        if self.rng.random_bool(0.3) {
            return self.volume.tx_abort(tx);
        }
        self.in_one_step((file, number), is_clean, (&units, new_size), |volume| {
            volume.tx_commit(tx, file, new_size)
        })
    }

    /// All of a file is durable, and all names.
    fn sync_file(&mut self, file: FileId, number: u32) -> Step {
        self.attempt(|model| model.synced(number), |volume| volume.sync(file))?;
        self.sync_names()
    }

    fn set_attributes(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let attributes = self.rng.random();
        self.attempt(
            |model| model.file(number).attributes = attributes,
            |volume| volume.set_attributes(file, &[attributes; ATTRIBUTE_BYTES]),
        )
    }

    fn reserve(&mut self) -> Step {
        let Some((_, file, number)) = self.pick() else { return Ok(()) };
        let bytes = self.rng.random_range(0..MOST_BYTES as u64);
        self.attempt(|model| model.file(number).reserved = true, |volume| volume.reserve(file, bytes))
    }

    /// Takes the volume away; another one takes its place meanwhile.
    fn take_volume(&mut self) -> Volume {
        let blank = Volume::format(device(1), 0).unwrap();
        std::mem::replace(&mut self.volume, blank)
    }

    fn remount(&mut self) -> Step {
        self.before = self.cuts.then(|| self.model.clone());
        self.model.all_synced();
        match self.take_volume().unmount() {
            Ok(client) => {
                let mut device = client.into_device().unwrap();
                device.cut_after(None);
                self.volume = Volume::mount(device, self.cache).expect("an unmounted volume mounts");
            }
            Err(error) => {
                self.volume = error.volume;
                return Err(error.error);
            }
        }
        self.before = None;
        self.start_again()
    }

    /// The host crashes; the drive continues.
    fn crash(&mut self) -> Step {
        if !self.volume.device().has_power() {
            return Err(VolumeError::Device(Status::PowerLost)); // it went in a trim, for which nobody waits
        }
        self.volume.device().cut_after(None);
        let volume = self.take_volume();
        self.volume = crash(volume, self.cache);
        self.find_what_is_left();
        self.start_again()
    }

    fn power_comes_back(&mut self) {
        let lost = Err(VolumeError::Device(Status::PowerLost));
        assert_eq!(self.volume.create("after the cut"), lost.clone().map(|()| unreachable!()));
        assert_eq!(self.volume.sync_names(), lost);
        let mut device = self.take_volume().into_client_without_sync().into_device().unwrap();
        device.power_on(&mut PowerLoss::seeded(self.rng.random())).expect("the drive recovers");
        self.volume = Volume::mount(device, self.cache).expect("a volume mounts after a power cut");
        self.find_what_is_left();
        self.start_again().expect("no cut is armed");
    }

    /// Finds which of the states that the model allows the volume is in, and continues from there.
    fn find_what_is_left(&mut self) {
        self.crashes += 1;
        let names: Vec<String> = self.volume.names().map(str::to_owned).collect();
        let mut seen = BTreeMap::new();
        for name in &names {
            let file = self.volume.find(name).unwrap();
            let attributes = self.volume.attributes(file).unwrap()[0];
            seen.insert(name.clone(), (content(&mut self.volume, file), attributes));
        }
        let before = self.before.take().unwrap_or_else(|| self.model.clone());
        let found = find_allowed(&before, &self.model, &seen);
        let found = found.unwrap_or_else(|| panic!("nothing that was allows {names:?}"));
        self.model
            .files
            .extend(before.files.into_iter().filter(|(number, _)| found.values().any(|n| n == number)));
        for (name, number) in &found {
            let (data, attributes) = seen.remove(name).unwrap();
            let file = self.model.file(*number);
            (file.data, file.attributes) = (data, attributes);
        }
        self.model.names = found;
        self.model.all_synced();
    }

    fn start_again(&mut self) -> Step {
        self.check_all();
        if self.cuts {
            self.arm_cut();
        }
        Ok(())
    }

    fn check_all(&mut self) {
        let names: Vec<&String> = self.model.names.keys().collect();
        assert_eq!(self.volume.names().collect::<Vec<_>>(), names);
        for (name, number) in &self.model.names {
            let file = self.volume.find(name).unwrap();
            let expected = &self.model.files[number];
            assert_same(&content(&mut self.volume, file), &expected.data, name);
            assert_eq!(self.volume.attributes(file), Ok([expected.attributes; ATTRIBUTE_BYTES]));
        }
    }

    /// Nothing is lost of the volume itself: without files, all of it is free and unmapped.
    fn finish(mut self) {
        if !self.volume.device().has_power() {
            self.power_comes_back(); // it went in a trim, for which nobody waits
        }
        self.cuts = false;
        self.volume.device().cut_after(None);
        self.check_all();
        self.remount().unwrap();
        let empty =
            Volume::format(device_with_batches_of(self.batches, CAPACITY_MIB), 0).unwrap().free_units();
        for name in self.model.names.keys() {
            self.volume.remove(name).unwrap();
        }
        self.volume.sync_names().unwrap();
        assert_eq!(self.volume.free_units(), empty);
        let capacity = self.volume.device().limits().capacity_units as u32;
        let mapped = (0..capacity).filter(|&lpn| self.volume.device().is_mapped(tantalum::Lpn(lpn))).count();
        let table = (capacity - empty as u32) as usize;
        assert!(mapped <= table, "{mapped} units are mapped, superblock and table have {table}");
    }
}

/// Runs `steps` for each seed, and returns how many crashes there were in all.
fn run_seeds(seeds: u64, steps: u32, cuts: bool) -> Option<u32> {
    let one = std::env::var("VOLUME_SEED").ok().map(|seed| seed.parse().expect("VOLUME_SEED is a number"));
    let range = one.map_or(0..seeds, |seed: u64| seed..seed + 1);
    let mut crashes = 0;
    for seed in range {
        let failed = FailedSeed(seed);
        let mut run = Run::new(seed, cuts);
        if cuts {
            run.arm_cut();
        }
        for _ in 0..steps {
            run.step();
        }
        crashes += run.crashes;
        run.finish();
        std::mem::forget(failed);
    }
    one.is_none().then_some(crashes)
}

#[test]
fn crashes_of_the_host_and_remounts_agree_with_the_model() {
    let crashes = run_seeds(60, 400, false);
    assert!(crashes.is_none_or(|crashes| crashes > 100), "only {crashes:?} crashes happened");
}

#[test]
fn power_cuts_in_any_operation_agree_with_the_model() {
    let seeds = std::env::var("VOLUME_SEEDS").map_or(40, |seeds| seeds.parse().expect("a number"));
    let crashes = run_seeds(seeds, 250, true);
    assert!(crashes.is_none_or(|crashes| crashes > 200), "only {crashes:?} crashes happened");
}

/// Compares bytes, and says where they begin to differ.
fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    let difference = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), difference), (expected.len(), None), "{what}: length and first difference");
}

/// Names the seed if the run panics.
struct FailedSeed(u64);

impl Drop for FailedSeed {
    fn drop(&mut self) {
        eprintln!("failed with VOLUME_SEED={}", self.0);
    }
}
