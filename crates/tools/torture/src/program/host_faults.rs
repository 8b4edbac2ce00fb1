//! A program on an image whose host fails: a call on the image's file fails, once or from then on, while the program works.
//! Its process ends, and perhaps the machine. Then what the program promised is there: when the image is opened without room,
//! after a second failure, and with room.

use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, HostFailure, HostFault, Mapping, TestHost};
use tantalum_report::temporary_folder;
use tempfile::TempDir;

use super::life::Life;
use super::run::{Run, mix};
use super::run_end::{Broken, Found, RunEnd};
use super::test_bed::TestBed;
use super::under_test::Program;
use crate::CrashOutcome;
use crate::error::{CrashError, no_room};

/// The most calls before one fails, in the life of a program and when its image is opened.
const CALLS: u64 = 6000;
const OPENING_CALLS: u64 = 400;

/// An image on a host that may fail.
struct HostedImage {
    path: PathBuf,
    access: Access,
    host: TestHost,
    random: Xoshiro256PlusPlus,
    _folder: TempDir,
}

impl HostedImage {
    /// A new image with what the program works on. Seeds differ in how it is opened and mapped.
    fn create<P: Program>(seed: u64) -> Result<HostedImage, CrashError> {
        // the same was done in memory before, so what fails here is the machine
        let folder = temporary_folder("tantalum-crash-").map_err(|error| CrashError::machine(error.error))?;
        let path = folder.path().join("tortured.tant");
        let device = Device::create(&path, &P::profile(seed)).map_err(CrashError::machine)?;
        let test_bed = P::prepare_on(device, seed).map_err(CrashError::machine)?;
        let device = test_bed.into_device();
        let now_ns = device.time_ns();
        device.shutdown(now_ns).map_err(CrashError::machine)?;
        let access = if P::IS_SYNCED && seed.is_multiple_of(2) { Access::Ordered } else { Access::Write };
        let mapping = [Mapping::Allowed, Mapping::Never][(seed / 2 % 2) as usize];
        let random = Xoshiro256PlusPlus::seed_from_u64(mix(seed, 0, 6));
        Ok(HostedImage { path, access, host: TestHost::new(mapping, seed), random, _folder: folder })
    }

    /// A call among the next ones fails.
    fn arm(&mut self, calls: u64) {
        let failure = [HostFailure::Io, HostFailure::NoSpace][self.random.random_range(0..2)];
        // as often among the first as among many
        let shift = self.random.random_range(0..7);
        let after = self.random.random_range(0..calls >> shift);
        self.host.faults.fail(HostFault { after, failure, lasts: self.random.random_ratio(1, 2) });
    }

    /// Opens it; with the reason if it can only be read.
    fn open(&self) -> Result<(Device, bool), Broken> {
        let opened = Device::open_or_read_on(&self.path, self.access, &self.host);
        let (device, why) =
            opened.map_err(|error| Broken::new("the drive opens, at least to be read", error.to_string()))?;
        Ok((device, why.is_none()))
    }

    /// The process ends, and perhaps the machine is lost.
    fn leave(&mut self, device: Option<Device>) -> Result<(), Broken> {
        if self.random.random_ratio(1, 2) {
            self.host.life.end();
        }
        drop(device);
        self.host.life.end_after(None);
        if self.access == Access::Ordered && self.random.random_ratio(1, 2) {
            let lost = self.host.faults.lose_machine(&self.path);
            lost.map_err(|error| Broken::new("the test's file can be written", error.to_string()))?;
        }
        Ok(())
    }
}

/// What a program left that could go on until its host failed.
type Lived<P> = Result<Option<<P as Program>::Expected>, Broken>;

/// A broken promise, unless the machine's own disk has no room.
fn found(cut: u64, broken: Broken) -> RunEnd {
    match no_room() {
        None => RunEnd::Found(Found { cut, broken }),
        Some(error) => CrashError::machine(error).into(),
    }
}

impl<P: Program> Run<'_, P> {
    /// The host fails `count` times, each time in another life of one program.
    pub fn host_faults(&self, count: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        let mut image = HostedImage::create::<P>(self.seed)?;
        let mut expected = None;
        for number in self.in_time(0..count) {
            self.monitor.check()?;
            image.arm(CALLS);
            let lived = self.live_until_failure(&mut image, number, outcome);
            if let Some(now) = lived.map_err(|broken| found(number, broken))? {
                expected = Some(now);
            }
            outcome.cuts += u64::from(image.host.faults.failed().is_some());
            image.host.faults.heal();
            let Some(expected) = &expected else { continue };
            let looked = self.find_without_room(&mut image, expected, outcome);
            looked.map_err(|broken| found(number, broken))?;
            image.arm(OPENING_CALLS);
            let opened = self.open_image(&mut image, |_, _| Ok(()));
            outcome.second_cuts += u64::from(image.host.faults.failed().is_some());
            if image.host.faults.failed().is_none() {
                opened.map_err(|broken| found(number, broken))?;
            }
            image.host.faults.heal();
            let looked = self.find(&mut image, expected, outcome);
            looked.map_err(|broken| found(number, broken))?;
        }
        Ok(())
    }

    /// Opens the image, lets the program open its files, and ends the process. Returns whether the image could be written.
    fn open_image(
        &self,
        image: &mut HostedImage,
        check: impl FnOnce(&Self, &P::Opened) -> Result<(), Broken>,
    ) -> Result<bool, Broken> {
        let test_bed = image
            .open()
            .and_then(|(device, writes)| Ok((P::TestBed::from_device(device, P::CACHE_BYTES)?, writes)));
        let (test_bed, writes) = match test_bed {
            Err(broken) => return image.leave(None).and(Err(broken)),
            Ok(opened) => opened,
        };
        let place = self.program.take(test_bed, mix(self.seed, 1, 6));
        let opened = self.program.open_again(&place);
        let checked = opened.and_then(|opened| check(self, &opened));
        let device = P::give_back(place).map(TestBed::into_device);
        image.leave(device.ok())?;
        checked.map(|()| writes)
    }

    fn live_until_failure(
        &self,
        image: &mut HostedImage,
        number: u64,
        outcome: &mut CrashOutcome,
    ) -> Lived<P> {
        let failed = |image: &HostedImage| image.host.faults.failed().is_some() || image.host.life.is_over();
        let (device, writes) = match image.open() {
            Err(_) if failed(image) => return image.leave(None).map(|()| None),
            opened => opened?,
        };
        if !writes {
            return image.leave(Some(device)).map(|()| None);
        }
        let test_bed = match P::TestBed::from_device(device, P::CACHE_BYTES) {
            Err(_) if failed(image) => return image.leave(None).map(|()| None),
            test_bed => test_bed?,
        };
        let place = self.program.take(test_bed, mix(self.seed, number, 7));
        let lived = match self.program.open_again(&place) {
            Err(_) if failed(image) => Ok(None),
            Err(broken) => Err(broken),
            Ok(opened) => {
                let host = Some(image.host.clone());
                let life = Life { seed: mix(self.seed, number, 2), cut: None, most: Some(self.length), host };
                let (lived, checked) = self.program.live(&place, opened, &life);
                outcome.promises_checked += checked;
                lived.map(Some)
            }
        };
        let device = P::give_back(place).map(TestBed::into_device);
        image.leave(device.ok())?;
        lived
    }

    /// The image is opened while the host's disk is full.
    fn find_without_room(
        &self,
        image: &mut HostedImage,
        expected: &P::Expected,
        outcome: &mut CrashOutcome,
    ) -> Result<(), Broken> {
        let full = HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true };
        image.host.faults.fail(full);
        outcome.promises_checked += P::PROMISES;
        let access = image.access;
        let mut found = self.open_image(image, |_, opened| P::check(expected, opened));
        if found.is_err() {
            // what the program changes when it opens its files has no room either
            image.access = Access::Overlay;
            found = self.open_image(image, |_, opened| P::check(expected, opened));
            image.access = access;
        }
        image.host.faults.heal();
        found
            .map(drop)
            .map_err(|broken| Broken { detail: format!("without room: {}", broken.detail), ..broken })
    }

    /// The image is opened on a host that is well.
    fn find(
        &self,
        image: &mut HostedImage,
        expected: &P::Expected,
        outcome: &mut CrashOutcome,
    ) -> Result<(), Broken> {
        outcome.promises_checked += P::PROMISES;
        match self.open_image(image, |_, opened| P::check(expected, opened))? {
            true => Ok(()),
            false => Err(Broken::new("the drive opens", "it could only be read on a host that is well")),
        }
    }
}
