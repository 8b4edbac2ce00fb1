"""Tantalum: drives, a transactional key-value store, a document store, and programs in drives."""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, final

from typing_extensions import Buffer

_T = TypeVar("_T")

__version__: str

UNIT_BYTES: int
"""Bytes of a unit of a drive: 4096."""

METADATA_BYTES: int
"""Bytes of metadata that can travel with a unit: 24."""

class TantalumError(Exception):
    """The store or the drive refused."""

class DeadlockError(TantalumError):
    """The transaction gave way to an older one: try again."""

class SelfDeadlockError(TantalumError):
    """Another open transaction of the same thread has the lock: a transaction within another one."""

class PowerLostError(TantalumError):
    """The drive has no power."""

class LimitError(TantalumError):
    """More than the drive takes in one step, or at once."""

class UnmappedError(TantalumError):
    """A unit to be shared has no contents."""

class CapacityError(TantalumError):
    """No flash is left, even after garbage collection."""

class ReadOnlyError(TantalumError):
    """Too few good blocks are left for writes, or documents can only be read."""

class UnreadableError(TantalumError):
    """The flash page of a unit or record cannot be read. An error of a store has the record's namespace and key."""

    namespace: str
    key: bytes

class DamagedError(TantalumError):
    """The drive's own data are damaged; or part of an ordered namespace's index is, from one key up to another."""

    namespace: str
    start: bytes
    end: bytes | None

class HostError(TantalumError):
    """The machine failed below the image. The drive takes no more changes until it is opened again."""

class _Array(Protocol):
    """A numpy array; its types declare it a buffer only since Python 3.12."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Data: TypeAlias = Buffer | _Array
_Fate: TypeAlias = Literal["not started", "torn", "completed"]
_Write: TypeAlias = tuple[int, _Data]
_Record: TypeAlias = tuple[int, Buffer, _Data | None]

class FlashUnits(TypedDict):
    """Units of 4,096 bytes programmed into flash, by cause."""

    host: int
    padding: int
    copyback: int
    journal: int
    checkpoint: int
    dump: int

class Limits(TypedDict):
    """Limits of a drive for one step, and the flash that it has."""

    capacity_units: int
    atomic_units: int
    atomic_write_units: int
    share_units: int
    open_transactions: int
    transaction_units: int
    hints: int
    files: int
    key_bytes: int
    value_bytes: int
    put_records: int
    put_bytes: int
    namespaces: int
    effective_over_provisioning_percent: float
    channels: int
    dies_per_channel: int
    planes_per_die: int
    blocks_per_plane: int
    pages_per_block: int
    page_bytes: int

class Counters(TypedDict):
    """Counters of a drive, and its wear, as `tantalum stat --json` has them."""

    flash_units: FlashUnits
    host_units_written: int
    host_units_read: int
    host_units_without_data: int
    records_put: int
    record_bytes_put: int
    records_deleted: int
    records_got: int
    record_bytes_got: int
    batches_with_records: int
    indexes_swapped_out: int
    indexes_swapped_in: int
    index_units_read: int
    index_checkpoints: int
    blocks_erased: int
    collections: int
    checkpoints: int
    units_shared: int
    units_brought_home: int
    units_remapped: int
    transactions_committed: int
    flushes: int
    unsafe_shutdowns: int
    program_failures: int
    erase_failures: int
    uncorrectable_reads: int
    erase_count_min: int
    erase_count_max: int
    erase_count_mean: float
    bad_blocks: int
    spare_blocks: int
    available_spare_percent: int
    available_spare_threshold_percent: int
    read_only: bool

class StoreCounters(TypedDict):
    """Counters of a key-value store since it was opened, and bytes of memory that it uses now."""

    conflicts: int
    """Times that a transaction found a lock taken."""
    deadlocks: int
    """Times that a transaction had to give way."""
    cached_bytes: int
    snapshot_bytes: int

class Latency(TypedDict):
    """How long commands of one kind took, in ns of the drive's time, to 1 %."""

    count: int
    mean_ns: float
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int

@final
class Device:
    """A drive: flash, FTL and controller, in memory or in an image.

    Its unit is 4,096 bytes, and `lpn` is the number of a unit, from 0. Data are bytes-like objects of whole units, read and
    filled in place. Time is virtual, in nanoseconds: a command is issued at `now_ns`, which then moves to the time at which
    it is done, unless it is queued. Commands return the time at which they are done, if they return nothing else.

    PowerLostError without power, ReadOnlyError at the end of the drive's life, IndexError for units beyond the capacity,
    ValueError for other wrong values. `help(tantalum.Device)` describes each method.
    """

    def __new__(
        cls,
        profile: str = "tlc-nvme",
        *,
        path: str | PathLike[str] | None = None,
        capacity_bytes: int | None = None,
        overrides: Mapping[str, int | float | str | bool | None] | None = None,
    ) -> Device: ...
    @staticmethod
    def open(path: str | PathLike[str], *, overlay: bool = False) -> Device: ...
    @property
    def refuses_changes(self) -> str | None: ...
    def clone(self) -> Device | None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Device: ...
    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> bool: ...

    # units
    def read(self, lpn: int, units: int = 1) -> bytes: ...
    def read_into(self, lpn: int, buffer: _Data, *, queued: bool = False) -> int: ...
    def write(
        self, lpn: int, data: _Data, *, fua: bool = False, handle: int | None = None, queued: bool = False
    ) -> int: ...
    def flush(self, *, queued: bool = False) -> int: ...
    def trim(self, lpn: int, units: int = 1, *, queued: bool = False) -> int: ...
    def write_zeroes(self, lpn: int, units: int = 1, *, queued: bool = False) -> int: ...
    def is_mapped(self, lpn: int) -> bool: ...

    # several units in one step
    def share(
        self, ranges: Sequence[tuple[int, int, int]], *, deferred: bool = False, queued: bool = False
    ) -> int: ...
    def remap(self, src: int, dst: int, units: int = 1, *, queued: bool = False) -> int: ...
    def write_atomic(self, writes: Sequence[_Write], *, queued: bool = False) -> int: ...
    def write_batch(
        self, writes: Sequence[_Write], records: Sequence[_Record], *, queued: bool = False
    ) -> int: ...
    def begin(self) -> DeviceTransaction: ...

    # units with more than data
    def read_with_metadata(self, lpn: int) -> tuple[bytes, bytes]: ...
    def write_with_metadata(
        self, lpn: int, data: _Data, metadata: Buffer, *, fua: bool = False, queued: bool = False
    ) -> int: ...
    def begin_log(self) -> int: ...
    def write_hinted(
        self,
        lpn: int,
        data: _Data,
        *,
        generation: int,
        slot: int,
        first: int,
        end: bool,
        home: int | None = None,
        attempt: int = 0,
        start: int = 1,
        metadata: Buffer | None = None,
        queued: bool = False,
    ) -> int: ...
    def fs_write(self, lpn: int, data: _Data, *, file: int, offset: int, queued: bool = False) -> int: ...
    def read_file_list(self, file: int) -> list[tuple[int, int]]: ...
    def list_files(self) -> list[int]: ...
    def clear_file_lists(self, file: int | None = None) -> int: ...

    # zones
    def zones(self) -> list[tuple[str, int]]: ...
    def zone_read(self, zone: int, offset: int, units: int) -> bytes: ...
    def zone_write(
        self, zone: int, offset: int, data: _Data, *, fua: bool = False, queued: bool = False
    ) -> int: ...
    def zone_append(self, zone: int, data: _Data, *, fua: bool = False) -> int: ...
    def zone_manage(self, action: str, zone: int | None = None) -> int: ...

    # records
    def create_namespace(
        self, *, expected_records: int = 0, logs: int = 0, load_factor_percent: int = 75
    ) -> int: ...
    def delete_namespace(self, namespace: int) -> int: ...
    def namespaces(self) -> list[int]: ...
    def kv_put(self, records: Sequence[_Record], *, queued: bool = False) -> int: ...
    def kv_get(self, namespace: int, key: Buffer) -> bytes: ...
    def kv_exists(self, namespace: int, key: Buffer) -> bool: ...
    def kv_delete(self, namespace: int, key: Buffer) -> int: ...
    def kv_list(self, namespace: int, start: Buffer | None = None, limit: int = 1000) -> list[bytes]: ...

    # power
    @property
    def has_power(self) -> bool: ...
    @property
    def flash_operations(self) -> int: ...
    def cut_power(self, at_ns: int | None = None) -> None: ...
    def cut_after(self, flash_operations: int | None) -> None: ...
    def in_flight(self) -> list[tuple[Literal["program", "erase", "store"], int | None, int, int]]: ...
    def power_on(self, seed: int = 0, *, fates: _Fate | Sequence[_Fate] | None = None) -> dict[str, int | bool]: ...
    def set_faults(
        self,
        *,
        seed: int = 0,
        program_failure_ppm: int = 0,
        erase_failure_ppm: int = 0,
        read_failure_ppm: int = 0,
        endurance_cycles: int | None = None,
    ) -> None: ...

    # figures
    @property
    def now_ns(self) -> int: ...
    @property
    def idle_ns(self) -> int: ...
    def wait(self) -> int: ...
    def advance(self, ns: int) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def capacity_units(self) -> int: ...
    @property
    def mapped_units(self) -> int: ...
    @property
    def profile(self) -> str: ...
    def limits(self) -> Limits: ...
    def counters(self, *, since_reset: bool = False) -> Counters: ...
    def reset_counters(self) -> None: ...
    def write_amplification(self) -> float: ...
    def usage(self) -> dict[str, int]: ...
    def recovery(self) -> dict[str, int | bool]: ...
    def latencies(self) -> dict[Literal["read", "write", "flush", "map", "put", "get"], Latency]: ...

@final
class DeviceTransaction:
    """A transaction of a drive: others see nothing of what it writes until it commits. As a context manager it commits
    when its block ends, and aborts when the block raises.
    """

    @property
    def number(self) -> int: ...
    def read(self, lpn: int) -> bytes: ...
    def write(self, lpn: int, data: _Data, *, queued: bool = False) -> int: ...
    def commit(self) -> int: ...
    def abort(self) -> int: ...
    def __enter__(self) -> DeviceTransaction: ...
    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> bool: ...

@final
class Store:
    """A key-value store in an image, which is created if it does not exist."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        synced: bool = True,
        cache_bytes: int | None = None,
        capacity_bytes: int | None = None,
        snapshot_bytes: int | None = None,
        profile: str | None = None,
        records_per_lock: int = 1,
        read_only: bool = False,
    ) -> None: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def profile(self) -> str: ...
    @property
    def refuses_changes(self) -> str | None: ...
    def room_for(self, value_bytes: int) -> int:
        """How many more records with values of this many bytes fit, at least."""

    def counters(self, *, since_reset: bool = False) -> StoreCounters: ...
    def drive_counters(self, *, since_reset: bool = False) -> Counters: ...
    def reset_counters(self) -> None: ...
    def find_damage(self) -> builtins.list[UnreadableError | DamagedError]:
        """What is lost: UnreadableError for each key without its value, DamagedError for keys that cannot be found."""

    def drop_damaged(self) -> builtins.list[UnreadableError | DamagedError]: ...
    def namespace(self, name: str) -> int:
        """Ordered, if it is new: keys of 1 to 1,024 bytes, with ranges. Opened whatever its kind is, if it exists."""

    def hashed_namespace(self, name: str) -> int:
        """Keys of 1 to 16 bytes, without an order."""

    def namespaces(self) -> dict[str, Literal["hashed", "ordered"]]: ...
    def delete_namespace(self, name: str) -> None: ...
    def list(self, namespace: int, start: Buffer | None = None, limit: int = 1000) -> builtins.list[bytes]: ...
    def transaction(self) -> Transaction: ...
    def transact(self, work: Callable[[Transaction], _T]) -> _T: ...
    def snapshot(self) -> StoreSnapshot: ...
    def back_up(self, path: str | PathLike[str]) -> int: ...
    def compact(self) -> None:
        """Returns space to the file system that nothing needs any more, while others use the store."""

    def close(self) -> None: ...
    def __enter__(self) -> Store: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

@final
class Transaction:
    """A transaction of a store: it commits when its block ends, and aborts when the block raises."""

    def read(self, namespace: int, key: Buffer) -> bytes | None: ...
    def read_at(self, namespace: int, key: Buffer, offset: int, length: int) -> bytes | None:
        """At most `length` bytes of a value, from `offset` on: for values that are not to be in memory as a whole."""

    def value_bytes(self, namespace: int, key: Buffer) -> int | None: ...
    def read_for_update(self, namespace: int, key: Buffer) -> bytes | None: ...
    def put(self, namespace: int, key: Buffer, value: Buffer) -> None: ...
    def insert(self, namespace: int, key: Buffer, value: Buffer) -> None: ...
    def update(self, namespace: int, key: Buffer, value: Buffer) -> None: ...
    def delete(self, namespace: int, key: Buffer) -> bool: ...
    def range(
        self,
        namespace: int,
        start: Buffer | None = None,
        end: Buffer | None = None,
        *,
        reverse: bool = False,
        for_update: bool = False,
    ) -> Range: ...
    def prefix(
        self, namespace: int, prefix: Buffer, *, reverse: bool = False, for_update: bool = False
    ) -> Range: ...
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

@final
class StoreSnapshot:
    """The committed records as of one point in time. It blocks no transaction and waits for none."""

    def read(self, namespace: int, key: Buffer) -> bytes | None: ...
    def read_at(self, namespace: int, key: Buffer, offset: int, length: int) -> bytes | None:
        """At most `length` bytes of a value, from `offset` on: for values that are not to be in memory as a whole."""

    def value_bytes(self, namespace: int, key: Buffer) -> int | None: ...
    def list(self, namespace: int, start: Buffer | None = None, limit: int = 1000) -> builtins.list[bytes]: ...
    def range(
        self, namespace: int, start: Buffer | None = None, end: Buffer | None = None, *, reverse: bool = False
    ) -> Range: ...
    def prefix(self, namespace: int, prefix: Buffer, *, reverse: bool = False) -> Range: ...
    def close(self) -> None: ...
    def __enter__(self) -> StoreSnapshot: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

@final
class Range:
    """An iterator over the keys and values of a range. After an error that says what is lost, it goes on behind that."""

    def __iter__(self) -> Range: ...
    def __next__(self) -> tuple[bytes, bytes]: ...

def restore(
    backup: str | PathLike[str], image: str | PathLike[str], *, capacity_bytes: int | None = None
) -> int: ...
def rebuild(image: str | PathLike[str], *, capacity_bytes: int | None = None) -> int: ...

@final
class Documents:
    """A document store: a file of that name in a folder, which is created if it does not exist.

    In a folder that is mounted read-only it is opened to be read, and changes raise ReadOnlyError.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        name: str = "app.couch",
        *,
        share: bool = True,
        cache_bytes: int | None = None,
    ) -> None: ...
    def get(self, key: Buffer) -> bytes | None: ...
    def commit(self, changes: Mapping[bytes, Buffer | None]) -> int: ...
    def snapshot(self) -> Snapshot: ...
    def compact(self) -> None: ...
    def garbage_percent(self) -> float: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Documents: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

@final
class Snapshot:
    """The documents as of one point in time."""

    def get(self, key: Buffer) -> bytes | None: ...
    def range(
        self, start: Buffer | None = None, end: Buffer | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def changes(self, since: int) -> Iterator[tuple[int, bytes, bytes | None]]: ...
    @property
    def seq(self) -> int: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    def __enter__(self) -> Snapshot: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

def shipped(name: str) -> bytes:
    """The module of a shipped program, such as "base_io"."""

@final
class Ssd:
    """A drive with storage processors, in memory or in an image. Everything happens in virtual time, while a method waits."""

    @property
    def refuses_changes(self) -> str | None: ...
    def __init__(
        self, profile: str = "tlc-nvme", *, path: str | PathLike[str] | None = None, capacity_bytes: int | None = None
    ) -> None: ...
    def endpoint(self, *, is_kernel: bool = False, of: Endpoint | None = None) -> Endpoint:
        """Opens an endpoint of a new process; with `of`, another one of that endpoint's process; or one of the kernel."""

    @property
    def now_ns(self) -> int: ...
    @property
    def processors(self) -> int: ...
    @property
    def stripe_bytes(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def link_bytes(self) -> tuple[int, int]:
        """Bytes that the link has carried to the drive and to the host."""

    def owner(self, address: int) -> int:
        """The processor that owns an address."""

    def cut_power(self) -> None: ...
    def power_on(self, seed: int = 0) -> None:
        """Turns the power on again. `seed` decides the outcome of operations that were in flight."""

    def close(self) -> None: ...
    def __enter__(self) -> Ssd: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

@final
class Event:
    """An event of an endpoint."""

    @property
    def kind(self) -> Literal["answer", "request", "permission", "ended", "power lost"]: ...
    @property
    def processor(self) -> int: ...
    @property
    def program(self) -> int: ...
    @property
    def handler(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def is_granted(self) -> bool: ...
    @property
    def range(self) -> tuple[int, int]: ...
    @property
    def at_ns(self) -> int: ...
    @property
    def body(self) -> bytes:
        """Of a request, its body; of a program that was ended, why, and in which function."""

@final
class Endpoint:
    """An endpoint of a process: it sends requests to programs and receives theirs."""

    @property
    def number(self) -> int: ...
    @property
    def process(self) -> int: ...
    def close(self) -> None: ...
    def end_process(self) -> None: ...
    def install(self, module: Buffer, *, is_open: bool = False, region: tuple[int, int] | None = None) -> int: ...
    def uninstall(self, program: int) -> None: ...
    def allow_calls(self, program: int, called: int, handlers: Sequence[int]) -> None: ...
    def grant(self, process: int, start: int, end: int, rights: int) -> None:
        """Sets a process's rights to a range: 1 to read, 2 to write, 0 revokes them. Only the kernel can grant."""

    def send(self, processor: int, program: int, handler: int, body: Buffer | None = None, *, at_ns: int = 0) -> int:
        """Sends a request at a time, or now, and returns its number. Its answer is an event."""

    def ask(self, processor: int, program: int, handler: int, body: Buffer | None = None) -> int:
        """Sends a request, waits, and returns the answer. Events wait for `receive`."""

    def receive(self) -> Event | None:
        """Waits for the next event; None if nothing is in flight."""

    def serve(self, handlers: dict[int, Callable[[Event], object]]) -> Event | None:
        """Waits for the next event; if it is a request, calls the handler of its number with it."""

    def output(self, program: int, processor: int) -> tuple[list[int], bytes]:
        """A program's counters, and what it wrote to the serial port of a processor."""

    def read(self, program: int, address: int, length: int) -> bytes: ...
    def write(self, program: int, address: int, data: Buffer) -> None: ...
    def flush(self, program: int) -> None: ...
    def __enter__(self) -> Endpoint: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

def _crash_run(
    program: Callable[..., object],
    check: Callable[..., object],
    *,
    drive: str | None,
    sector: int,
    cuts: int | None,
    minutes: float | None,
    seed: int,
    capacity_bytes: int,
    save: str | PathLike[str] | None,
) -> tuple[str, str]: ...
