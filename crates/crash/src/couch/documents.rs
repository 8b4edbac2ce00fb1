//! The document store as a program under test.

use std::ops::Deref;

use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_couch::{Error, Store, VolumeStorage, Way};
use tantalum_volume::Volume;

use super::contents::Contents;
use super::session::{self, Expected, OTHER_UNITS, Session};
use super::settings::way_name;
use crate::error::CrashError;
use crate::program::drive::{profile, volume};
use crate::program::{Broken, Life, Program, RunEnd, VolumePlace, live_steps};

/// The store, with one way of updating.
#[derive(Clone, Copy)]
pub(super) struct Documents {
    pub way: Way,
}

impl VolumePlace for VolumeStorage {
    fn volume(&self) -> impl Deref<Target = Volume> {
        VolumeStorage::volume(self)
    }
}

impl Program for Documents {
    type Ground = Volume;
    type Place = VolumeStorage;
    type Opened = (Store<VolumeStorage>, Contents);
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

    fn take(&self, volume: Volume, _seed: u64) -> VolumeStorage {
        VolumeStorage::new(volume)
    }

    fn give_back(storage: VolumeStorage) -> Result<Volume, Broken> {
        Ok(storage.into_volume().expect("nobody has the store open"))
    }

    fn open_first(&self, storage: &VolumeStorage) -> Result<Self::Opened, RunEnd> {
        let broken = |error: Error| RunEnd::at_first(Broken::new("a store can be made", error.to_string()));
        Ok((session::open(storage, self.way).map_err(broken)?, Contents::default()))
    }

    fn open_again(&self, storage: &VolumeStorage) -> Result<Self::Opened, Broken> {
        let said = |error: Error| Broken::new("the store opens", error.to_string());
        let store = session::open(storage, self.way).map_err(said)?;
        let contents = Contents::read(&store.snapshot()).map_err(said)?;
        Ok((store, contents.map_err(|what| Broken::new("the store is intact", what))?))
    }

    fn live(
        &self,
        storage: &VolumeStorage,
        (store, contents): Self::Opened,
        life: &Life,
    ) -> (Result<Expected, Broken>, u64) {
        let mut expected = Expected { contents, under_way: None };
        let mut session = Session::new(storage.clone(), store, life.seed, &mut expected);
        let lived = live_steps(life, storage, || session.step().map(|()| session.commits));
        let checked = session.checked;
        drop(session);
        (lived.map(|()| expected), checked)
    }

    fn check(expected: &Expected, (_, found): &Self::Opened) -> Result<(), Broken> {
        expected.check(found)
    }

    fn name(&self) -> String {
        way_name(self.way).to_owned()
    }

    fn command(&self) -> String {
        format!("couch --way {}", way_name(self.way))
    }
}
