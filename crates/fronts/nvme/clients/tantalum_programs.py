"""Programs in a Tantalum drive, for programs on a Linux host: endpoints, installing, sending, serving, waiting.

It needs `tantalum_nvme` beside it, and Python's own library. Commands go to the drive by way of the file of the namespace
with the blocks, 1, which `tantalum_nvme.find` finds. docs/programs.md tells what programs are, docs/nvme.md what the commands do.

    with open(find(subsystem, 1), "r+b", buffering=0) as file, Endpoint(file) as endpoint:
        hits = endpoint.install(pathlib.Path("hits.wasm").read_bytes())
        count = endpoint.ask(3, hits, 0, struct.pack("<I", 7))

Several threads may use an endpoint, but only one may wait in `receive` or `serve`.
"""

import dataclasses
import struct

from tantalum_nvme import Command, Failure, send

# Statuses of a `Failure`.
VALUE_SIZE = 0x085
UNKNOWN_ENDPOINT = 0x1C5
NOT_ALLOWED = 0x1C6
UNKNOWN_PROGRAM = 0x1C7
NOT_INSTALLED = 0x1C8
NO_QUEUE_PAIR = 0x1C9

# Answers of the drive itself; those of handlers are 0 and above. As in tantalum_spu.h.
OK, NOT_DELIVERED, NO_PROGRAM, NO_HANDLER, ANSWER_NOT_ALLOWED, NO_PERMISSION = 0, -1, -2, -3, -4, -5
NO_ROOM, ENDED, TIMEOUT = -7, -8, -9

# Rights to a range.
READ, WRITE = 1, 2

# Kinds of events.
REQUEST, PERMISSION, PROGRAM_ENDED = 1, 2, 3

MOST_WAIT_MS = 10_000
_HEAD = struct.Struct("<6I3Q")
_COUNTERS = struct.Struct("<8Q")


class Refused(Failure):
    """A program was not installed; the text says why."""

    def __init__(self, status, why):
        super().__init__(status)
        self.args = (why,)


@dataclasses.dataclass(frozen=True)
class Event:
    """A request of a program, a decision about a permission, or the end of a program, with its body or its reason."""

    kind: int
    processor: int
    program: int
    handler: int
    is_granted: bool
    start: int
    end: int
    at_ns: int
    body: bytes


class Endpoint:
    """An endpoint of a new process; with `of`, a further one of that endpoint's process; or one of the kernel."""

    def __init__(self, file, *, is_kernel=False, of=None):
        self.file = file
        key = of.key if of else 0
        command = send(file, self._command(0xC2, key, bytes(64), cdw10=int(is_kernel)))
        fields = struct.unpack_from("<QIIIIQI", command.data)
        self.key, self.number, self.process, self.processors, self.stripe_bytes = fields[:5]
        self.capacity_bytes, self.body_bytes = fields[5:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _command(opcode, key, data=b"", **dwords):
        return Command(opcode, 1, data, cdw14=key & 0xFFFFFFFF, cdw15=key >> 32, **dwords)

    def _send(self, opcode, data=b"", **dwords):
        return send(self.file, self._command(opcode, self.key, data, **dwords))

    def close(self):
        """Closes it. With its last endpoint a process ends, and its programs are removed."""
        self._send(0xC4)

    def install(self, module, *, is_open=False, region=(0, 0)):
        """Installs a module on all processors, and returns the program. Raises `Refused` with the reason."""
        data = struct.pack("<QQI12x", *region, is_open) + module
        try:
            return self._send(0xC5, data, cdw10=len(data)).result
        except Failure as failure:
            if failure.status != NOT_INSTALLED:
                raise
            raise Refused(failure.status, self.refusal()) from None

    def uninstall(self, program):
        """Removes a program."""
        self._send(0xC8, cdw10=program)

    def allow_calls(self, program, called, handlers):
        """Lets a program call handlers of another."""
        mask = sum(1 << handler for handler in set(handlers))
        self._send(0xCC, cdw10=program, cdw11=called, cdw12=mask & 0xFFFFFFFF, cdw13=mask >> 32)

    def grant(self, process, start, end, rights):
        """The kernel gives a process rights to a range instead of those that it had there; 0 takes them away."""
        self._send(0xC9, struct.pack("<IIQQ8x", process, rights, start, end))

    def grant_namespace(self, process, namespace):
        """The kernel lets a process read the records of a namespace."""
        self._send(0xC9, struct.pack("<I20xI4x", process, namespace))

    def ask(self, processor, program, handler, body=b""):
        """Sends a request to a handler on a processor, waits, and returns the answer."""
        asked = self._send(0xCD, body, cdw10=len(body), cdw11=processor, cdw12=program, cdw13=handler)
        (answer,) = struct.unpack("<i", struct.pack("<I", asked.result))
        return answer

    def receive(self, wait_ms=MOST_WAIT_MS, body_bytes=None):
        """The next event; None if there is none in time. One with a longer body than `body_bytes` stays (VALUE_SIZE)."""
        size = _HEAD.size + (self.body_bytes if body_bytes is None else body_bytes)
        command = self._send(0xCE, bytes(size), cdw10=size, cdw11=min(wait_ms, MOST_WAIT_MS))
        if command.result == 0:
            return None
        kind, processor, program, handler, size, granted, start, end, at_ns = _HEAD.unpack_from(command.data)
        body = bytes(command.data[_HEAD.size : _HEAD.size + size])
        return Event(kind, processor, program, handler, bool(granted), start, end, at_ns, body)

    def serve(self, handlers, wait_ms=MOST_WAIT_MS):
        """Waits for the next event; if it is a request, calls the handler of its number with it. Returns the event."""
        event = self.receive(wait_ms)
        if event and event.kind == REQUEST and event.handler in handlers:
            handlers[event.handler](event)
        return event

    def output(self, program, processor):
        """A program's counters, and what it wrote to the serial port of a processor."""
        size = _COUNTERS.size + 4096
        command = self._send(0xD2, bytes(size), cdw10=size, cdw11=processor, cdw12=program)
        return _COUNTERS.unpack_from(command.data), bytes(command.data[_COUNTERS.size : command.result])

    def refusal(self):
        """Why a command of this endpoint was refused last."""
        command = self._send(0xD2, bytes(4096), cdw10=4096)
        return command.data[: command.result].decode()
