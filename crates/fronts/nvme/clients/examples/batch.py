"""Stores and retrieves a record, shares units, and writes units and records in one atomic batch; checks all of it.

    PYTHONPATH=.. python3 batch.py nqn.2014-08.org.nvmexpress:uuid:...

The name is that of the attached drive's subsystem, which needs a key-value namespace. It overwrites units 0 to 9 and the keys that begin with "example", of a drive with blocks of 4096 bytes.
"""

import sys

import tantalum_nvme as nvme

BLOCKS, RECORDS = 1, 2


def unit(byte):
    return bytes([byte]) * nvme.UNIT_BYTES


def check(is_right, what):
    if not is_right:
        raise SystemExit(f"{what} is not what was written")
    print(f"{what}: ok")


def fails(file, command, status):
    try:
        nvme.send(file, command)
    except nvme.Failure as failure:
        return failure.status == status
    return False


def main(subsystem):
    paths = [nvme.find(subsystem, namespace) for namespace in (BLOCKS, RECORDS)]
    with open(paths[0], "r+b", buffering=0) as blocks, open(paths[1], "r+b", buffering=0) as records:
        run(blocks, records)


def run(blocks, records):
    def holds(lpn, byte):
        return nvme.send(blocks, nvme.read(BLOCKS, lpn, 1)).data == unit(byte)

    def value(key):
        found = nvme.send(records, nvme.retrieve(RECORDS, key, 64))
        return bytes(found.data[: found.result])

    nvme.send(records, nvme.store(RECORDS, b"example", b"a stored value"))
    check(value(b"example") == b"a stored value", "the stored record")
    again = nvme.store(RECORDS, b"example", b"another", nvme.IF_NEW)
    check(fails(records, again, nvme.KEY_EXISTS), "the key that is there")
    nvme.send(blocks, nvme.write(BLOCKS, 0, 1, unit(11), force=True))
    nvme.send(blocks, nvme.share(BLOCKS, [(4, 0, 1)]))
    check(holds(4, 11), "the shared unit")
    batch = [(RECORDS, b"example", None), (RECORDS, b"example of a bat", b"with units")]
    nvme.send(blocks, nvme.write_batch(BLOCKS, [(2, unit(22)), (9, unit(99))], batch))
    check(holds(2, 22) and holds(9, 99), "the units of the batch")
    check(value(b"example of a bat") == b"with units", "the record of the batch")
    check(fails(records, nvme.exist(RECORDS, b"example"), nvme.NO_SUCH_KEY), "the deleted record")
    keys = nvme.keys_of(nvme.send(records, nvme.list_keys(RECORDS, 4096)))
    check(b"example of a bat" in keys and b"example" not in keys, "the list of keys")
    twice = nvme.write_batch(BLOCKS, [(2, unit(33))], [(RECORDS, b"example", b"1"), (RECORDS, b"example", b"2")])
    check(fails(blocks, twice, nvme.INVALID_FIELD) and holds(2, 22), "the refused batch")
    transaction = nvme.send(blocks, nvme.begin(BLOCKS)).result
    nvme.send(blocks, nvme.tx_write(BLOCKS, transaction, 2, unit(44)))
    check(holds(2, 22), "the unit before the commit")
    nvme.send(blocks, nvme.commit(BLOCKS, transaction))
    check(holds(2, 44), "the unit after the commit")
    print("all of it is right")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} NQN")
    main(sys.argv[1])
