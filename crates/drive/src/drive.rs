//! A device that several clients share.
//!
//! Invariants: commands reach the device in an order in which their times do not go back, and not before an answer that a
//! client was given; everyone who asked is told of a power loss once, before any other client can have the device.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tantalum::{Command, Completion, Device, Nanoseconds, Status};

use crate::duplicates::Duplicates;
use crate::issue::issue;
use crate::observer;

/// A device and its clients' common time. A clone is the same drive.
#[derive(Clone)]
pub struct Drive {
    shared: Arc<Shared>,
    /// Counts the clones; who gives answers has the device for a moment without being one.
    clones: Arc<()>,
}

struct Shared {
    state: Mutex<State>,
    /// The thread that has the device, as numbered by [`this_thread`]; 0 for none.
    holder: AtomicUsize,
}

pub(crate) struct State {
    pub device: Device,
    /// If writes that repeat a recent one become shares.
    pub duplicates: Option<Box<Duplicates>>,
    on_power_loss: Vec<Box<dyn Fn() -> bool + Send>>,
    /// Whether they have been told of the last loss.
    is_told: bool,
    /// When the last of the answers was due that clients were given while the machine's time passed.
    answered_ns: Nanoseconds,
}

/// A drive, for who must not keep it.
#[derive(Clone)]
pub(crate) struct WeakDrive(Weak<Shared>);

/// When a command is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At a client's time.
    At(Nanoseconds),
    /// When everything that any client requested before is done. Where answers go out at once, this keeps a power loss
    /// from undoing what a client was already told.
    AfterAll,
}

impl From<Nanoseconds> for When {
    fn from(at_ns: Nanoseconds) -> When {
        When::At(at_ns)
    }
}

/// The device, while nobody else has it. When it is released, a power loss is announced.
pub struct Locked<'a> {
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

impl Drive {
    /// A drive without clients.
    pub fn new(device: Device) -> Drive {
        Drive::with(device, None)
    }

    fn with(device: Device, duplicates: Option<Box<Duplicates>>) -> Drive {
        let is_told = !device.has_power();
        let state =
            Mutex::new(State { device, duplicates, on_power_loss: Vec::new(), is_told, answered_ns: 0 });
        let shared = Arc::new(Shared { state, holder: AtomicUsize::new(0) });
        let drive = Drive { shared, clones: Arc::default() };
        observer::note_new(&drive);
        drive
    }

    /// The device itself, for what is not a command of a client. Waits until no other thread has it.
    ///
    /// # Panics
    /// If this thread has it already, because it would wait for itself forever.
    pub fn lock(&self) -> Locked<'_> {
        self.shared.lock()
    }

    /// The device, if this is the only clone of the drive; the drive otherwise.
    pub fn into_device(self) -> Result<Device, Drive> {
        let Drive { mut shared, clones } = self;
        if let Err(clones) = Arc::try_unwrap(clones) {
            return Err(Drive { shared, clones });
        }
        loop {
            match Arc::try_unwrap(shared) {
                Ok(shared) => return Ok(shared.state.into_inner().device),
                // an answer is just going out
                Err(busy) => shared = busy,
            }
            std::thread::yield_now();
        }
    }

    /// A separate drive with a copy of the device and no clients. None if the device cannot be copied.
    pub fn try_clone(&self) -> Option<Drive> {
        let locked = self.lock();
        Some(Drive::with(locked.try_clone()?, locked.state.duplicates.clone()))
    }

    /// From now on `tell` is called when power goes, until it says that it is no longer needed. It must not ask for the
    /// device.
    pub fn on_power_loss(&self, tell: impl Fn() -> bool + Send + 'static) {
        self.lock().state.on_power_loss.push(Box::new(tell));
    }

    pub(crate) fn downgrade(&self) -> WeakDrive {
        WeakDrive(Arc::downgrade(&self.shared))
    }

    /// Issues a command at a client's time, or as soon afterwards as another client's last command allows.
    pub fn issue(&self, command: Command<'_>, when: impl Into<When>) -> Result<Completion, Status> {
        self.lock().issue(command, when)
    }
}

impl Locked<'_> {
    /// As [`Drive::issue`].
    pub fn issue(&mut self, command: Command<'_>, when: impl Into<When>) -> Result<Completion, Status> {
        let at_ns = self.start_ns(when);
        issue(&mut self.state.device, command, at_ns)
    }

    pub(crate) fn start_ns(&self, when: impl Into<When>) -> Nanoseconds {
        match when.into() {
            // who looked at the clock may have been held up since, and power that goes under this command must not undo
            // what was answered meanwhile
            When::At(at_ns) => at_ns.max(self.state.answered_ns),
            When::AfterAll => self.time_ns(),
        }
    }

    /// A client is given an answer that was due at `due_ns`: no later command is issued before that.
    pub(crate) fn note_answer(&mut self, due_ns: Nanoseconds) {
        self.state.answered_ns = self.state.answered_ns.max(due_ns);
    }
}

/// How often a thread asks again for a device that another one has, before it sleeps.
const PATIENCE: usize = 200;

impl Shared {
    /// The device, if it is released soon. Clients have it for microseconds, and to be woken takes longer.
    fn soon(&self) -> Option<MutexGuard<'_, State>> {
        (0..PATIENCE).find_map(|_| {
            let state = self.state.try_lock();
            if state.is_none() {
                std::thread::yield_now();
            }
            state
        })
    }

    fn lock(&self) -> Locked<'_> {
        let (holder, here) = (&self.holder, this_thread());
        assert!(holder.load(Ordering::Relaxed) != here, "this thread asks for a device that it has");
        let state = self.soon().unwrap_or_else(|| self.state.lock());
        holder.store(here, Ordering::Relaxed);
        Locked { state, holder }
    }
}

impl WeakDrive {
    /// Whether anybody still has the drive.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Does something with the device, if anybody still has the drive.
    pub fn with<T>(&self, work: impl FnOnce(&mut Locked<'_>) -> T) -> Option<T> {
        self.0.upgrade().map(|shared| work(&mut shared.lock()))
    }
}

impl Deref for Locked<'_> {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.state.device
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Device {
        &mut self.state.device
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let has_power = self.state.device.has_power();
        if has_power == self.state.is_told {
            self.state.is_told = !has_power;
            if !has_power {
                self.state.on_power_loss.retain(|tell| tell());
            }
        }
        self.holder.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").finish_non_exhaustive()
    }
}
