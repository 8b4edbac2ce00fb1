"""Runs an example of the Python modules, and stands in for the kernel: see relay.c.

Arguments: the folder with the devices, the example, the subsystem, and for `programs` the folder with modules.
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


def ioctl(file, request, command=None):
    namespace = int(pathlib.Path(file.name).read_text())
    if request == 0x4E40:
        return namespace % 100
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
folder, example, subsystem = sys.argv[1:4]
tantalum_nvme._GENERIC, tantalum_nvme._DEV = f"{folder}/nvme-generic", f"{folder}/dev"
try:
    tantalum_nvme.find(subsystem, 3)
    raise SystemExit("a namespace was found that is not there")
except FileNotFoundError:
    pass
if example == "batch":
    batch.main(subsystem)
else:
    programs.main(subsystem, sys.argv[4])
