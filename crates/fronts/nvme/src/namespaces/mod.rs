//! The namespaces of the subsystem: a table that divides the drive's units among block namespaces ([`Table`]), which the drive keeps
//! in a key-value namespace of its own (`stored.rs`), and the drive's key-value namespaces.
//!
//! Invariants:
//!
//! - **A unit belongs to at most one namespace, and one that belongs to none is unmapped, durably.** So a new namespace shows no old
//!   data. What is deleted is first marked in the stored table, then deallocated, and its entry goes when that is durable; a power
//!   cut in between is followed by the rest when the drive has power again (`changes.rs`).
//! - **The stored table is changed before the one in use**, in one atomic step of the drive.
//! - **A command reaches only what its namespace still is.** When it is checked it gets a right to the namespace's part of the drive
//!   ([`Target`]). A namespace that is deleted or formatted withdraws it while nobody has the drive, before its units are touched
//!   ([`tantalum_drive::Fence`]).
//!
//! Numbers: 1 is the block namespace that a drive has from the beginning. A key-value namespace of the drive has its number there and
//! one more, as ever. The drive leaves out the one that is then that of its zones ([`ZONES_NAMESPACE`]). Another block namespace takes the number of a key-value namespace that is no more or is the drive's own; as the
//! drive never uses a number again, they never meet.

mod changes;
mod handles;
mod kept;
mod placement_log;
mod reservation;
mod reservations;
mod sanitize;
mod stored;
mod table;
mod uncorrectable;
mod view;
mod zones;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use tantalum::{Device, NamespaceId, Nanoseconds};
use tantalum_drive::{Drive, Fence, Fences, Queue};

pub use changes::Change;
pub use handles::{DriveHandles, Handles};
pub use kept::Kept;
pub use placement_log::{Recorded, event_kinds};
pub use reservation::{Denied, Kind as ReservationKind, Notice, Notices, Persistence, Reservation};
pub use stored::TableError;
pub use table::{Attached, Entry, FORMATS, NewNamespace, Pending, SLOTS, Sanitize, SanitizeState, Table};
pub use uncorrectable::Uncorrectable;
pub use view::{Target, View};
pub use zones::{ZONES_NAMESPACE, ZoneSpace, ZonesTarget};

use crate::controller::Controller;
use crate::failure::Failure;
use crate::wire::identify::command_set;
use placement_log::PlacementLog;
use reservations::Reservations;
use stored::Storage;
use view::Part;

/// The namespace with the drive's blocks, if it was never divided.
pub const BLOCK_NAMESPACE: u32 = 1;
/// All namespaces.
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// The first namespace with records has this number; the drive counts its own from 1.
const FIRST_NAMESPACE: u32 = BLOCK_NAMESPACE + 1;

/// What a right counts by when the contents of a part change hands; below that it counts changes of its reservation.
const CONTENTS: u64 = 1 << 32;

/// What a right says about the contents of its part.
fn contents_of(right: u64) -> u64 {
    right / CONTENTS
}

/// The part of the drive that is that of namespaces with records.
const RECORDS: usize = SLOTS;
/// The part of the drive that has zones.
const ZONES: usize = SLOTS + 1;
/// Parts of the drive: one for each slot of the table, and these.
const PARTS: usize = SLOTS + 2;

/// The namespaces of a subsystem, shared by its controllers.
pub struct Namespaces {
    /// The drive's namespaces with records, which neither come nor go while it is served.
    key_value: Vec<NamespaceId>,
    /// The zones of the drive, if it has some.
    zones: Option<ZoneSpace>,
    /// The highest number that a namespace may get while it is served (`NN`).
    highest: AtomicU64,
    state: Mutex<State>,
    /// Changes with the table and with what is attached: views older than that are built anew.
    version: AtomicU64,
    /// Who may use which part of the drive, by slot of the table.
    parts: [Fences; PARTS],
    /// Held by whoever executes a Sanitize: after a power loss the one that it interrupts has to end before another one begins, and
    /// before hosts have the drive.
    sanitizer: Mutex<()>,
    /// Blocks that hosts have marked as not readable.
    uncorrectable: Uncorrectable,
    /// Held by whoever changes the table, from the beginning of a change to its end: what takes long is done while others can see how
    /// it stands.
    changing: Mutex<()>,
    /// Open transactions, and the part in which each was begun.
    transactions: Mutex<FxHashMap<u64, (u8, u64)>>,
}

/// What changes with namespaces.
struct State {
    table: Table,
    storage: Storage,
    placement: PlacementLog,
    /// When all that was stored is durable, in the drive's time: a setting that is so already is acknowledged no earlier.
    stored_ns: Nanoseconds,
    /// What hosts have set as Error Recovery, by slot of the table.
    error_recovery: [u32; SLOTS],
    reservations: Reservations,
}

/// The bit of Error Recovery with which reads of deallocated blocks fail (`DULBE`).
const REPORTS_DEALLOCATED: u32 = 1 << 16;

impl Namespaces {
    /// The namespaces of a drive. One that has no table yet has namespace 1, with blocks of this size.
    pub fn load(drive: &Drive, block_bytes: u32) -> Result<Namespaces, TableError> {
        let mut device = drive.lock();
        let key_value: Vec<_> = device.namespaces().iter().map(|namespace| namespace.namespace).collect();
        let zones = device.zone_shape().map(|shape| ZoneSpace { shape });
        let highest = highest_of(device.last_namespace());
        let (table, storage) = stored::load(&mut device, block_bytes)?;
        let uncorrectable = Uncorrectable::default();
        uncorrectable.load(&mut device, storage.kept())?;
        let reservations = reservations::load(&mut device, storage.kept(), &table)?;
        drop(device);
        let (placement, stored_ns, error_recovery) = (PlacementLog::default(), 0, [0; SLOTS]);
        let namespaces = Namespaces {
            key_value,
            zones,
            highest: highest.into(),
            state: Mutex::new(State { table, storage, placement, stored_ns, error_recovery, reservations }),
            changing: Mutex::default(),
            version: AtomicU64::new(0),
            parts: std::array::from_fn(|_| Fences::default()),
            sanitizer: Mutex::default(),
            uncorrectable,
            transactions: Mutex::default(),
        };
        assert!(
            namespaces.numbers().is_sorted_by(|number, next| number < next),
            "hosts read namespaces in order, and their numbers are {:?}",
            namespaces.numbers()
        );
        Ok(namespaces)
    }

    /// Reads the table again after a power loss: a change may have been stored and not taken over, or the other way round. No
    /// connection may exist.
    pub fn reload(&self, drive: &Drive, block_bytes: u32) -> Result<(), TableError> {
        let mut state = self.lock();
        let mut device = drive.lock();
        let (table, storage) = stored::load(&mut device, block_bytes)?;
        self.uncorrectable.load(&mut device, storage.kept())?;
        let reservations = reservations::load(&mut device, storage.kept(), &table)?;
        let (placement, stored_ns, error_recovery) = (PlacementLog::default(), 0, [0; SLOTS]);
        *state = State { table, storage, placement, stored_ns, error_recovery, reservations };
        self.parts.iter().for_each(|part| part.withdraw_by(&device, CONTENTS));
        self.highest.store(highest_of(device.last_namespace()), Ordering::Relaxed);
        self.transactions.lock().clear();
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The table as it is now.
    pub fn table(&self) -> Table {
        self.lock().table.clone()
    }

    /// The highest number that a namespace may have (`NN`).
    pub fn highest(&self) -> u32 {
        self.highest.load(Ordering::Relaxed) as u32
    }

    /// How many namespaces there may be (`MNAN`).
    pub fn most(&self) -> u32 {
        (SLOTS + self.key_value.len() + usize::from(self.zones.is_some())) as u32
    }

    /// The namespace with records that has this number for hosts.
    pub fn key_value(&self, namespace: u32) -> Option<NamespaceId> {
        namespace_of(namespace).filter(|namespace| self.key_value.contains(namespace))
    }

    /// Whether there are namespaces with records.
    pub fn have_records(&self) -> bool {
        !self.key_value.is_empty()
    }

    /// The zones of the namespace with this number.
    pub fn zones_of(&self, namespace: u32) -> Option<&ZoneSpace> {
        self.zones.as_ref().filter(|_| namespace == ZONES_NAMESPACE)
    }

    /// Whether the drive has zones.
    pub fn have_zones(&self) -> bool {
        self.zones.is_some()
    }

    /// Whether there are namespaces of other command sets than that of blocks: hosts then choose between command sets.
    pub fn have_other_sets(&self) -> bool {
        self.have_records() || self.have_zones()
    }

    /// Whether hosts have a namespace as the drive has it, with records or zones: they can neither create, delete, format nor attach it.
    pub fn is_of_drive(&self, namespace: u32) -> bool {
        self.key_value(namespace).is_some() || self.zones_of(namespace).is_some()
    }

    /// The command set of a namespace, if it exists.
    pub fn set_of(&self, namespace: u32) -> u8 {
        match () {
            () if self.key_value(namespace).is_some() => command_set::KEY_VALUE,
            () if self.zones_of(namespace).is_some() => command_set::ZONED,
            () => command_set::NVM,
        }
    }

    /// Whether hosts may name a command set: there are namespaces of it, or could be.
    pub fn has_set(&self, set: u8) -> bool {
        match set {
            command_set::NVM => true,
            command_set::KEY_VALUE => self.have_records(),
            command_set::ZONED => self.have_zones(),
            _ => false,
        }
    }

    /// The numbers of namespaces with records, in order.
    pub fn of_records(&self) -> impl Iterator<Item = u32> {
        self.key_value.iter().map(|&namespace| number_of(namespace))
    }

    /// The numbers of all that exist, whether attached or not, in order.
    pub fn numbers(&self) -> Vec<u32> {
        let blocks = self.lock().table.entries().map(|(_, entry)| entry.number).collect::<Vec<_>>();
        let zones = self.zones.map(|_| ZONES_NAMESPACE);
        in_order(blocks.into_iter().chain(self.of_records()).chain(zones))
    }

    /// The version of the table, for views.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a controller sees.
    pub fn view(&self, controller: &Controller) -> View {
        let state = self.lock();
        let has_marks = !self.uncorrectable.is_empty();
        let of = |slot: usize| Part {
            right: self.parts[slot].current(),
            reports_deallocated: state.reports_deallocated(slot),
            denied: state.denied(slot, &controller.host.id),
            has_marks,
        };
        let of_drive = (&*self.key_value, self.zones);
        View::new(self.version(), &state.table, controller.attached(), of_drive, of)
    }

    /// What hosts have set as Error Recovery for a namespace with blocks.
    pub fn error_recovery(&self, number: u32) -> Option<u32> {
        let state = self.lock();
        state.table.find(number).map(|(slot, _)| state.error_recovery[slot])
    }

    /// Sets Error Recovery of namespaces with blocks, until the drive loses power.
    pub fn set_error_recovery(&self, numbers: &[u32], value: u32) {
        let mut state = self.lock();
        for number in numbers {
            if let Some((slot, _)) = state.table.find(*number) {
                state.error_recovery[slot] = value;
            }
        }
        self.outdate_views();
    }

    /// Blocks that hosts have marked as not readable.
    pub fn uncorrectable(&self) -> &Uncorrectable {
        &self.uncorrectable
    }

    /// The drive's own namespace, in which marks are kept. It is made if there is none.
    pub fn kept(&self, queue: &Queue) -> Result<NamespaceId, Failure> {
        self.lock().storage.namespace(queue)
    }

    /// The right that a command has to its part of the drive.
    #[inline]
    pub fn fence(&self, target: &Target) -> Fence<'_> {
        Fence::new(&self.parts[usize::from(target.slot)], target.right)
    }

    /// Why a command was kept out whose right was withdrawn. Waits until the change that did so is complete.
    pub fn refusal(&self, target: &Target) -> Failure {
        let state = self.lock();
        if let Err(failure) = state.table.sanitize.check() {
            return failure;
        }
        let now = self.parts[usize::from(target.slot)].current();
        match state.table.entry(target.slot.into()) {
            Some(_) if contents_of(now) == contents_of(target.right) => Failure::INTERRUPTED,
            // a sanitize that is over by now
            _ if usize::from(target.slot) >= RECORDS => Failure::SANITIZE_IN_PROGRESS,
            Some(entry) if entry.pending != Pending::Delete => Failure::FORMAT_IN_PROGRESS,
            _ => Failure::INVALID_NAMESPACE,
        }
    }

    // -- transactions -------------------------------------------------------------------------------------------

    /// A transaction was begun for a command of this namespace.
    pub fn add_transaction(&self, transaction: u64, target: &Target) {
        self.transactions.lock().insert(transaction, (target.slot, contents_of(target.right)));
    }

    /// Refuses a transaction that was not begun in this namespace.
    pub fn check_transaction(&self, transaction: u64, target: &Target) -> Result<(), Failure> {
        let there = self.transactions.lock().get(&transaction).copied();
        if there == Some((target.slot, contents_of(target.right))) {
            Ok(())
        } else {
            Err(Failure::UNKNOWN_TRANSACTION)
        }
    }

    /// A transaction has ended.
    pub fn end_transaction(&self, transaction: u64) {
        self.transactions.lock().remove(&transaction);
    }
}

impl State {
    fn reports_deallocated(&self, slot: usize) -> bool {
        self.error_recovery.get(slot).is_some_and(|value| value & REPORTS_DEALLOCATED != 0)
    }
}

/// The block namespaces of a drive that is not served; `None` if it was never divided.
pub fn table_of(device: &mut Device) -> Result<Option<Table>, TableError> {
    let is_divided = !device.private_namespaces().is_empty();
    let (table, _) = stored::load(device, FORMATS[0])?;
    Ok(is_divided.then_some(table))
}

/// The highest number that a namespace may get, if the drive's newest key-value namespace has this one: that of the table itself, and
/// one for each slot.
fn highest_of(last: u32) -> u64 {
    u64::from(last) + u64::from(FIRST_NAMESPACE) + SLOTS as u64
}

/// Numbers in ascending order.
pub fn in_order(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The drive's namespace that has this number for hosts.
pub fn namespace_of(namespace: u32) -> Option<NamespaceId> {
    namespace.checked_sub(FIRST_NAMESPACE - 1).filter(|&number| number > 0).map(NamespaceId)
}

/// The number of one of the drive's namespaces for hosts.
pub fn number_of(namespace: NamespaceId) -> u32 {
    let number = namespace.0 + FIRST_NAMESPACE - 1;
    debug_assert_eq!(namespace_of(number), Some(namespace), "hosts know {namespace:?} as {number}");
    number
}
