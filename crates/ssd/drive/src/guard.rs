//! The device under a mutex.
//!
//! Invariants:
//! - The issue times of commands never go back, and no command is issued before the due time of an answer that a client
//!   already has.
//! - Each power loss is announced once to everyone who asked, before another client can lock the device.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tantalum::{Command, Completion, Device, Handle, Nanoseconds, Status};
use tantalum_canaries::guard;

use crate::duplicates::Duplicates;
use crate::issue::issue;
use crate::when::When;

/// Called when power is lost, until it returns false.
type Tell = Box<dyn Fn() -> bool + Send>;

/// What all clones of a drive share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The thread that has the device, as numbered by [`this_thread`]; 0 for none.
    holder: AtomicUsize,
}

pub(crate) struct State {
    pub device: Device,
    /// If writes that repeat a recent one become shares.
    pub duplicates: Option<Box<Duplicates>>,
    on_power_loss: Vec<Tell>,
    /// Whether they have been told about the last loss.
    is_told: bool,
    /// The latest due time of the answers that clients were given in the machine's time.
    answered_ns: Nanoseconds,
}

impl State {
    pub fn tell_of_power_loss(&mut self, tell: Tell) {
        self.on_power_loss.push(tell);
    }
}

/// A reference to a drive that does not keep it alive.
#[derive(Clone)]
pub struct WeakDrive(Weak<Shared>);

/// The locked device. Releasing it announces a power loss.
pub struct DeviceGuard<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    holder: &'a AtomicUsize,
}

thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number that no other running thread has.
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl DeviceGuard<'_> {
    /// Issues a command at a client's time, or as soon afterwards as another client's last command allows.
    pub fn issue(&mut self, command: Command<'_>, when: impl Into<When>) -> Result<Completion, Status> {
        let at_ns = self.start_ns(when);
        issue(&mut self.state.device, command, at_ns)
    }

    /// A reclaim unit handle begins its next reclaim unit: [`Device::update_handle`] at a client's time, or as soon afterwards as
    /// another client's last command allows.
    pub fn begin_reclaim_unit(
        &mut self,
        handle: Handle,
        when: impl Into<When>,
    ) -> Result<Completion, Status> {
        let at_ns = self.start_ns(when).max(self.issued_ns());
        self.state.device.update_handle(handle, at_ns)
    }

    pub(crate) fn start_ns(&self, when: impl Into<When>) -> Nanoseconds {
        match when.into() {
            // The client may have been held up since it read the clock. A power loss at this command must not undo what
            // was answered in the meantime.
            When::At(at_ns) => at_ns.max(self.state.answered_ns),
            When::AfterAll => guard!(AtOnceBeforeOthers(self), self.time_ns()),
        }
    }

    /// A client receives an answer that was due at `due_ns`: no later command is issued before that time.
    pub(crate) fn note_answer(&mut self, due_ns: Nanoseconds) {
        self.state.answered_ns = self.state.answered_ns.max(due_ns);
    }
}

/// How often a thread retries a lock that another one holds before it sleeps.
const PATIENCE: usize = 200;

impl Shared {
    pub fn new(device: Device, duplicates: Option<Box<Duplicates>>) -> Shared {
        let is_told = !device.has_power();
        let state = State { device, duplicates, on_power_loss: Vec::new(), is_told, answered_ns: 0 };
        Shared { state: Mutex::new(state), holder: AtomicUsize::new(0) }
    }

    pub fn into_device(self) -> Device {
        self.state.into_inner().device
    }

    /// The device, if it is released soon. Clients hold it for microseconds, and waking a thread takes longer.
    fn soon(&self) -> Option<MutexGuard<'_, State>> {
        (0..PATIENCE).find_map(|_| {
            let state = self.state.try_lock();
            if state.is_none() {
                std::thread::yield_now();
            }
            state
        })
    }

    pub fn lock(&self) -> DeviceGuard<'_> {
        let (holder, here) = (&self.holder, this_thread());
        assert!(holder.load(Ordering::Relaxed) != here, "this thread already holds the device");
        let state = self.soon().unwrap_or_else(|| self.state.lock());
        holder.store(here, Ordering::Relaxed);
        DeviceGuard { state, holder }
    }
}

impl WeakDrive {
    pub(crate) fn of(shared: &Arc<Shared>) -> WeakDrive {
        WeakDrive(Arc::downgrade(shared))
    }

    /// Whether anybody still has the drive.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Calls a function with the device, if anybody still has the drive.
    pub fn with<T>(&self, work: impl FnOnce(&mut DeviceGuard<'_>) -> T) -> Option<T> {
        self.0.upgrade().map(|shared| work(&mut shared.lock()))
    }
}

impl Deref for DeviceGuard<'_> {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.state.device
    }
}

impl DerefMut for DeviceGuard<'_> {
    fn deref_mut(&mut self) -> &mut Device {
        &mut self.state.device
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.holder.load(Ordering::Relaxed), this_thread(), "another thread has the device");
        let has_power = self.state.device.has_power();
        if has_power == self.state.is_told {
            self.state.is_told = !has_power;
            if !has_power {
                self.state.on_power_loss.retain(|tell| tell());
            }
        }
        debug_assert_eq!(
            self.state.is_told, !has_power,
            "a power loss is announced before others have the device"
        );
        self.holder.store(0, Ordering::Relaxed);
    }
}
