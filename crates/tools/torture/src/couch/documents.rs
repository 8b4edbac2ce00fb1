//! The document store as a program under test.

use std::ops::Deref;

use parking_lot::Mutex;
use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_couch::{Error, Store, VolumeStorage, Way};
use tantalum_volume::Volume;

use super::contents::Contents;
use super::session::{self, Common, Expected, Held, OTHER_UNITS, Session};
use super::settings::way_name;
use super::turns::{InTurns, live_in_turns};
use crate::error::CrashError;
use crate::program::drive::{profile, volume};
use crate::program::{Broken, Life, Program, RunEnd, VolumeInUse, live_steps};

/// The store, with one way of updating.
#[derive(Clone, Copy)]
pub(super) struct Documents {
    pub way: Way,
    /// Threads that use it.
    pub threads: u64,
}

impl VolumeInUse for Held {
    fn volume(&self) -> impl Deref<Target = Volume> {
        self.0.volume()
    }
}

impl Program for Documents {
    type TestBed = Volume;
    type DriveInUse = Held;
    type Opened = (Store<Held>, Contents);
    type Expected = Expected;

    const CUT_OPERATIONS: u64 = 60;
    const SECOND_CUT_OPERATIONS: u64 = 6;
    const PROMISES: u64 = 1;
    const CACHE_BYTES: u64 = 64 * UNIT_BYTES as u64;
    const LENGTH_OPTION: &str = "--commits";

    fn profile(seed: u64) -> Profile {
        profile("crash-couch", [16384, 8192, 4096][(seed % 3) as usize], seed)
    }

    fn prepare_on(device: Device, seed: u64) -> Result<Volume, CrashError> {
        volume(device, Documents::CACHE_BYTES, OTHER_UNITS, seed)
    }

    fn take(&self, volume: Volume, _seed: u64) -> Held {
        InTurns(VolumeStorage::new(volume))
    }

    fn give_back(storage: Held) -> Result<Volume, Broken> {
        Ok(storage.0.into_volume().expect("nobody has the store open"))
    }

    fn open_first(&self, storage: &Held) -> Result<Self::Opened, RunEnd> {
        let broken = |error: Error| RunEnd::at_first(Broken::new("a store can be made", error.to_string()));
        Ok((session::open(storage, self.way).map_err(broken)?, Contents::default()))
    }

    fn open_again(&self, storage: &Held) -> Result<Self::Opened, Broken> {
        let said = |error: Error| Broken::new("the store opens", error.to_string());
        let store = session::open(storage, self.way).map_err(said)?;
        let contents = Contents::read(&store.snapshot()).map_err(said)?;
        Ok((store, contents.map_err(|what| Broken::new("the store is intact", what))?))
    }

    fn live(
        &self,
        storage: &Held,
        (store, contents): Self::Opened,
        life: &Life,
    ) -> (Result<Expected, Broken>, u64) {
        let common = Mutex::new(Common::new(contents));
        let session = |seed| Session::new(storage.clone(), store.clone(), seed, &common, self.threads > 1);
        let lived = match self.threads {
            1 => {
                let mut session = session(life.seed);
                live_steps(life, storage, || session.step().map(|()| common.lock().commits))
            }
            threads => {
                let seeds = (1..=threads).map(|thread| life.seed.wrapping_add(tantalum_image::mix(thread)));
                let threads = seeds.map(session).map(|session| move || session.run());
                live_in_turns(life, storage, threads.collect(), || common.lock().commits)
            }
        };
        drop(store);
        let Common { expected, checked, .. } = common.into_inner();
        (lived.map(|()| expected), checked)
    }

    fn check(expected: &Expected, (_, found): &Self::Opened) -> Result<(), Broken> {
        expected.check(found)
    }

    fn name(&self) -> String {
        match self.threads {
            1 => way_name(self.way).to_owned(),
            threads => format!("{}, {threads} threads", way_name(self.way)),
        }
    }

    fn command(&self) -> String {
        let threads = if self.threads > 1 { format!(" --threads {}", self.threads) } else { String::new() };
        format!("couch --way {}{threads}", way_name(self.way))
    }
}
