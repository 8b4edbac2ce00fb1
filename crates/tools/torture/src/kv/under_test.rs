//! The key-value store as a program under test.

use rand::SeedableRng;
use tantalum::{Device, Profile};
use tantalum_kv::{Error, Options, Store, Sync};

use super::contents::{Contents, Namespaces, Random};
use super::held::Held;
use super::session::{Expected, Session, fill};
use crate::error::CrashError;
use crate::program::drive::profile;
use crate::program::{Broken, Life, Program, RunEnd, live_steps};

/// The store, with an ordered namespace and a hashed one.
#[derive(Clone, Copy)]
pub(super) struct KeyValue;

/// What is open, and its contents.
type Opened = (Store, Namespaces, Contents);

fn open(held: &Held) -> Result<Result<Opened, String>, Error> {
    let store = held.open()?;
    let namespaces = Namespaces::open(&store)?;
    let contents = Contents::read(&store.snapshot()?, namespaces)?;
    let own = store.with_drive(|drive| drive.namespaces().first().map_or(0, |first| first.records))?;
    Ok(contents.and_then(|contents| contents.own_records(own).map(|()| (store, namespaces, contents))))
}

impl Program for KeyValue {
    type TestBed = Device;
    type DriveInUse = Held;
    type Opened = Opened;
    type Expected = Expected;

    const CUT_OPERATIONS: u64 = 60;
    const SECOND_CUT_OPERATIONS: u64 = 12;
    const PROMISES: u64 = 1;
    /// There is no volume.
    const CACHE_BYTES: u64 = 0;
    const LENGTH_OPTION: &str = "--commits";

    const IS_SYNCED: bool = true;

    fn profile(seed: u64) -> Profile {
        profile("crash-kv", [16384, 8192, 4096][(seed % 3) as usize], seed)
    }

    fn prepare_on(device: Device, seed: u64) -> Result<Device, CrashError> {
        let store = Store::over(device, Options::default().sync(Sync::None))?;
        fill(&store, Namespaces::open(&store)?, &mut Random::seed_from_u64(seed))?;
        Ok(store.into_drive().expect("nobody else has the store"))
    }

    fn take(&self, device: Device, _seed: u64) -> Held {
        Held::new(device)
    }

    fn give_back(held: Held) -> Result<Device, Broken> {
        Ok(held.into_device())
    }

    fn open_first(&self, held: &Held) -> Result<Opened, RunEnd> {
        self.open_again(held).map_err(RunEnd::at_first)
    }

    fn open_again(&self, held: &Held) -> Result<Opened, Broken> {
        let opened = open(held).map_err(|error| Broken::new("the store opens", error.to_string()))?;
        opened.map_err(|what| Broken::new("the store is intact", what))
    }

    fn live(
        &self,
        held: &Held,
        (store, namespaces, contents): Opened,
        life: &Life,
    ) -> (Result<Expected, Broken>, u64) {
        let mut expected = Expected { contents, under_way: None };
        let mut session = Session::new(store, namespaces, life.seed, &mut expected);
        let lived = live_steps(life, held, || session.step().map(|()| session.commits));
        let checked = session.checked;
        drop(session);
        (lived.map(|()| expected), checked)
    }

    fn check(expected: &Expected, (_, _, found): &Opened) -> Result<(), Broken> {
        expected.check(found)
    }

    fn name(&self) -> String {
        "ordered and hashed".to_owned()
    }

    fn command(&self) -> String {
        "kv".to_owned()
    }
}
