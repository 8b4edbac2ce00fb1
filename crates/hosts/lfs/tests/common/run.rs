//! A random program on a file system, compared with a model of it; crashes, power cuts and second cuts in recovery.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{CommandFailure, FailingStep, Faults, PowerLoss, StepFault};
use tantalum_drive::Drive;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, MetadataChange, Names, Outcome, Ranges,
    RenameMode, SetMode,
};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs, SyncCounters};

use super::model::{Model, Place, ROOT_FILE, UNIT};
use super::{NOW, SOUND, device, device_that_wears, new, sound};

/// What a run does.
#[derive(Clone, Copy)]
pub struct Plan {
    pub kind: LfsKind,
    pub capacity_mib: u64,
    pub cache_bytes: u64,
    pub cleaning: Cleaning,
    pub indexing: Indexing,
    /// Power is cut within this number of flash operations, repeatedly; `None` if never.
    pub cut_within: Option<u64>,
    /// A file's content is cut off here.
    pub most_bytes: usize,
    /// A file created first takes all units except this number.
    pub left_units: Option<u64>,
    /// How the flash fails.
    pub faults: Faults,
    /// How probable it is that a step creates or deletes a snapshot, with an index that has them.
    pub snapshot_odds: f64,
}

/// Snapshots are an exception.
pub const SNAPSHOT_ODDS: f64 = 0.04;

pub struct Run {
    pub fs: Option<LogFs>,
    drive: Drive,
    rng: Xoshiro256PlusPlus,
    plan: Plan,
    model: Model,
    pub crashes: u32,
    pub cuts: u32,
    /// Power is cut at this flash operation of the drive.
    cut_at: Option<u64>,
    pub second_cuts: u32,
    pub refusals: u32,
    /// The syncs of all mounts.
    pub syncs: SyncCounters,
    /// Units that went into holes, of all mounts.
    pub filled_units: u64,
    /// The expected contents of each snapshot.
    snapshots: BTreeMap<u32, Tree>,
    /// A snapshot that was being created when power failed.
    maybe_made: Option<Tree>,
    /// A snapshot that was being deleted when power failed.
    maybe_deleted: Option<u32>,
    /// Snapshots that were compared.
    pub compared: u32,
    /// One of this number of commands of the drive fails, repeatedly; 0 if none.
    fail_within: u64,
    /// A step is to fail, or has.
    fails_step: bool,
    /// Operations that failed with a command.
    pub failed: u32,
    /// How many of these failed with a step inside a command.
    pub failed_steps: u32,
    /// How many stopped the file system.
    pub stopped: u32,
    /// Power failed this often while a snapshot was created, and while one was deleted.
    pub cut_creations: u32,
    pub cut_deletions: u32,
}

/// All names, and what their files hold.
type Tree = BTreeMap<Place, (FileId, FileKind, Vec<u8>)>;

type Step = Outcome<()>;

const ATTRIBUTE: &[u8] = b"user.x";

impl Run {
    pub fn new(seed: u64, plan: Plan) -> Run {
        let drive = Drive::new(match plan.faults == SOUND {
            true => device(plan.capacity_mib),
            false => device_that_wears(plan.capacity_mib),
        });
        let Plan { kind, cleaning, indexing, cache_bytes, .. } = plan;
        let fs = LogFs::format_indexed(drive.client(), kind, cleaning, indexing, cache_bytes).unwrap();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut run = Run {
            fs: Some(fs),
            drive,
            rng,
            plan,
            model: Model::new(plan.indexing == Indexing::Nvm),
            crashes: 0,
            cuts: 0,
            cut_at: None,
            second_cuts: 0,
            refusals: 0,
            syncs: SyncCounters::default(),
            filled_units: 0,
            snapshots: BTreeMap::new(),
            maybe_made: None,
            maybe_deleted: None,
            compared: 0,
            fail_within: 0,
            fails_step: false,
            failed: 0,
            failed_steps: 0,
            stopped: 0,
            cut_creations: 0,
            cut_deletions: 0,
        };
        run.flash_fails();
        if let Some(left) = plan.left_units {
            let units = run.fs().statistics().free_units - left;
            run.fill(units as usize).expect("there is space for the ballast");
        }
        run.start_again();
        run
    }

    /// Power has come back: from now on, flash fails as planned.
    fn flash_fails(&self) {
        let seed = self.plan.faults.seed ^ u64::from(self.cuts + self.second_cuts) << 32;
        self.drive.lock().set_faults(Faults { seed, ..self.plan.faults }).expect("the drive has power");
    }

    /// Blocks that the drive has given up.
    pub fn bad_blocks(&self) -> u32 {
        self.drive.lock().smart().bad_blocks
    }

    fn end_mount(&mut self) -> LogFs {
        let fs = self.fs.take().expect("it is mounted");
        let synced = fs.syncs();
        self.syncs.listed += synced.listed;
        self.syncs.indexed += synced.indexed;
        self.syncs.checkpoints += synced.checkpoints;
        self.syncs.refused += synced.refused;
        self.syncs.units_in_place += synced.units_in_place;
        self.filled_units += fs.cleaner().filled_units;
        fs
    }

    fn fs(&mut self) -> &mut LogFs {
        self.fs.as_mut().expect("it is mounted")
    }

    fn fill(&mut self, units: usize) -> Step {
        let file = self.fs().create_in(FileId::ROOT, b"ballast", &new(FileKind::File))?;
        for unit in 0..units {
            self.fs().write_direct(file, (unit * UNIT) as u64, &[unit as u8; UNIT], None)?;
        }
        self.fs().sync_folder(FileId::ROOT)?;
        self.model.create(&(FileId::ROOT, "ballast".into()), FileKind::File, file, b"");
        for unit in 0..units {
            self.model.file(1).data.extend([unit as u8; UNIT]);
        }
        self.model.all_synced();
        Ok(())
    }

    /// From now on, one of this number of commands fails, in any way, or a step inside one, and then one of the next ones.
    pub fn commands_fail(&mut self, within: u64) {
        self.fail_within = within;
    }

    fn arm(&mut self) {
        let waits = self.fails_step && !self.drive.lock().step_has_failed();
        if self.fail_within == 0 || waits || self.drive.lock().fails_commands() {
            return;
        }
        self.nothing_fails();
        if self.rng.random_bool(0.4) {
            return self.arm_step();
        }
        let failure = CommandFailure::ALL[self.rng.random_range(0..CommandFailure::ALL.len())];
        let command = self.rng.random_range(1..=self.fail_within);
        self.drive.lock().fail_command(Some((command, failure)));
    }

    /// Reads are left out: their pages would be lost.
    fn arm_step(&mut self) {
        use FailingStep::{Buffer, Erase, Program, Reservation};
        let step =
            [Reservation, Reservation, Reservation, Buffer, Program, Erase][self.rng.random_range(0..6)];
        let after = self.rng.random_range(0..=2 * self.fail_within);
        // a drive has few blocks to lose
        let lasts = matches!(step, Reservation | Buffer) && self.rng.random();
        self.drive.lock().fail_step(Some(StepFault { step, after, lasts })).expect("the drive has power");
        self.fails_step = true;
    }

    /// Returns whether the step that was to fail has failed.
    fn nothing_fails(&mut self) -> bool {
        let mut device = self.drive.lock();
        let failed = device.step_has_failed();
        device.fail_command(None);
        if device.has_power() {
            device.fail_step(None).expect("the drive has power");
        }
        self.fails_step = false;
        failed
    }

    /// An operation failed with a command: what was synced is there, whatever the operation did. If the file system has
    /// stopped, it refuses changes and syncs.
    fn command_failed(&mut self) {
        self.failed += 1;
        self.failed_steps += u32::from(self.nothing_fails());
        if self.fs().stopped().is_some() {
            self.stopped += 1;
            assert!(self.fs().create_in(FileId::ROOT, b"never", &new(FileKind::File)).is_err());
            assert!(
                self.fs().sync_folder(FileId::ROOT).is_err(),
                "a sync after a change that failed half way"
            );
            assert!(self.fs().unlink(FileId::ROOT, b"name1", NOW).is_err());
        }
        let mut device = self.drive.lock();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        drop(device);
        self.power_comes_back();
    }

    /// One operation, and its checks.
    pub fn step(&mut self) {
        self.arm();
        let before = self.model.clone();
        let choice = match self.plan.kind {
            LfsKind::Tree if self.rng.random_bool(self.plan.snapshot_odds) => 200,
            _ => self.rng.random_range(0..100),
        };
        let result = match choice {
            200 => self.snapshot(),
            0..10 => self.create(),
            10..13 => self.symbolic_link(),
            13..16 => self.link(),
            16..22 => self.unlink(),
            22..29 => self.rename(),
            29..50 => self.write(false),
            50..60 => self.write(true),
            60..64 => self.set_size(),
            64..69 => self.empty_range(),
            69..71 => self.open_or_close(),
            71..83 => self.sync(),
            83..86 => self.sync_folder(),
            86..89 => self.read(),
            89..91 => self.attributes(),
            91..96 => self.clean(),
            96..97 => self.write_back(),
            97..98 => self.remount(),
            98..99 => self.crash(),
            _ => {
                self.check_all();
                Ok(())
            }
        };
        if !self.drive.lock().has_power() {
            self.nothing_fails();
            return self.power_comes_back();
        }
        match result {
            Ok(()) => {}
            Err(_) if self.fail_within > 0 => self.command_failed(),
            Err(Errno::ENOSPC) => {
                self.refusals += 1;
                self.model = before;
                (self.maybe_made, self.maybe_deleted) = (None, None);
                self.check_all();
            }
            Err(error) => panic!("an operation failed: {error}"),
        }
    }

    // -- choosing ---------------------------------------------------------------------------------------------------

    fn name(&mut self) -> String {
        let number = self.rng.random_range(0..12);
        if number == 0 { "long".repeat(60) } else { format!("name{number}") }
    }

    fn place(&mut self) -> Place {
        let folders = self.model.folders();
        let folder = folders[self.rng.random_range(0..folders.len())];
        (self.model.id(folder), self.name())
    }

    fn taken(&mut self) -> Option<(Place, u32)> {
        let count = self.model.names.len();
        let index = self.rng.random_range(0..count.max(1));
        self.model.names.iter().nth(index).map(|(place, number)| (place.clone(), *number))
    }

    fn content_file(&mut self) -> Option<u32> {
        let usable = |number: &u32| {
            let file = &self.model.files[number];
            file.kind == FileKind::File && (file.opens > 0 || self.model.names.values().any(|n| n == number))
        };
        let files: Vec<u32> = self.model.files.keys().copied().filter(usable).collect();
        (!files.is_empty()).then(|| files[self.rng.random_range(0..files.len())])
    }

    fn data(&mut self, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.rng.fill_bytes(&mut data);
        data
    }

    // -- names ------------------------------------------------------------------------------------------------------

    fn create(&mut self) -> Step {
        let place = self.place();
        let kind = if self.rng.random_bool(0.3) { FileKind::Folder } else { FileKind::File };
        let result = self.fs().create_in(place.0, place.1.as_bytes(), &new(kind));
        if self.model.names.contains_key(&place) {
            return expect(result.map(drop), Errno::EEXIST);
        }
        self.model.create(&place, kind, result?, b"");
        Ok(())
    }

    fn symbolic_link(&mut self) -> Step {
        let place = self.place();
        let bytes = self.rng.random_range(1..4096);
        let target = vec![b't'; bytes];
        let result =
            self.fs().create_symbolic_link(place.0, place.1.as_bytes(), &target, &new(FileKind::File));
        if self.model.names.contains_key(&place) {
            return expect(result.map(drop), Errno::EEXIST);
        }
        self.model.create(&place, FileKind::SymbolicLink, result?, &target);
        Ok(())
    }

    fn link(&mut self) -> Step {
        let (Some((_, number)), place) = (self.taken(), self.place()) else { return Ok(()) };
        let id = self.model.id(number);
        let result = self.fs().link(id, place.0, place.1.as_bytes(), NOW);
        if self.model.is_folder(number) {
            return expect(result, Errno::EPERM);
        }
        if self.model.names.contains_key(&place) {
            return expect(result, Errno::EEXIST);
        }
        self.model.link(&place, number);
        result
    }

    fn unlink(&mut self) -> Step {
        let Some((place, number)) = self.taken() else { return Ok(()) };
        if self.plan.left_units.is_some() && number == 1 {
            return Ok(());
        }
        let (folder, name) = (place.0, place.1.as_bytes());
        if !self.model.is_folder(number) {
            expect(self.fs().remove_folder(folder, name, NOW), Errno::ENOTDIR)?;
            self.model.unlink(&place);
            return self.fs().unlink(folder, name, NOW);
        }
        expect(self.fs().unlink(folder, name, NOW), Errno::EISDIR)?;
        let result = self.fs().remove_folder(folder, name, NOW);
        if !self.model.is_empty(number) {
            return expect(result, Errno::ENOTEMPTY);
        }
        self.model.unlink(&place);
        result
    }

    fn rename(&mut self) -> Step {
        let (Some((from, number)), mut to) = (self.taken(), self.place()) else { return Ok(()) };
        if let Some((other, _)) = self.taken().filter(|_| self.rng.random_bool(0.4)) {
            to = other;
        }
        if self.plan.left_units.is_some() && self.model.names.get(&to).is_some_and(|number| *number == 1) {
            return Ok(());
        }
        let _ = number;
        let mode = match self.rng.random_range(0..4) {
            0 => RenameMode::NoReplace,
            1 => RenameMode::Exchange,
            _ => RenameMode::Replace,
        };
        let allowed = self.model.may_rename(&from, &to, mode);
        if allowed == Ok(true) {
            self.model.rename(&from, &to, mode);
        }
        let result = self.fs().rename_in(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), mode, NOW);
        match allowed {
            Ok(_) => result,
            Err(()) => match result {
                Ok(()) => panic!("what the model refuses was done"),
                Err(Errno::EIO) => Err(Errno::EIO),
                Err(_) => Ok(()),
            },
        }
    }

    fn open_or_close(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let id = self.model.id(number);
        if self.model.files[&number].opens > 0 {
            self.model.file(number).opens -= 1;
            return self.fs().close(id);
        }
        self.model.file(number).opens += 1;
        self.fs().open(id)
    }

    // -- contents ---------------------------------------------------------------------------------------------------

    fn write(&mut self, direct: bool) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let (size, most) = (self.model.files[&number].data.len(), self.plan.most_bytes);
        let mut offset = self.rng.random_range(0..=(size + 30_000).min(most - UNIT));
        let mut bytes = self.rng.random_range(1..40_000).min(most - offset);
        if direct || self.rng.random_bool(0.3) {
            offset = offset / UNIT * UNIT;
            bytes = bytes.next_multiple_of(UNIT).min((most - offset) / UNIT * UNIT);
        }
        let data = self.data(bytes);
        self.model.file(number).write(offset, &data);
        let id = self.model.id(number);
        match direct {
            true => self.fs().write_direct(id, offset as u64, &data, None),
            false => self.fs().write(id, offset as u64, &data),
        }
    }

    fn set_size(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let size = self.rng.random_range(0..=self.plan.most_bytes);
        self.model.file(number).set_size(size);
        let (id, change) =
            (self.model.id(number), MetadataChange { size: Some(size as u64), ..Default::default() });
        self.fs().change_metadata(id, &change)
    }

    fn empty_range(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let (size, most) = (self.model.files[&number].data.len(), self.plan.most_bytes);
        let offset = self.rng.random_range(0..most);
        let bytes = self.rng.random_range(1..=(most - offset).min(60_000));
        let how = self.rng.random_range(0..4);
        let file = self.model.file(number);
        if how < 3 && offset < size {
            file.write(offset, &vec![0; size.min(offset + bytes) - offset]);
        }
        if how >= 2 && offset + bytes > size {
            file.set_size(offset + bytes);
        }
        let (id, offset, bytes) = (file.id, offset as u64, bytes as u64);
        match how {
            0..2 => self.fs().punch_hole(id, offset, bytes),
            2 => self.fs().zero_range(id, offset, bytes, false),
            _ => self.fs().allocate(id, offset, bytes, false),
        }
    }

    fn read(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        let expected = self.model.files[&number].data.clone();
        let mut offset = self.rng.random_range(0..=expected.len());
        let mut data = vec![0xee; self.rng.random_range(1..60_000)];
        if self.rng.random_bool(0.5) {
            offset = offset / UNIT * UNIT;
            data.resize(data.len().next_multiple_of(UNIT), 0xee);
        }
        let id = self.model.id(number);
        let bytes = self.fs().read(id, offset as u64, &mut data, None)?;
        let end = expected.len().min(offset + data.len());
        assert!(data[..bytes] == expected[offset.min(end)..end], "read at {offset} of file {number}");
        Ok(())
    }

    fn attributes(&mut self) -> Step {
        let Some((_, number)) = self.taken() else { return Ok(()) };
        let (id, bytes) = (self.model.id(number), self.rng.random_range(0..900));
        let value = self.rng.random_bool(0.8).then(|| self.data(bytes));
        let had_one = self.model.files[&number].attribute().is_some();
        self.model.file(number).set_attribute(value.clone());
        match value {
            Some(value) => self.fs().set_extended_attribute(id, ATTRIBUTE, &value, SetMode::Any),
            None if had_one => self.fs().remove_extended_attribute(id, ATTRIBUTE),
            None => expect(self.fs().remove_extended_attribute(id, ATTRIBUTE), Errno::ENODATA),
        }
    }

    fn attribute(&mut self, id: FileId) -> Option<Vec<u8>> {
        match self.fs().extended_attribute(id, ATTRIBUTE) {
            Err(Errno::ENODATA) => None,
            read => Some(read.unwrap()),
        }
    }

    fn sync(&mut self) -> Step {
        let Some(number) = self.content_file() else { return Ok(()) };
        self.model.syncs(number, false);
        let id = self.model.id(number);
        match self.rng.random_bool(0.5) {
            true => self.fs().sync(id)?,
            false => self.fs().sync_data(id)?,
        }
        self.model.syncs(number, true);
        Ok(())
    }

    fn sync_folder(&mut self) -> Step {
        let folder = self.place().0;
        self.fs().sync_folder(folder)?;
        self.model.names_are_durable();
        Ok(())
    }

    fn clean(&mut self) -> Step {
        match self.rng.random_range(0..8) {
            0 => self.fs().clean_all().map(drop)?,
            _ => drop(self.fs().clean_slice()?),
        }
        Ok(())
    }

    fn write_back(&mut self) -> Step {
        self.fs().write_back()?;
        self.model.all_synced();
        Ok(())
    }

    // -- snapshots --------------------------------------------------------------------------------------------------

    fn snapshot(&mut self) -> Step {
        if self.snapshots.len() < 3 && self.rng.random_bool(0.6) {
            let tree = self.tree();
            self.maybe_made = Some(tree.clone());
            let made = self.fs().create_snapshot(NOW)?;
            self.snapshots.insert(made, tree);
            self.model.all_synced();
            self.maybe_made = None;
        } else if let Some(number) = self.snapshots.keys().copied().next() {
            self.maybe_deleted = Some(number);
            self.fs().delete_snapshot(number)?;
            self.snapshots.remove(&number);
            self.model.all_synced();
            self.maybe_deleted = None;
        }
        if self.drive.lock().has_power() {
            self.compare_snapshots();
            self.start_again();
        }
        Ok(())
    }

    /// Checks that all names and contents are as in the model.
    fn tree(&self) -> Tree {
        let content = |file: &super::model::ModelFile| match file.kind {
            FileKind::SymbolicLink => file.target.clone(),
            _ => file.data.clone(),
        };
        let files = self.model.names.iter().map(|(place, number)| (place.clone(), &self.model.files[number]));
        files.map(|(place, file)| (place, (file.id, file.kind, content(file)))).collect()
    }

    /// After a crash: what was begun may be done or not.
    fn settle_snapshots(&mut self) {
        self.cut_creations += u32::from(self.maybe_made.is_some());
        self.cut_deletions += u32::from(self.maybe_deleted.is_some());
        let found: Vec<u32> = self.fs().snapshots().iter().map(|one| one.number).collect();
        if let Some(number) = self.maybe_deleted.take().filter(|number| !found.contains(number)) {
            self.snapshots.remove(&number);
        }
        let new = found.iter().find(|number| !self.snapshots.contains_key(number));
        if let (Some(tree), Some(number)) = (self.maybe_made.take(), new) {
            self.snapshots.insert(*number, tree);
        }
        assert_eq!(found, self.snapshots.keys().copied().collect::<Vec<_>>(), "snapshots");
    }

    /// Each snapshot has the contents at the time of its creation.
    fn compare_snapshots(&mut self) {
        self.nothing_fails();
        self.drive.lock().cut_after(None);
        for (number, expected) in self.snapshots.clone() {
            let mounted = LogFs::mount_snapshot(self.drive.client(), number, 0).expect("a snapshot mounts");
            let fs = self.fs.replace(mounted);
            let seen = self.see();
            let mut tree = Tree::new();
            for (place, (id, kind)) in seen {
                let content = match kind {
                    FileKind::SymbolicLink => self.fs().read_symbolic_link(id).unwrap(),
                    FileKind::File => self.content(id),
                    _ => Vec::new(),
                };
                tree.insert(place, (id, kind, content));
            }
            assert!(tree == expected, "snapshot {number} is not what it was");
            let refused = self.fs().create_in(FileId::ROOT, b"x", &new(FileKind::File));
            assert_eq!(refused, Err(Errno::EROFS));
            sound(self.fs());
            self.fs = fs;
            self.compared += 1;
        }
    }

    // -- crashes ----------------------------------------------------------------------------------------------------

    fn remount(&mut self) -> Step {
        self.nothing_fails();
        self.drive.lock().cut_after(None);
        match self.end_mount().unmount() {
            Ok(client) => drop(client),
            Err(failed) => panic!("{}", failed.1),
        }
        self.model.all_synced();
        self.model.files.values_mut().for_each(|file| file.opens = 0);
        self.fs = Some(LogFs::mount(self.drive.client(), self.plan.cache_bytes).expect("it mounts"));
        self.model.all_synced();
        self.compare_snapshots();
        self.start_again();
        Ok(())
    }

    fn crash(&mut self) -> Step {
        self.nothing_fails();
        self.drive.lock().cut_after(None);
        drop(self.end_mount());
        self.fs = Some(LogFs::mount(self.drive.client(), self.plan.cache_bytes).expect("it mounts"));
        self.find_what_is_left();
        Ok(())
    }

    /// Cuts power once, after this number of flash operations from now on.
    pub fn cut_once(&mut self, operations: u64) {
        self.cut_at = Some(self.drive.lock().flash_operations() + operations);
        self.start_again();
    }

    /// Whether the drive reached the flash operation at which power is cut once.
    pub fn came_to_cut(&self) -> bool {
        self.cut_at.is_none_or(|at| self.cuts > 0 || self.drive.lock().flash_operations() >= at)
    }

    fn power_comes_back(&mut self) {
        self.cuts += 1;
        drop(self.end_mount());
        loop {
            let seed = self.rng.random();
            self.drive.lock().power_on(&mut PowerLoss::seeded(seed)).expect("the drive recovers");
            self.flash_fails();
            let again = self.rng.random_bool(0.6).then(|| self.rng.random_range(1..8));
            self.drive.lock().cut_after(again);
            match LogFs::mount(self.drive.client(), self.plan.cache_bytes) {
                Ok(fs) if self.drive.lock().has_power() => {
                    self.fs = Some(fs);
                    break;
                }
                Err(error) if self.drive.lock().has_power() => panic!("it does not mount: {error}"),
                _ => self.second_cuts += 1,
            }
        }
        self.drive.lock().cut_after(None);
        self.find_what_is_left();
    }

    fn see(&mut self) -> BTreeMap<Place, (FileId, FileKind)> {
        let mut seen = BTreeMap::new();
        let mut folders = vec![FileId::ROOT];
        while let Some(folder) = folders.pop() {
            let mut found = Vec::new();
            let mut take = |entry: tantalum_filesystem::FolderEntry<'_>| {
                found.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.file, entry.kind));
                ControlFlow::Continue(())
            };
            self.fs().read_folder(folder, 0, &mut take).unwrap();
            for (name, file, kind) in found {
                seen.insert((folder, name), (file, kind));
                if kind == FileKind::Folder {
                    folders.push(file);
                }
            }
        }
        seen
    }

    fn content(&mut self, id: FileId) -> Vec<u8> {
        let size = self.fs().metadata(id).unwrap().size as usize;
        let mut data = vec![0xee; size + 100];
        let bytes = self.fs().read(id, 0, &mut data, None).unwrap();
        assert_eq!(bytes, size);
        data.truncate(bytes);
        data
    }

    fn find_what_is_left(&mut self) {
        self.crashes += 1;
        self.settle_snapshots();
        self.compare_snapshots();
        sound(self.fs());
        let seen = self.see();
        let Some(names) = self.model.find_names(&seen) else {
            let allowed = self.model.history_of_ids();
            panic!("after crash {} names are\n{seen:#?}\nbut only these may be:\n{allowed:#?}", self.crashes);
        };
        let (mut contents, mut attributes) = (BTreeMap::new(), BTreeMap::new());
        for number in names.values() {
            let file = self.model.files[number].clone();
            let attribute = self.attribute(file.id);
            assert!(file.may_have(&attribute), "after crash {} attributes of file {number}", self.crashes);
            attributes.insert(*number, attribute);
            if file.kind == FileKind::File {
                let data = self.content(file.id);
                if let Some(why) = file.forbids(&data) {
                    panic!("after crash {} file {number} ({}) has {why}", self.crashes, file.id);
                }
                contents.insert(*number, data);
            }
        }
        self.model.continue_with(names, contents, attributes);
        self.start_again();
    }

    fn start_again(&mut self) {
        self.check_all();
        if let Some(within) = self.plan.cut_within {
            let operations = self.rng.random_range(1..=within);
            self.drive.lock().cut_after(Some(operations));
        }
        let mut drive = self.drive.lock();
        let left = self.cut_at.and_then(|at| at.checked_sub(drive.flash_operations()));
        if let Some(left) = left.filter(|_| self.cuts == 0) {
            drive.cut_after(Some(left.max(1)));
        }
    }

    pub fn check_all(&mut self) {
        self.nothing_fails();
        let seen = self.see();
        let ids: BTreeMap<Place, FileId> = seen.iter().map(|(place, (id, _))| (place.clone(), *id)).collect();
        let expected = self.model.names.iter().map(|(place, file)| (place.clone(), self.model.id(*file)));
        assert_eq!(ids, expected.collect());
        for number in self.model.names.clone().into_values() {
            let file = self.model.files[&number].clone();
            let metadata = self.fs().metadata(file.id).unwrap();
            assert_eq!(
                (metadata.kind, metadata.links),
                (file.kind, self.model.links(number)),
                "file {number}"
            );
            assert_eq!(self.attribute(file.id).as_ref(), file.attribute(), "attribute of file {number}");
            match file.kind {
                FileKind::File => {
                    let data = self.content(file.id);
                    let difference = data.iter().zip(&file.data).position(|(a, b)| a != b);
                    assert_eq!((data.len(), difference), (file.data.len(), None), "content of file {number}");
                }
                FileKind::SymbolicLink => {
                    assert_eq!(self.fs().read_symbolic_link(file.id).unwrap(), file.target);
                }
                _ => {}
            }
        }
        sound(self.fs());
    }

    /// Without files, all space is free again.
    pub fn finish(mut self) -> Run {
        if !self.drive.lock().has_power() {
            self.power_comes_back();
        }
        (self.plan.cut_within, self.cut_at, self.fail_within) = (None, None, 0);
        self.drive.lock().cut_after(None);
        self.nothing_fails();
        self.remount().unwrap();
        for number in std::mem::take(&mut self.snapshots).into_keys() {
            self.fs().delete_snapshot(number).unwrap();
        }
        self.empty_folder(ROOT_FILE);
        self.fs().sync_folder(FileId::ROOT).unwrap();
        sound(self.fs());
        let statistics = self.fs().statistics();
        let used = statistics.units - statistics.free_units;
        assert_eq!((statistics.files, used), (1, super::units_when_empty(self.plan.kind)), "{statistics:?}");
        self
    }

    fn empty_folder(&mut self, number: u32) {
        let id = self.model.id(number);
        let inside: Vec<(Place, u32)> = self
            .model
            .names
            .iter()
            .filter(|(place, _)| place.0 == id)
            .map(|(p, n)| (p.clone(), *n))
            .collect();
        for (place, file) in inside {
            let name = place.1.as_bytes();
            if self.model.is_folder(file) {
                self.empty_folder(file);
                self.fs().remove_folder(id, name, NOW).unwrap();
            } else {
                self.fs().unlink(id, name, NOW).unwrap();
            }
        }
    }
}

/// What the model refuses, the file system refuses with the same error, unless power is lost.
fn expect(result: Step, errno: Errno) -> Step {
    match result {
        // a command failed, or power did
        Err(found @ (Errno::EIO | Errno::EROFS | Errno::ENOSPC)) if found != errno => Err(found),
        Err(found) => {
            assert_eq!(found, errno);
            Ok(())
        }
        Ok(()) => panic!("what the model refuses with {errno} was done"),
    }
}

/// What happened in some runs.
#[derive(Default, Debug)]
pub struct Totals {
    pub crashes: u32,
    pub second_cuts: u32,
    pub refusals: u32,
    /// Snapshots that were compared.
    pub compared: u32,
    /// Power failed this often while a snapshot was created, and while one was deleted.
    pub cut_creations: u32,
    pub cut_deletions: u32,
    pub listed_syncs: u64,
    /// Syncs of files that the drive refused to list.
    pub refused_lists: u64,
    /// Units that were written in place.
    pub units_in_place: u64,
    /// Units that went into holes of full segments.
    pub filled_units: u64,
    /// Blocks that the drives gave up.
    pub bad_blocks: u32,
}

/// Runs seeds of a plan.
pub fn run_seeds(kind: LfsKind, seeds: u64, steps: u32, plan: impl Fn(u64) -> Plan) -> Totals {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let one: Option<u64> = number("LFS_SEED");
    let seeds = number("LFS_SEEDS").unwrap_or(seeds);
    let mut total = Totals::default();
    for seed in one.map_or(0..seeds, |seed| seed..seed + 1) {
        let failed = FailedSeed(kind, seed);
        let mut run = Run::new(seed, Plan { kind, ..plan(seed) });
        for _ in 0..steps {
            run.step();
        }
        let run = run.finish();
        total.crashes += run.crashes;
        total.second_cuts += run.second_cuts;
        total.refusals += run.refusals;
        total.listed_syncs += run.syncs.listed;
        total.refused_lists += run.syncs.refused;
        total.units_in_place += run.syncs.units_in_place;
        total.filled_units += run.filled_units;
        total.compared += run.compared;
        total.cut_creations += run.cut_creations;
        total.cut_deletions += run.cut_deletions;
        total.bad_blocks += run.bad_blocks();
        std::mem::forget(failed);
    }
    total
}

/// Names the seed if the run panics.
struct FailedSeed(LfsKind, u64);

impl Drop for FailedSeed {
    fn drop(&mut self) {
        eprintln!("{:?} failed with LFS_SEED={}", self.0, self.1);
    }
}
