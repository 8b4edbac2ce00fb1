"""Counts, in the drive, requests for pages (hits.wasm); then reads a stripe by way of Direct-IO, with permission and without.

    PYTHONPATH=.. python3 programs.py nqn.2014-08.org.nvmexpress:uuid:... ../../../../hosts/spu/modules

The name is that of the attached drive's subsystem. Serve the drive with --kernel-host and this host's NQN: rights are the
kernel's to give. It writes to the first 8 KiB of the drive.
"""

import pathlib
import struct
import sys

import tantalum_programs as programs
from tantalum_nvme import find
from tantalum_programs import Endpoint

STRIPE = bytes(index * 7 + index // 256 & 0xFF for index in range(8192))


def check(is_so, what):
    if not is_so:
        raise SystemExit(f"not so: {what}")


def count_hits(user, folder):
    hits = user.install((folder / "hits.wasm").read_bytes())
    for count in (1, 2, 3):
        check(user.ask(3, hits, 0, struct.pack("<I", 7)) == count, "a hit is counted")
    print("page 7 was hit 3 times")
    user.uninstall(hits)
    check(user.ask(3, hits, 0, struct.pack("<I", 7)) == programs.NO_PROGRAM, "it is gone")
    try:
        user.install(b"not a module")
    except programs.Refused as refused:
        check("not a valid module" in str(refused), "the refusal says why")
    else:
        check(False, "what is no module is refused")


def read_and_write(kernel, user, folder):
    direct = kernel.install((folder / "direct_io.wasm").read_bytes(), is_open=True)
    head = struct.pack("<QII", 0, len(STRIPE), 1)
    check(user.ask(0, direct, 1, head + STRIPE) == programs.NO_PERMISSION, "a write without a right fails")
    event = user.receive(1000)
    check(event.kind == programs.PERMISSION and not event.is_granted, "the driver has none")
    kernel.grant(user.process, 0, len(STRIPE), programs.READ | programs.WRITE)
    check(user.ask(0, direct, 1, head + STRIPE) == programs.OK, "a write with the right")
    check(user.ask(0, direct, 0, head) == programs.OK, "a read with the right")
    read = []
    user.serve({0: lambda event: read.append(event.body[16:])}, 1000)
    check(read == [STRIPE], "what is read is what was written")
    print("a stripe was written and read by Direct-IO")


def main(subsystem, folder):
    with open(find(subsystem, 1), "r+b", buffering=0) as file:
        run(file, pathlib.Path(folder))


def run(file, folder):
    with Endpoint(file, is_kernel=True) as kernel, Endpoint(file) as user:
        count_hits(user, folder)
        read_and_write(kernel, user, folder)
    print("all of it is right")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: programs.py NQN FOLDER-WITH-MODULES")
    main(*sys.argv[1:])
