"""Cuts the power of a drive after each of some writes, while flash is being programmed, and counts what acknowledged data are lost.

Two drives: one loses its cache with its power, the other has a capacitor. Two hosts: one never flushes, the other flushes
after each eighth write. Run it with `pip install ./python`.
"""

import tantalum

WRITES = 1000


def write(device, writes, flush_every):
    for lpn in range(writes):
        device.write(lpn, lpn.to_bytes(8, "little") * (tantalum.UNIT_BYTES // 8))
        if flush_every and (lpn + 1) % flush_every == 0:
            device.flush()


def lost(device, writes, seed):
    """Cuts the power, and gives it back: how many of the units that were acknowledged are lost."""
    device.cut_power()
    device.power_on(seed=seed)
    return sum(int.from_bytes(device.read(lpn)[:8], "little") != lpn for lpn in range(1, writes))


for profile in ("tlc-nvme", "tlc-nvme-plp"):
    # a small drive with a capacitor needs more flash than its capacity says
    fresh = tantalum.Device(profile, capacity_bytes=256 << 20, overrides={"over_provisioning_percent": 28})
    for flush_every in (None, 8):
        most = 0
        for writes in range(1, WRITES + 1, 9):
            device = fresh.clone()
            write(device, writes, flush_every)
            most = max(most, lost(device, writes, seed=writes))
        device = fresh.clone()
        write(device, WRITES, flush_every)
        took_ms = (device.now_ns - fresh.now_ns) / 1e6
        habit = f"a flush after {flush_every} writes" if flush_every else "no flush"
        print(f"{profile:12}  {habit:22}  {WRITES:,} writes take {took_ms:5.1f} ms, a cut loses at most {most:3}")
