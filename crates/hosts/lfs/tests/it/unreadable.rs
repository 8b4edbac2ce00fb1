//! Flash that can no longer be read. Lost data are refused with `EIO`; nothing reads as something else, no file is lost
//! with the flash of another, and what was written and synced meanwhile is there.

use crate::common;

use std::collections::BTreeMap;

use common::{KINDS, ROOT, SMALL_CACHE, SOUND, device, new};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Faults, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{Attributes, Content, Errno, FileKind, Names};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

const FILES: u32 = 12;

/// What a unit of a file may hold: what was durable, and what was written since and may be there or not.
type Unit = Vec<[u8; UNIT_BYTES]>;

#[derive(Default, Debug)]
struct Totals {
    right: u64,
    refused: u64,
    refused_mounts: u64,
    written: u64,
}

struct Run {
    drive: Drive,
    fs: LogFs,
    rng: Xoshiro256PlusPlus,
    files: BTreeMap<u32, Vec<Unit>>,
    totals: Totals,
    /// It did not mount.
    is_over: bool,
}

fn name(file: u32) -> Vec<u8> {
    format!("file{file}").into_bytes()
}

impl Run {
    fn new(seed: u64, kind: LfsKind, cleaning: Cleaning, indexing: Indexing) -> Run {
        let drive = Drive::new(device(16));
        let fs = LogFs::format_indexed(drive.client(), kind, cleaning, indexing, SMALL_CACHE).unwrap();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut run =
            Run { drive, fs, rng, files: BTreeMap::new(), totals: Totals::default(), is_over: false };
        for file in 0..FILES {
            let id = run.fs.create_in(ROOT, &name(file), &new(FileKind::File)).unwrap();
            let units: Vec<_> = (0..run.rng.random_range(20..200)).map(|_| run.page()).collect();
            run.fs.write(id, 0, units.as_flattened()).unwrap();
            run.files.insert(file, units.into_iter().map(|page| vec![page]).collect());
        }
        run.fs.sync_folder(ROOT).unwrap();
        for file in 0..FILES {
            let id = run.fs.lookup(ROOT, &name(file)).unwrap();
            run.fs.sync(id).unwrap();
        }
        run
    }

    fn page(&mut self) -> [u8; UNIT_BYTES] {
        let mut page = [0; UNIT_BYTES];
        self.rng.fill_bytes(&mut page);
        page
    }

    fn fail_reads(&self, read_failure_ppm: u32) {
        self.drive.lock().set_faults(Faults { read_failure_ppm, seed: 7, ..SOUND }).unwrap();
    }

    /// Something that programs or the cleaner do.
    fn step(&mut self) {
        if self.is_over {
            return;
        }
        let file = self.rng.random_range(0..FILES);
        match self.rng.random_range(0..10) {
            0 => allow(self.fs.clean_all().map_err(Errno::from)),
            1 => allow(self.fs.clean_slice().map_err(Errno::from)),
            2 => allow(self.fs.sync_folder(ROOT)),
            3..7 => self.write(file),
            7 => self.crash(),
            _ => self.compare(file),
        };
    }

    fn write(&mut self, file: u32) {
        let Some(id) = allow_some(self.fs.lookup(ROOT, &name(file))) else { return };
        let unit = self.rng.random_range(0..self.files[&file].len());
        let page = self.page();
        let states = &mut self.files.get_mut(&file).expect("it exists")[unit];
        states.push(page);
        let is_written = self.fs.write(id, (unit * UNIT_BYTES) as u64, &page);
        if is_written.and_then(|()| self.fs.sync(id)).map_err(expect_refusal).is_ok() {
            self.totals.written += 1;
            self.files.get_mut(&file).expect("it exists")[unit] = vec![page];
        }
    }

    /// The host crashes; if the file system can no longer be mounted, the run is over.
    fn crash(&mut self) {
        match LogFs::mount(self.drive.client(), SMALL_CACHE) {
            Ok(fs) => self.fs = fs,
            Err(error) => {
                expect_refusal(error.into());
                self.totals.refused_mounts += 1;
                self.is_over = true;
            }
        }
    }

    fn compare(&mut self, file: u32) {
        let Some(id) = allow_some(self.fs.lookup(ROOT, &name(file))) else { return };
        let Some(metadata) = allow_some(self.fs.metadata(id)) else { return };
        let units = &self.files[&file];
        assert_eq!(metadata.size, (units.len() * UNIT_BYTES) as u64, "file {file}");
        for (unit, states) in units.iter().enumerate() {
            let mut data = [0; UNIT_BYTES];
            match self.fs.read(id, (unit * UNIT_BYTES) as u64, &mut data, None) {
                Ok(bytes) => {
                    assert_eq!(bytes, UNIT_BYTES);
                    assert!(states.contains(&data), "unit {unit} of file {file} is something else");
                    self.totals.right += 1;
                }
                Err(errno) => {
                    expect_refusal(errno);
                    self.totals.refused += 1;
                }
            }
        }
    }

    fn finish(mut self) -> Totals {
        self.fail_reads(0);
        if !self.is_over {
            self.crash();
        }
        if !self.is_over {
            (0..FILES).for_each(|file| self.compare(file));
            allow(self.fs.check().map_err(Errno::from));
        }
        self.totals
    }
}

fn expect_refusal(errno: Errno) {
    assert!([Errno::EIO, Errno::ENOSPC].contains(&errno), "{errno}");
}

fn allow<T>(result: Result<T, Errno>) {
    allow_some(result);
}

fn allow_some<T>(result: Result<T, Errno>) -> Option<T> {
    result.map_err(expect_refusal).ok()
}

#[test]
fn what_cannot_be_read_is_refused_and_the_rest_is_right() {
    for kind in KINDS {
        let mut all = Totals::default();
        for seed in 0..24 {
            let cleaning = if seed % 2 == 0 { Cleaning::Copy } else { Cleaning::Remap };
            let indexing = if seed % 4 < 2 { Indexing::Conventional } else { Indexing::Nvm };
            eprintln!("{kind:?}, seed {seed}");
            let mut run = Run::new(seed, kind, cleaning, indexing);
            run.fail_reads(if seed % 3 == 0 { 300 } else { 3_000 });
            (0..60).for_each(|_| run.step());
            let Totals { right, refused, refused_mounts, written } = run.finish();
            all.right += right;
            all.refused += refused;
            all.refused_mounts += refused_mounts;
            all.written += written;
        }
        println!("{kind:?}: {all:?}");
        assert!(all.right > 20_000 && all.refused > 100 && all.written > 200, "{all:?}");
    }
}
