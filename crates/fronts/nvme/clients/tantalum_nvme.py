"""Tantalum's vendor commands, and NVMe's Key Value commands, for programs on a Linux host.

It needs nothing but Python's own library. A function makes a command and sends nothing; `send` gives it to the drive by
way of the file of a namespace (1 has the blocks, 2 and up are key-value namespaces), which `find` finds, and waits for it.
docs/nvme.md tells what each command does.

    with open(find("nqn.2014-08.org.nvmexpress:uuid:...", 1), "r+b", buffering=0) as blocks:
        send(blocks, remap(1, from_unit=100, to_unit=200, units=4))

Units have 4096 bytes and are named by number, also where logical blocks have 512 bytes.
"""

import ctypes
import errno
import fcntl
import os
import struct

UNIT_BYTES = 4096
KEY_BYTES = 16
TRANSFER_BYTES = 512 << 10
NO_HOME = 0xFFFFFFFF

# Conditions of `store`.
ALWAYS, IF_THERE, IF_NEW = 0, 1, 2

# Some of the statuses of a `Failure`.
INVALID_FIELD = 0x002
INVALID_NAMESPACE = 0x00B
OUT_OF_RANGE = 0x080
CAPACITY_EXCEEDED = 0x081
NO_SUCH_KEY = 0x087
KEY_EXISTS = 0x089
UNMAPPED = 0x1C0
OVER_LIMIT = 0x1C1
UNKNOWN_TRANSACTION = 0x1C2
UNKNOWN_LOG = 0x1C3
SLOT_OUT_OF_ORDER = 0x1C4

_DELETED = 0xFFFFFFFF


class Failure(Exception):
    """The drive ended a command with a status: NVMe's type in bits 10:8, its code in bits 7:0."""

    def __init__(self, status):
        super().__init__(f"the drive ended the command with status {status:#05x}")
        self.status = status


class Passthrough(ctypes.Structure):
    """struct nvme_passthru_cmd64 of linux/nvme_ioctl.h."""

    _fields_ = [
        ("opcode", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("rsvd1", ctypes.c_uint16),
        ("nsid", ctypes.c_uint32),
        ("cdw2", ctypes.c_uint32),
        ("cdw3", ctypes.c_uint32),
        ("metadata", ctypes.c_uint64),
        ("addr", ctypes.c_uint64),
        ("metadata_len", ctypes.c_uint32),
        ("data_len", ctypes.c_uint32),
        ("cdw10", ctypes.c_uint32),
        ("cdw11", ctypes.c_uint32),
        ("cdw12", ctypes.c_uint32),
        ("cdw13", ctypes.c_uint32),
        ("cdw14", ctypes.c_uint32),
        ("cdw15", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_uint32),
        ("rsvd2", ctypes.c_uint32),
        ("result", ctypes.c_uint64),
    ]


# _IOWR('N', 0x48, struct nvme_passthru_cmd64)
_IO64_CMD = 3 << 30 | ctypes.sizeof(Passthrough) << 16 | ord("N") << 8 | 0x48


# _IO('N', 0x40)
_ID = ord("N") << 8 | 0x40

# Where Linux lists the generic devices of namespaces, and where their files are.
_GENERIC, _DEV = "/sys/class/nvme-generic", "/dev"


def namespace_of(file):
    """The number of the namespace whose file this is."""
    return fcntl.ioctl(file, _ID)


def _subsystem_of(device):
    try:
        with open(f"{_GENERIC}/{device}/device/subsysnqn") as attribute:
            return attribute.read().rstrip("\n")
    except FileNotFoundError:
        # it has gone
        return None


def find(subsystem, namespace):
    """The path of the file of a namespace of the subsystem with this name (NQN).

    The file's own name does not tell: the numbers in it are not those of namespaces, and since Linux 6.12 they differ each time
    that a drive is attached. Raises FileNotFoundError if no such namespace is attached, PermissionError if its file may not be
    opened.
    """
    reason = FileNotFoundError(errno.ENOENT, f"no namespace {namespace} of {subsystem} is attached")
    devices = os.listdir(_GENERIC) if os.path.isdir(_GENERIC) else []
    for device in devices:
        if _subsystem_of(device) != subsystem:
            continue
        path = f"{_DEV}/{device}"
        try:
            with open(path, "rb", buffering=0) as file:
                if namespace_of(file) == namespace:
                    return path
        except OSError as error:
            reason = error
    raise reason


class Command:
    """A command with its data: `data` is what it sends, or where what it reads goes."""

    def __init__(self, opcode, namespace, data=b"", **dwords):
        self.data = bytearray(data)
        self.passthrough = Passthrough(opcode=opcode, nsid=namespace, data_len=len(self.data), **dwords)

    @property
    def result(self):
        """What the drive gave back: a transaction, a generation, the size of a value."""
        return self.passthrough.result


def send(file, command):
    """Gives a command to the drive and waits for it. Returns the command; raises `Failure`, or OSError."""
    held = None
    if command.data:
        held = (ctypes.c_char * len(command.data)).from_buffer(command.data)
        command.passthrough.addr = ctypes.addressof(held)
    status = fcntl.ioctl(file, _IO64_CMD, command.passthrough) & 0x7FF
    del held
    if status:
        raise Failure(status)
    return command


def _unit(data):
    if len(data) != UNIT_BYTES:
        raise ValueError(f"a unit has {UNIT_BYTES} bytes, not {len(data)}")
    return bytes(data)


def _units(units):
    if not 0 < len(units) <= UNIT_BYTES // 4:
        raise ValueError(f"{len(units)} units in one command; at least one and at most {UNIT_BYTES // 4} are possible")
    names = b"".join(struct.pack("<I", lpn) for lpn, _ in units)
    return names.ljust(UNIT_BYTES, b"\0") + b"".join(_unit(data) for _, data in units)


def _records(records):
    data = b""
    for namespace, key, value in records:
        value_bytes = _DELETED if value is None else len(value)
        data += struct.pack("<IIH6x16s", namespace, value_bytes, len(_checked(key)), key)
        data += (value or b"") + bytes(-len(value or b"") % 4)
    return data


def _transaction(transaction):
    return {"cdw14": transaction & 0xFFFFFFFF, "cdw15": transaction >> 32}


# -- vendor commands


def remap(namespace, from_unit, to_unit, units):
    """Moves the mappings of units."""
    return Command(0x80, namespace, cdw10=from_unit, cdw11=to_unit, cdw12=units)


def share(namespace, ranges, deferred=False):
    """Shares ranges (to, from, units) in one step; durable when it is done, or if `deferred` by the next flush."""
    data = b"".join(struct.pack("<IIII", to, from_unit, units, 0) for to, from_unit, units in ranges)
    return Command(0x81, namespace, data, cdw12=(len(ranges) - 1 & 0xFFFF) | deferred << 31)


def write_atomic(namespace, units):
    """Writes units (number, data), all or nothing; durable when it is done."""
    return Command(0x85, namespace, _units(units), cdw12=len(units) - 1)


def write_batch(namespace, units, records):
    """Writes units (number, data), and puts and deletes records (namespace, key, value or None), all or nothing."""
    data = _units(units) + _records(records)
    return Command(0xA5, namespace, data, cdw10=len(data), cdw12=len(units) - 1)


def put(namespace, records):
    """Puts and deletes records (namespace, key, value or None), all or nothing."""
    data = _records(records)
    return Command(0xA1, namespace, data, cdw10=len(data))


def begin(namespace):
    """Begins a transaction; `result` names it."""
    return Command(0x84, namespace)


def tx_write(namespace, transaction, lpn, data):
    """Writes a unit in a transaction."""
    return Command(0x89, namespace, _unit(data), cdw10=lpn, **_transaction(transaction))


def tx_read(namespace, transaction, lpn):
    """Reads a unit as a transaction sees it."""
    return Command(0x8A, namespace, bytes(UNIT_BYTES), cdw10=lpn, **_transaction(transaction))


def commit(namespace, transaction):
    """Commits a transaction."""
    return Command(0x88, namespace, **_transaction(transaction))


def abort(namespace, transaction):
    """Aborts a transaction."""
    return Command(0x8C, namespace, **_transaction(transaction))


def begin_log(namespace):
    """Begins a life of a hinted log; `result` is its generation."""
    return Command(0x90, namespace)


def write_hinted(namespace, lpn, data, *, generation, attempt, start, first, slot, end, home=NO_HOME, metadata=b""):
    """Writes a page of a hinted log; `metadata` are at most 24 bytes that travel with it."""
    if len(metadata) > 24:
        raise ValueError(f"a page has at most 24 bytes of metadata, not {len(metadata)}")
    hint = struct.pack("<QIIIIII24s8x", generation, attempt, start, first, slot, end, home, metadata)
    return Command(0x91, namespace, hint + _unit(data), cdw10=lpn)


# -- NVMe's commands on blocks


def flush(namespace):
    """Makes everything durable that was done before."""
    return Command(0x00, namespace)


def _blocks(first, count):
    return {"cdw10": first & 0xFFFFFFFF, "cdw11": first >> 32, "cdw12": count - 1}


def write(namespace, first, count, data, force=False):
    """Writes `count` logical blocks; if `force`, to flash before it is done."""
    command = Command(0x01, namespace, data, **_blocks(first, count))
    command.passthrough.cdw12 |= force << 30
    return command


def read(namespace, first, count, block_bytes=UNIT_BYTES):
    """Reads `count` logical blocks."""
    return Command(0x02, namespace, bytes(count * block_bytes), **_blocks(first, count))


def deallocate(namespace, ranges):
    """Deallocates ranges (first block, count): a log's page that is trimmed claims its home no more."""
    data = b"".join(struct.pack("<4xIQ", count, first) for first, count in ranges)
    return Command(0x09, namespace, data, cdw10=len(ranges) - 1, cdw11=1 << 2)


# -- the Key Value command set


def _checked(key):
    if len(key) > KEY_BYTES:
        raise ValueError(f"a key has at most {KEY_BYTES} bytes, not {len(key)}")
    return key


def _key(key, options=0):
    names = ("cdw2", "cdw3", "cdw14", "cdw15")
    dwords = struct.unpack("<4I", _checked(key).ljust(KEY_BYTES, b"\0"))
    return {"cdw11": len(key) | options << 8, **dict(zip(names, dwords))}


def store(namespace, key, value, condition=ALWAYS):
    """Stores a value under a key."""
    return Command(0x01, namespace, value, cdw10=len(value), **_key(key, condition))


def retrieve(namespace, key, size):
    """Reads at most `size` bytes of a value; `result` is the size of all of it."""
    return Command(0x02, namespace, bytes(size), cdw10=size, **_key(key))


def list_keys(namespace, size, key=b""):
    """Lists keys from one on, or from the beginning, in `size` bytes; `keys_of` reads the answer."""
    return Command(0x06, namespace, bytes(size), cdw10=size, **_key(key))


def keys_of(command):
    """The keys that `list_keys` found."""
    (count,), at, keys = struct.unpack_from("<I", command.data), 4, []
    for _ in range(count):
        (size,) = struct.unpack_from("<H", command.data, at)
        keys.append(bytes(command.data[at + 2 : at + 2 + size]))
        at += (2 + size + 3) // 4 * 4
    return keys


def delete(namespace, key):
    """Deletes a key."""
    return Command(0x10, namespace, **_key(key))


def exist(namespace, key):
    """Ends well if a key is there, and otherwise with `NO_SUCH_KEY`."""
    return Command(0x14, namespace, **_key(key))
