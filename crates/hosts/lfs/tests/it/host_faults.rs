//! Files on an image whose host fails: a call on the image's file fails, once or from then on, while files are created, written,
//! renamed, removed and synced. The file system is closed, dropped, or its process or the machine ends. Then what was synced is
//! there, and nothing that was never written: before it is closed, when the image is opened without room, after a second failure,
//! and with room.
//!
//! This covers the volume and both log-structured file systems, on images that are mapped, stored to by the kernel, reached by
//! system calls, synced to survive the loss of the machine, and overlaid. `HOST_SEED=17` runs one seed, `HOST_SEEDS=100` runs
//! 100. Each call of a short workload fails once with `HOST_CALLS=all`; by default about a dozen of them do.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use common::{NOW, ROOT, SMALL_CACHE, new, profile_with};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, DeviceError, HostError, HostFailure, HostFault, Mapping, Status, TestHost};
use tantalum_drive::Drive;
use tantalum_filesystem::{Errno, FileId, FileKind, FileSystem, RenameMode};
use tantalum_lfs::{Cleaning, LfsError, LfsKind, LogFs};
use tantalum_volume::{Volume, VolumeError};
use tempfile::TempDir;

const UNIT: usize = 4096;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const MOST_BYTES: usize = 12 * UNIT;

#[derive(Clone, Copy, Debug)]
enum What {
    Volume,
    Log(LfsKind),
}

const ALL: [What; 3] = [What::Volume, What::Log(LfsKind::Nat), What::Log(LfsKind::Tree)];

const WAYS: [(Mapping, Access); 5] = [
    (Mapping::Allowed, Access::Write),
    (Mapping::Never, Access::Write),
    (Mapping::Allowed, Access::Ordered),
    (Mapping::Never, Access::Ordered),
    (Mapping::Never, Access::Overlay),
];

/// Why an image, or what is on it, could not be opened.
struct Unopened {
    text: String,
    host: Option<HostError>,
}

impl fmt::Debug for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<DeviceError> for Unopened {
    fn from(error: DeviceError) -> Unopened {
        Unopened { text: error.to_string(), host: error.host().cloned() }
    }
}

fn unopened(error: impl ToString, status: Option<Status>) -> Unopened {
    let host = match status {
        Some(Status::Host(host)) => Some(host),
        _ => None,
    };
    Unopened { text: error.to_string(), host }
}

impl What {
    fn mount(self, device: Device) -> Result<Box<dyn FileSystem>, Unopened> {
        match self {
            What::Volume => match Volume::mount(device, SMALL_CACHE) {
                Ok(volume) => Ok(Box::new(volume)),
                Err(VolumeError::Device(status)) => Err(unopened(&status, Some(status.clone()))),
                Err(error) => Err(unopened(error, None)),
            },
            What::Log(_) => match LogFs::mount(device, SMALL_CACHE) {
                Ok(fs) => Ok(Box::new(fs)),
                Err(LfsError::Device(status) | LfsError::Stopped(status)) => {
                    Err(unopened(&status, Some(status.clone())))
                }
                Err(error) => Err(unopened(error, None)),
            },
        }
    }

    /// Creates an image with an empty file system.
    fn create(self, path: &Path) {
        let device = Device::create(path, &profile_with(16, 0, None)).unwrap();
        let client = match self {
            What::Volume => Volume::format(device, SMALL_CACHE).unwrap().unmount().unwrap(),
            What::Log(kind) => {
                let client = Drive::new(device).client();
                LogFs::format(client, kind, Cleaning::Copy, SMALL_CACHE).unwrap().unmount().unwrap()
            }
        };
        let device = client.into_device().unwrap();
        let now_ns = device.time_ns();
        device.shutdown(now_ns).unwrap();
    }
}

/// A file, and all that it was since it was last durable, which comes first.
#[derive(Clone, Debug)]
struct File {
    data: Vec<u8>,
    since: Vec<Vec<u8>>,
}

impl File {
    fn may_be(&self, found: &[u8]) -> bool {
        let byte = |was: &Vec<u8>, at: usize| was.get(at).copied().unwrap_or(0);
        self.since.iter().any(|was| was.len() == found.len())
            && found
                .iter()
                .enumerate()
                .all(|(at, found)| self.since.iter().any(|was| byte(was, at) == *found))
    }
}

/// Files by number, and the numbers of the files that each name may have, of which the last is the one that it has.
#[derive(Clone, Debug, Default)]
struct Model {
    files: BTreeMap<u32, File>,
    names: BTreeMap<&'static str, Option<u32>>,
    possible: BTreeMap<&'static str, BTreeSet<Option<u32>>>,
    next: u32,
}

impl Model {
    fn number(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied().flatten()
    }

    fn name(&mut self, name: &'static str, number: Option<u32>) {
        let before = self.number(name);
        self.possible.entry(name).or_insert_with(|| BTreeSet::from([before])).insert(number);
        self.names.insert(name, number);
    }

    fn synced(&mut self, name: &'static str) {
        let number = self.number(name).expect("a file that was synced has a name");
        let file = self.files.get_mut(&number).expect("and contents");
        file.since = vec![file.data.clone()];
        self.possible.insert(name, BTreeSet::from([Some(number)]));
    }

    fn names_synced(&mut self) {
        self.possible = self.names.iter().map(|(name, number)| (*name, BTreeSet::from([*number]))).collect();
    }

    /// The files that a name may have.
    fn numbers(&self, name: &str) -> BTreeSet<Option<u32>> {
        self.possible.get(name).cloned().unwrap_or_else(|| BTreeSet::from([None]))
    }

    /// The file that a name has, if it can be one with these contents.
    fn which(&self, name: &str, data: Option<&Vec<u8>>) -> Option<Option<u32>> {
        let is_it = |number: &Option<u32>| match (number, data) {
            (None, None) => true,
            (Some(number), Some(data)) => self.files[number].may_be(data),
            _ => false,
        };
        self.numbers(name).into_iter().find(is_it)
    }

    /// A number for a file that was found: this one, unless another file that was found has it. Two files with the same contents may
    /// each be the one with that number, and went by one number from then on.
    fn own_number(&mut self, number: u32) -> u32 {
        match self.files.contains_key(&number) {
            true => {
                self.next += 1;
                self.next - 1
            }
            false => number,
        }
    }

    /// What is found becomes what there is; false if it cannot be.
    fn find(&self, found: &BTreeMap<String, Vec<u8>>) -> Result<Model, String> {
        let mut now = Model { next: self.next, ..Model::default() };
        for name in NAMES {
            let data = found.get(name);
            let Some(number) = self.which(name, data) else {
                let (length, numbers) = (data.map(Vec::len), self.numbers(name));
                return Err(format!("{name} has {length:?} bytes, and is none of the files {numbers:?}"));
            };
            let number = number.map(|number| now.own_number(number));
            now.names.insert(name, number);
            if let (Some(number), Some(data)) = (number, data) {
                now.files.insert(number, File { data: data.clone(), since: vec![data.clone()] });
            }
        }
        if let Some(name) = found.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!("{name} was never there"));
        }
        now.names_synced();
        Ok(now)
    }
}

/// An image in a folder of its own.
struct Image {
    what: What,
    path: PathBuf,
    access: Access,
    host: TestHost,
    random: Xoshiro256PlusPlus,
    _folder: TempDir,
}

/// A mounted file system, and why it can only be read, if it can.
type Opened = (Box<dyn FileSystem>, Option<Status>);

impl Image {
    fn new(what: What, (mapping, access): (Mapping, Access), seed: u64) -> Image {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.tant");
        what.create(&path);
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Image { what, path, access, host: TestHost::new(mapping, seed), random, _folder: folder }
    }

    fn open(&self) -> Result<Opened, Unopened> {
        let open = |access| self.what.mount(Device::open_on(&self.path, access, &self.host)?);
        let (fs, why) = Device::or_read(self.access, open, |error: &Unopened| error.host.as_ref())?;
        if let Some(why) = &why {
            fs.client().device().refuse_changes(why.clone());
        }
        Ok((fs, why))
    }

    /// Makes durable on the host's disk what is durable on the drive.
    fn sync_host(&self, fs: &dyn FileSystem) -> bool {
        let begun = fs.client().device().sync_begin();
        match begun {
            Ok(None) => true,
            Ok(Some(sync)) => sync.run().is_ok() && fs.client().device().sync_end().is_ok(),
            Err(_) => false,
        }
    }

    /// Works until something fails, or `steps` are done.
    fn live(&self, fs: &mut dyn FileSystem, model: &mut Model, steps: u32, seed: u64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..steps {
            if !self.step(fs, model, &mut random) {
                return;
            }
        }
    }

    /// Does something. Whatever a step that fails may have done is possible from then on.
    fn step(&self, fs: &mut dyn FileSystem, model: &mut Model, random: &mut Xoshiro256PlusPlus) -> bool {
        let name = NAMES[random.random_range(0..NAMES.len())];
        let Some(number) = model.number(name) else {
            model.files.insert(model.next, File { data: Vec::new(), since: vec![Vec::new()] });
            model.name(name, Some(model.next));
            model.next += 1;
            return fs.create_in(ROOT, name.as_bytes(), &new(FileKind::File)).is_ok();
        };
        let Ok(file) = fs.lookup(ROOT, name.as_bytes()) else { return false };
        match random.random_range(0..12) {
            0 => {
                model.name(name, None);
                fs.unlink(ROOT, name.as_bytes(), NOW).is_ok()
            }
            1 => {
                let other = NAMES[random.random_range(0..NAMES.len())];
                if other == name {
                    return true;
                }
                model.name(other, Some(number));
                model.name(name, None);
                let mode = RenameMode::Replace;
                fs.rename_in(ROOT, name.as_bytes(), ROOT, other.as_bytes(), mode, NOW).is_ok()
            }
            2 => {
                let synced = fs.sync_folder(ROOT).is_ok() && self.sync_host(fs);
                if synced {
                    model.names_synced();
                }
                synced
            }
            3..=6 => {
                let synced = fs.sync(file).is_ok() && self.sync_host(fs);
                if synced {
                    model.synced(name);
                }
                synced
            }
            _ => {
                let at = random.random_range(0..MOST_BYTES);
                let bytes = random.random_range(1..3 * UNIT);
                let data = vec![random.random_range(1..=255); bytes];
                let file_model = model.files.get_mut(&number).expect("it is there");
                file_model.data.resize(file_model.data.len().max(at + bytes), 0);
                file_model.data[at..at + bytes].copy_from_slice(&data);
                file_model.since.push(file_model.data.clone());
                fs.write(file, at as u64, &data).is_ok()
            }
        }
    }

    /// After its host has failed the file system is read: each name and each content is one that there was, or an error, and
    /// if the drive has ended nothing can be made durable. Returns how many files could be read, and how many not.
    fn reads_go_on(&self, fs: &mut dyn FileSystem, model: &Model) -> [u32; 2] {
        let mut counts = [0; 2];
        let ended = fs.client().device().ended();
        if self.host.faults.failed().is_none() {
            return counts;
        }
        for name in NAMES {
            let found = match read_named(fs, name) {
                Ok(data) => Some(data),
                Err(Errno::ENOENT) => None,
                Err(error) => {
                    assert_eq!(error, Errno::EIO, "{name}");
                    counts[1] += 1;
                    continue;
                }
            };
            counts[0] += u32::from(found.is_some());
            let length = found.as_ref().map(Vec::len);
            let number = model.which(name, found.as_ref());
            assert!(number.is_some(), "{name} has {length:?} bytes, and is none of the files that it may be");
            if let Ok(file) = fs.lookup(ROOT, name.as_bytes())
                && ended.is_some()
            {
                assert!(fs.sync(file).is_err(), "{name} was synced after the host had failed");
            }
        }
        let made = ended.map(|_| fs.create_in(ROOT, b"new", &new(FileKind::File)));
        assert!(made.is_none_or(|made| made.is_err()), "a change is refused");
        counts
    }

    /// The file system is closed or dropped; its process or the machine may end.
    fn leave(&mut self, fs: Box<dyn FileSystem>, model: &mut Model) {
        let ways = if self.access == Access::Ordered { 4 } else { 3 };
        let (way, mut is_closed) = (self.random.random_range(0..ways), false);
        match way {
            0 => {
                if let Ok(client) = fs.unmount() {
                    let device = client.into_device().unwrap();
                    let now_ns = device.time_ns();
                    is_closed = device.shutdown(now_ns).is_ok();
                }
            }
            1 => drop(fs),
            _ => {
                self.host.life.end();
                drop(fs);
                self.host.life.end_after(None);
            }
        }
        // as long as the host's cache has what was written to it
        if is_closed && self.host.faults.failed().is_none() && self.access != Access::Overlay {
            model.files.values_mut().for_each(|file| file.since = vec![file.data.clone()]);
            model.names_synced();
        }
        if way == 3 {
            self.host.faults.lose_machine(&self.path).unwrap();
        }
    }

    fn check(&self, model: &Model, fs: &mut dyn FileSystem) -> Model {
        model.find(&contents(fs).expect("what is there can be read")).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Opens the image without room, with a second failure, and with room.
    fn find(&mut self, model: &mut Model) {
        self.host.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true });
        let (mut fs, why) = self.open().expect("it opens without room");
        self.check(model, &mut *fs);
        if why.is_some() {
            self.refuses_changes(&mut *fs, model);
        }
        drop(fs);
        let after = self.random.random_range(0..200);
        let failure = [HostFailure::Io, HostFailure::NoSpace][self.random.random_range(0..2)];
        self.host.faults.fail(HostFault { after, failure, lasts: self.random.random_ratio(1, 2) });
        let opened = self.open();
        match opened {
            Ok((mut fs, _)) => {
                if let Ok(found) = contents(&mut *fs) {
                    model.find(&found).unwrap_or_else(|why| panic!("after a second failure: {why}"));
                }
                self.host.life.end();
                drop(fs);
            }
            Err(error) => assert!(self.host.faults.failed().is_some(), "it does not open: {error:?}"),
        }
        self.host.life.end_after(None);
        self.host.faults.heal();
        let (mut fs, why) = self.open().expect("it opens with room");
        assert_eq!(why, None, "the host is well");
        *model = self.check(model, &mut *fs);
        if self.access == Access::Ordered {
            assert!(self.sync_host(&*fs), "the host is well");
        }
        drop(fs);
    }

    /// A drive that can only be read says so, and goes on to be read.
    fn refuses_changes(&self, fs: &mut dyn FileSystem, model: &Model) {
        let refused = match fs.create_in(ROOT, b"new", &new(FileKind::File)) {
            Ok(file) => fs.sync(file).expect_err("nothing can be made durable"),
            Err(errno) => errno,
        };
        assert_eq!(refused, Errno::EROFS);
        for (name, number) in &model.names {
            if let Some(number) = number
                && let Ok(file) = fs.lookup(ROOT, name.as_bytes())
            {
                let mut data = vec![0; MOST_BYTES + 4 * UNIT];
                let bytes = fs.read(file, 0, &mut data, None).expect("reads go on");
                assert!(number < &model.next && bytes <= data.len());
            }
        }
    }
}

/// All files by name.
fn contents(fs: &mut dyn FileSystem) -> Result<BTreeMap<String, Vec<u8>>, Errno> {
    let mut files: Vec<(String, FileId)> = Vec::new();
    fs.read_folder(ROOT, 0, &mut |entry| {
        files.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.file));
        ControlFlow::Continue(())
    })?;
    files.into_iter().map(|(name, file)| Ok((name, read(fs, file)?))).collect()
}

fn read(fs: &mut dyn FileSystem, file: FileId) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; MOST_BYTES + 4 * UNIT];
    let bytes = fs.read(file, 0, &mut data, None)?;
    data.truncate(bytes);
    Ok(data)
}

fn read_named(fs: &mut dyn FileSystem, name: &str) -> Result<Vec<u8>, Errno> {
    let file = fs.lookup(ROOT, name.as_bytes())?;
    read(fs, file)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs `work`, and says for what it failed if it does.
fn named<T>(what: &str, work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        eprintln!("failed: {what}");
        std::panic::resume_unwind(panic)
    })
}

/// One life on a new image in which call number `call` fails. None if there were fewer calls; otherwise how many files could be
/// read after that, and how many not.
fn fail_at(
    what: What,
    way: (Mapping, Access),
    call: u64,
    failure: HostFailure,
    lasts: bool,
) -> Option<[u32; 2]> {
    let mut image = Image::new(what, way, call);
    let mut model = Model::default();
    let mut counts = [0; 2];
    image.host.faults.fail(HostFault { after: call, failure, lasts });
    match image.open() {
        Ok((mut fs, None)) => {
            image.live(&mut *fs, &mut model, 40, 7);
            counts = image.reads_go_on(&mut *fs, &model);
            image.leave(fs, &mut model);
        }
        Ok((fs, Some(_))) => drop(fs),
        Err(error) => assert!(image.host.faults.failed().is_some(), "it does not open: {error:?}"),
    }
    image.host.life.end_after(None);
    let failed = image.host.faults.failed().is_some();
    if way.1 == Access::Overlay {
        // nothing of that life is in the image
        model = Model::default();
    }
    image.find_as_it_is(&mut model);
    failed.then_some(counts)
}

impl Image {
    /// An overlay leaves the image as it was.
    fn find_as_it_is(&mut self, model: &mut Model) {
        if self.access == Access::Overlay {
            self.access = Access::Write;
        }
        self.find(model);
    }
}

#[test]
fn what_was_synced_is_there_whichever_call_of_the_host_fails() {
    let all = std::env::var("HOST_CALLS").is_ok_and(|text| text == "all");
    let mut files_read = 0;
    for (index, what) in ALL.into_iter().enumerate() {
        for (number, way) in WAYS.into_iter().enumerate() {
            let (mut failures, mut read, mut refused) = (0, 0, 0);
            for (failure, lasts) in [(HostFailure::Io, false), (HostFailure::NoSpace, true)] {
                let mut call = ((index + number) % 4) as u64;
                let life = format!("{what:?}, {way:?}, {failure:?}, lasts: {lasts}");
                while let Some(counts) =
                    named(&format!("{life}, at call {call}"), || fail_at(what, way, call, failure, lasts))
                {
                    failures += 1;
                    (read, refused) = (read + counts[0], refused + counts[1]);
                    call += if all { 1 } else { 3 + call };
                }
            }
            println!("{what:?}, {way:?}: {failures} calls failed; then {read} files read, {refused} not");
            assert!(failures > 4, "{what:?}, {way:?}: only {failures} calls failed");
            assert!(read >= 2 * refused, "{what:?}, {way:?}: {read} files read, {refused} not");
            files_read += read;
        }
    }
    // an opening asks the host for little, so fewer of the calls that are chosen come after it
    assert!(files_read > 80, "{files_read} files were read after their host had failed");
}

/// Many lives on one image, each until its host fails. Returns how often it did, and how many files could then be read, and how
/// many not.
fn long_life(what: What, seed: u64) -> [u64; 3] {
    let mut image = Image::new(what, WAYS[seed as usize % (WAYS.len() - 1)], seed);
    let mut model = Model::default();
    let (mut failures, mut read, mut refused) = (0, 0, 0);
    for life in 0..8 {
        let shift = image.random.random_range(0..6);
        let after = image.random.random_range(0..2000_u64 >> shift);
        let failure = [HostFailure::Io, HostFailure::NoSpace][image.random.random_range(0..2)];
        let lasts = image.random.random_ratio(1, 2);
        image.host.faults.fail(HostFault { after, failure, lasts });
        match image.open() {
            Ok((mut fs, None)) => {
                image.live(&mut *fs, &mut model, 300, seed << 8 | life);
                let [now_read, now_refused] = image.reads_go_on(&mut *fs, &model);
                (read, refused) = (read + u64::from(now_read), refused + u64::from(now_refused));
                image.leave(fs, &mut model);
            }
            Ok((fs, Some(_))) => drop(fs),
            Err(error) => assert!(image.host.faults.failed().is_some(), "it does not open: {error:?}"),
        }
        image.host.life.end_after(None);
        failures += u64::from(image.host.faults.failed().is_some());
        image.find(&mut model);
    }
    [failures, read, refused]
}

#[test]
fn what_was_synced_is_there_on_hosts_that_fail_again_and_again() {
    let seeds = number("HOST_SEED").map_or(0..number("HOST_SEEDS").unwrap_or(10), |seed| seed..seed + 1);
    let count = seeds.end - seeds.start;
    for what in ALL {
        let run = |seed| named(&format!("{what:?}, HOST_SEED={seed}"), || long_life(what, seed));
        let [failures, read, refused] =
            seeds.clone().map(run).fold([0; 3], |sum, more| [0, 1, 2].map(|index| sum[index] + more[index]));
        println!(
            "{what:?}: the host failed {failures} times in {count} seeds; {read} files read, {refused} not"
        );
        assert!(failures > count, "{what:?}: the host failed only {failures} times");
    }
}
