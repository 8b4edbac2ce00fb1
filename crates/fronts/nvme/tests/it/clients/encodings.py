"""Prints each command as it goes to the drive: its name, its 64 bytes without the data pointer, and its data."""

import struct

import tantalum_nvme as nvme

UNIT = bytes(index * 7 + index // 256 & 0xFF for index in range(nvme.UNIT_BYTES))
VALUE = b"a value"


def show(name, command):
    fields = command.passthrough
    # as Linux does it
    entry = struct.pack(
        "<BBHIIIQ16x6I",
        *(fields.opcode, fields.flags, 0, fields.nsid, fields.cdw2, fields.cdw3, fields.metadata),
        *(fields.cdw10, fields.cdw11, fields.cdw12, fields.cdw13, fields.cdw14, fields.cdw15),
    )
    # data to the drive are shown
    data = command.data.hex() if fields.opcode & 1 else ""
    print(name, entry.hex(), fields.data_len, data)


def refuses(make):
    try:
        make()
    except ValueError:
        return
    raise SystemExit("a call that must be refused succeeded")


TRANSACTION = 0x123456789ABCDEF
PAGE = {"generation": 1 << 40, "attempt": 2, "start": 3, "first": 4, "slot": 5, "metadata": b"\x09" * 24}

show("flush", nvme.flush(1))
show("write", nvme.write(1, 1 << 33 | 5, 1, UNIT, force=True))
show("read", nvme.read(1, 7, 2))
show("deallocate", nvme.deallocate(1, [(3000, 2), (1 << 33, 1)]))
show("remap", nvme.remap(1, 100, 200, 4))
show("share", nvme.share(1, [(100, 0, 2), (200, 4, 1)]))
show("share-deferred", nvme.share(1, [(100, 0, 2), (200, 4, 1)], deferred=True))
show("write-atomic", nvme.write_atomic(1, [(5, UNIT), (900, UNIT)]))
RECORDS = [(2, b"key", VALUE), (3, b"a key of 16 byte", None)]
show("write-batch", nvme.write_batch(1, [(5, UNIT), (900, UNIT)], RECORDS))
show("put", nvme.put(2, [(2, b"key", VALUE), (3, b"gone", None), (3, b"empty", b"")]))
show("begin", nvme.begin(1))
show("tx-write", nvme.tx_write(1, TRANSACTION, 7, UNIT))
show("tx-read", nvme.tx_read(1, TRANSACTION, 7))
show("commit", nvme.commit(1, TRANSACTION))
show("abort", nvme.abort(1, TRANSACTION))
show("begin-log", nvme.begin_log(1))
show("write-hinted", nvme.write_hinted(1, 3000, UNIT, end=1, home=6, **PAGE))
show("write-hinted-homeless", nvme.write_hinted(1, 3001, UNIT, end=0, **PAGE))
show("store", nvme.store(2, b"key", VALUE))
show("store-new", nvme.store(3, b"a key of 16 byte", VALUE, nvme.IF_NEW))
show("retrieve", nvme.retrieve(2, b"nine byte", 4096))
show("list", nvme.list_keys(2, 4096))
show("list-from", nvme.list_keys(2, 512, b"key"))
show("delete", nvme.delete(2, b"key"))
show("exist", nvme.exist(2, b"key"))

refuses(lambda: nvme.write_atomic(1, [(5, UNIT[1:])]))
refuses(lambda: nvme.write_atomic(1, []))
refuses(lambda: nvme.write_hinted(1, 3000, UNIT, end=1, **{**PAGE, "metadata": bytes(25)}))
refuses(lambda: nvme.delete(2, b"a key of 17 bytes"))
refuses(lambda: nvme.put(2, [(2, b"a key of 17 bytes", VALUE)]))
