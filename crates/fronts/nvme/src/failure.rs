//! How a command fails: the standard's status codes (Base, section 3.3.3.2.1).

use tantalum::{Status, ZoneRefusal};

/// A status code other than success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The type in bits 10:8, the code in bits 7:0.
    code: u16,
    /// Whether the same command will fail again.
    is_final: bool,
    /// What else the completion reports.
    pub result: u64,
}

/// The codes in use: type and code.
macro_rules! codes {
    ($( $(#[$about:meta])* $name:ident = $code:literal, )*) => {
        impl Failure {
            $( $(#[$about])* pub const $name: Failure = Failure { code: $code, is_final: true, result: 0 }; )*
        }
    };
}

codes! {
    /// No such command.
    INVALID_OPCODE = 0x001,
    /// An invalid field.
    INVALID_FIELD = 0x002,
    /// Two commands in flight have the same identifier.
    ID_CONFLICT = 0x003,
    /// Data did not arrive.
    DATA_TRANSFER = 0x004,
    /// A bug of the drive, or its host failed.
    INTERNAL = 0x006,
    /// The host requested it.
    ABORTED = 0x007,
    /// The other half of a fused pair has failed.
    FUSED_FAILED = 0x009,
    /// The other half of a fused pair is not there.
    FUSED_MISSING = 0x00a,
    /// No such namespace.
    INVALID_NAMESPACE = 0x00b,
    /// Not at this time.
    SEQUENCE = 0x00c,
    /// The data pointer and the command disagree about the number of bytes.
    SGL_LENGTH = 0x00f,
    /// A data pointer of a type that is not supported here.
    SGL_TYPE = 0x011,
    /// More blocks than can be compared and written as one.
    ATOMIC_UNIT_EXCEEDED = 0x014,
    /// In-capsule data outside the capsule.
    SGL_OFFSET = 0x016,
    /// A host identifier of 64 bits, where hosts have one of 128.
    HOST_ID_FORMAT = 0x018,
    /// A keep-alive timeout that is not supported.
    KEEP_ALIVE_INVALID = 0x01a,
    /// The last Sanitize has failed.
    SANITIZE_FAILED = 0x01c,
    /// A Sanitize is under way.
    SANITIZE_IN_PROGRESS = 0x01d,
    /// The drive accepts no more writes.
    WRITE_PROTECTED = 0x020,
    /// There are no reclaim unit handles here.
    PLACEMENT_DISABLED = 0x029,
    /// Reclaim unit handles that a new namespace cannot have.
    PLACEMENT_HANDLES = 0x02a,
    /// Not the namespace's I/O command set, or none that exists here.
    COMMAND_SET = 0x02c,
    /// Blocks beyond the namespace.
    OUT_OF_RANGE = 0x080,
    /// Another host has reserved the namespace, or the key is not the host's.
    RESERVATION_CONFLICT = 0x083,
    /// No flash is left.
    CAPACITY_EXCEEDED = 0x081,
    /// A value that is too large, or a buffer that is too small.
    VALUE_SIZE = 0x085,
    /// A key that is too long or too short.
    KEY_SIZE = 0x086,
    /// No such key.
    NO_SUCH_KEY = 0x087,
    /// A record that cannot be read.
    RECORD_UNREADABLE = 0x088,
    /// A key that already exists.
    KEY_EXISTS = 0x089,
    /// No such format of blocks.
    INVALID_FORMAT = 0x10a,
    /// No piece of the drive is free that is large enough.
    INSUFFICIENT_CAPACITY = 0x115,
    /// As many namespaces exist as there can be.
    NO_NAMESPACE_ID = 0x116,
    /// The namespace is attached to the controller already.
    ALREADY_ATTACHED = 0x118,
    /// The namespace is attached to another controller, and not to be shared.
    IS_PRIVATE = 0x119,
    /// The namespace is not attached to the controller.
    NOT_ATTACHED = 0x11a,
    /// A namespace of more blocks than it has capacity.
    NO_THIN_PROVISIONING = 0x11b,
    /// A list of controllers that is not in order, or names one that does not exist.
    CONTROLLER_LIST = 0x11c,
    /// A self-test is under way.
    SELF_TEST_IN_PROGRESS = 0x11d,
    /// A namespace of a command set that has none to be created.
    COMMAND_SET_UNSUPPORTED = 0x129,
    /// No such combination of command sets.
    COMMAND_SET_COMBINATION = 0x12b,
    /// Too many Aborts.
    ABORT_LIMIT = 0x103,
    /// Too many Asynchronous Event Requests.
    EVENT_LIMIT = 0x105,
    /// No such log page.
    INVALID_LOG_PAGE = 0x109,
    /// The feature cannot be saved.
    NOT_SAVEABLE = 0x10d,
    /// The feature cannot be changed.
    NOT_CHANGEABLE = 0x10e,
    /// The feature is the controller's, and a namespace was named.
    NOT_OF_NAMESPACE = 0x10f,
    /// A Connect in an unknown format.
    CONNECT_FORMAT = 0x180,
    /// All controllers are in use.
    CONTROLLER_BUSY = 0x181,
    /// A Connect with an invalid parameter.
    CONNECT_PARAMETER = 0x182,
    /// A host that may not connect.
    CONNECT_HOST = 0x184,
    /// A queue whose host has not authenticated.
    AUTHENTICATION_REQUIRED = 0x191,
    /// Too many blocks for one command.
    SIZE_LIMIT = 0x183,
    /// A copy from a namespace whose blocks have another size, or that has none.
    INCOMPATIBLE_NAMESPACE = 0x185,
    /// A copy that was to be made without moving data.
    FAST_COPY_NOT_POSSIBLE = 0x186,
    /// Blocks beyond a zone, or beyond what can be written of it.
    ZONE_BOUNDARY = 0x1b8,
    /// The zone is full.
    ZONE_FULL = 0x1b9,
    /// The zone accepts no writes, as the drive does not.
    ZONE_READ_ONLY = 0x1ba,
    /// A write that does not begin at the zone's write pointer.
    ZONE_INVALID_WRITE = 0x1bc,
    /// More active zones than there can be.
    TOO_MANY_ACTIVE_ZONES = 0x1bd,
    /// More open zones than there can be.
    TOO_MANY_OPEN_ZONES = 0x1be,
    /// A state that the zone cannot have next.
    ZONE_TRANSITION = 0x1bf,
    /// Old data could not be erased (Write Fault).
    MEDIA_ERASE = 0x280,
    /// Flash could not be read.
    UNREADABLE = 0x281,
    /// The data differ.
    COMPARE = 0x285,
    /// Blocks that were never written, or were deallocated, where a host asked to be told.
    DEALLOCATED = 0x287,
    /// The namespaces cannot be reached through this port (Asymmetric Access Inaccessible).
    ACCESS_INACCESSIBLE = 0x302,
    /// How they can be reached is about to change (Asymmetric Access Transition).
    ACCESS_TRANSITION = 0x303,
    /// Vendor-specific: a share of an unmapped unit.
    UNMAPPED = 0x1c0,
    /// Vendor-specific: more than the drive can do in one step.
    OVER_LIMIT = 0x1c1,
    /// Vendor-specific: no such open transaction.
    UNKNOWN_TRANSACTION = 0x1c2,
    /// Vendor-specific: no such open log.
    UNKNOWN_LOG = 0x1c3,
    /// Vendor-specific: a log page out of sequence.
    SLOT_OUT_OF_ORDER = 0x1c4,
    /// Vendor-specific: no such endpoint of this controller.
    UNKNOWN_ENDPOINT = 0x1c5,
    /// Vendor-specific: the endpoint's process may not do that.
    NOT_ALLOWED = 0x1c6,
    /// Vendor-specific: no such program.
    UNKNOWN_PROGRAM = 0x1c7,
    /// Vendor-specific: a module that is not a program, or does not fit.
    NOT_INSTALLED = 0x1c8,
    /// Vendor-specific: too many endpoints.
    NO_QUEUE_PAIR = 0x1c9,
    /// Vendor-specific: a namespace remembers no more hosts.
    TOO_MANY_HOSTS = 0x1ca,
}

impl Failure {
    /// Data whose digest does not match: the host may send them again.
    pub const TRANSIENT: Failure = Failure { code: 0x022, is_final: false, result: 0 };
    /// The drive has no power.
    pub const POWER_LOSS: Failure = Failure { code: 0x005, is_final: false, result: 0 };
    /// The right to a part of the drive was withdrawn. What a host is told depends on what has become of its namespace.
    pub const KEPT_OUT: Failure = Failure { code: 0x00b, is_final: false, result: 0 };
    /// A reservation changed at the same moment: the command did nothing (Command Interrupted).
    pub const INTERRUPTED: Failure = Failure { code: 0x021, is_final: false, result: 0 };
    /// The namespace is being formatted, or was when the command came.
    pub const FORMAT_IN_PROGRESS: Failure = Failure { code: 0x084, is_final: false, result: 0 };
    /// Too many units are waiting in the drive at the moment (Namespace Not Ready).
    pub const NOT_READY: Failure = Failure { code: 0x082, is_final: false, result: 0 };

    /// As [`Failure::CONNECT_PARAMETER`], with the position of the parameter: in the command, or in its data.
    pub fn connect_parameter(is_in_data: bool, offset: u16) -> Failure {
        Failure { result: u64::from(is_in_data) << 16 | u64::from(offset), ..Failure::CONNECT_PARAMETER }
    }

    /// The failure with dwords 0 and 1 of its completion (`result`).
    pub fn with_result(self, result: u64) -> Failure {
        Failure { result, ..self }
    }

    /// Whether it is [`Failure::KEPT_OUT`], whatever the completion reports besides.
    pub fn is_kept_out(&self) -> bool {
        self.with_result(0) == Failure::KEPT_OUT
    }

    /// Whether it says how blocks were found that are read.
    pub fn is_of_old_contents(&self) -> bool {
        [Failure::UNREADABLE, Failure::COMPARE, Failure::DEALLOCATED].contains(&self.with_result(0))
    }

    /// How a command of the drive ended.
    pub fn of<T>(ended: Result<T, Status>) -> Result<T, Failure> {
        ended.map_err(Failure::from)
    }

    /// The status field of a completion, without the phase: status in bits 11:1, Do Not Retry in bit 15.
    pub fn field(self) -> u16 {
        assert!((1..0x800).contains(&self.code), "a completion has no room for status {:#x}", self.code);
        self.code << 1 | u16::from(self.is_final) << 15
    }

    /// Type and code, as in a completion's status field.
    pub fn code_of(field: u16) -> u16 {
        field >> 1 & 0x7ff
    }

    /// Type and code.
    pub fn code(self) -> u16 {
        self.code
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        match status {
            Status::OutOfRange { .. } => Failure::OUT_OF_RANGE,
            Status::InvalidField(_) | Status::DataLength { .. } => Failure::INVALID_FIELD,
            Status::Unmapped { .. } => Failure::UNMAPPED,
            Status::OverLimit { .. } => Failure::OVER_LIMIT,
            Status::UnknownTransaction(_) => Failure::UNKNOWN_TRANSACTION,
            Status::UnknownLog(_) => Failure::UNKNOWN_LOG,
            Status::SlotOutOfOrder(_) => Failure::SLOT_OUT_OF_ORDER,
            Status::NoSuchNamespace { .. } => Failure::INVALID_NAMESPACE,
            Status::NoSuchKey { .. } => Failure::NO_SUCH_KEY,
            Status::ValueTooLarge { .. } => Failure::VALUE_SIZE,
            Status::RecordUnreadable { .. } => Failure::RECORD_UNREADABLE,
            Status::CapacityExceeded => Failure::CAPACITY_EXCEEDED,
            Status::Unreadable { .. } | Status::ZoneUnreadable { .. } => Failure::UNREADABLE,
            Status::Zone(refusal) => refusal.into(),
            Status::ReadOnly | Status::WriteProtected(_) => Failure::WRITE_PROTECTED,
            Status::PowerLost => Failure::POWER_LOSS,
            Status::OutOfBuffers { .. } => Failure::NOT_READY,
            Status::Host(_) | Status::Damaged(_) | Status::Unfinished(_) | Status::Internal(_) => {
                Failure::INTERNAL
            }
        }
    }
}

impl From<ZoneRefusal> for Failure {
    fn from(refusal: ZoneRefusal) -> Failure {
        match refusal {
            ZoneRefusal::NoSuchZone { .. } => Failure::OUT_OF_RANGE,
            ZoneRefusal::Boundary { .. } => Failure::ZONE_BOUNDARY,
            ZoneRefusal::Full { .. } => Failure::ZONE_FULL,
            ZoneRefusal::InvalidWrite { .. } => Failure::ZONE_INVALID_WRITE,
            ZoneRefusal::TooManyActive { .. } => Failure::TOO_MANY_ACTIVE_ZONES,
            ZoneRefusal::TooManyOpen { .. } => Failure::TOO_MANY_OPEN_ZONES,
            ZoneRefusal::Transition { .. } => Failure::ZONE_TRANSITION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_where_a_completion_has_it() {
        assert_eq!(Failure::OUT_OF_RANGE.field(), 0x8000 | 0x80 << 1);
        assert_eq!(Failure::UNREADABLE.field(), 0x8000 | 2 << 9 | 0x81 << 1);
        assert_eq!(Failure::code_of(Failure::COMPARE.field()), 0x285);
        assert_eq!(Failure::POWER_LOSS.field(), 0x05 << 1, "the host may try again");
        assert_eq!(Failure::connect_parameter(true, 256).result, 0x1_0100);
    }
}
