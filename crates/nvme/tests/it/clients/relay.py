"""Runs an example of the Python modules, and stands in for the kernel: see relay.c.

Arguments: the example, and for `programs` the folder with modules.
"""

import ctypes
import errno
import os
import pathlib
import socket
import struct
import sys

import batch
import programs
import tantalum_nvme

relay = socket.socket(socket.AF_UNIX)
relay.connect(os.environ["RELAY"])
stream = relay.makefile("rwb")


def ioctl(namespace, request, command):
    if request != 0xC0504E48 or command.nsid != namespace:
        raise OSError(errno.EINVAL, "no such command for this file")
    stream.write(bytes(command))
    if command.opcode & 1:
        stream.write(ctypes.string_at(command.addr, command.data_len))
    stream.flush()
    status, command.result = struct.unpack("<IQ", stream.read(12))
    if status == 0 and command.opcode & 2:
        ctypes.memmove(command.addr, stream.read(command.data_len), command.data_len)
    # Do Not Retry is told besides
    return status | 0x4000 if status else 0


tantalum_nvme.fcntl.ioctl = ioctl
if sys.argv[1] == "batch":
    batch.main(batch.BLOCKS, batch.RECORDS)
else:
    # the namespace stands for its file
    programs.run(1, pathlib.Path(sys.argv[2]))
