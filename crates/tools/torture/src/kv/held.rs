//! The drive, which belongs to the store while the store is open.

use std::cell::RefCell;

use tantalum::Device;
use tantalum_kv::{Error, Options, Store, Sync};

use crate::program::{DriveInUse, goes_on};

/// Memory for what snapshots see: some get lost, which their readers must learn.
const SNAPSHOT_BYTES: usize = 300_000;

/// A small cache, so that nodes and records soon are read from the drive again.
const CACHE_BYTES: usize = 60_000;

enum State {
    Closed(Box<Device>),
    Open(Store),
    /// While the state changes.
    Nowhere,
}

pub(super) struct Held {
    state: RefCell<State>,
}

impl Held {
    pub fn new(device: Device) -> Held {
        Held { state: RefCell::new(State::Closed(Box::new(device))) }
    }

    /// Opens the store. If that fails, the drive is still there, unchanged.
    pub fn open(&self) -> Result<Store, Error> {
        let device = self.state.replace(State::Nowhere).into_device();
        let options =
            Options::default().sync(Sync::None).cache_bytes(CACHE_BYTES).snapshot_bytes(SNAPSHOT_BYTES);
        let (state, opened) = match Store::over_or_back(*device, options) {
            Ok(store) => (State::Open(store.clone()), Ok(store)),
            Err((error, device)) => (State::Closed(device), Err(error)),
        };
        self.state.replace(state);
        opened
    }

    pub fn into_device(self) -> Device {
        *self.state.into_inner().into_device()
    }

    fn look<T>(&self, look: impl FnOnce(&mut Device) -> T) -> T {
        match &mut *self.state.borrow_mut() {
            State::Closed(device) => look(device),
            State::Open(store) => store.with_drive(look).expect("it is the same process"),
            State::Nowhere => panic!("nobody looks while the state changes"),
        }
    }
}

impl State {
    fn into_device(self) -> Box<Device> {
        match self {
            State::Closed(device) => device,
            State::Open(store) => Box::new(store.into_drive().expect("nobody else has the store")),
            State::Nowhere => panic!("it is not opened twice"),
        }
    }
}

impl DriveInUse for Held {
    fn flash_operations(&self) -> u64 {
        self.look(|device| device.flash_operations())
    }

    fn has_power(&self) -> bool {
        self.look(|device| goes_on(device))
    }

    fn cut_after(&self, operations: Option<u64>) {
        self.look(|device| device.cut_after(operations));
    }
}
