"""Run by python/test: installs the package into an environment of its own, then this."""

import ctypes
import gc
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tantalum

try:
    import numpy
except ImportError:
    numpy = None

UNIT = tantalum.UNIT_BYTES
CAPACITY = 256 << 20
FIFO = {"flash.scheduling": "fifo", "flash.suspend_ns": None, "flash.suspensions": None}


def unit(stamp):
    """A unit that tells by its first bytes and by its last which one it is."""
    return struct.pack("<Q", stamp) * (UNIT // 8)


def stamp_of(data):
    """The stamp of a whole unit; raises if it is a mixture."""
    stamps = set(struct.unpack(f"<{UNIT // 8}Q", data))
    if len(stamps) != 1:
        raise AssertionError(f"a torn unit: {stamps}")
    return stamps.pop()


class DeviceCase(unittest.TestCase):
    def device(self, profile="tlc-nvme", **options):
        device = tantalum.Device(profile, capacity_bytes=CAPACITY, **options)
        self.addCleanup(device.close)
        return device

    def folder(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        return folder


class CommandsTest(DeviceCase):
    def test_what_was_written_is_read_and_the_rest_is_zeros(self):
        device = self.device()
        device.write(5, unit(1) + unit(2))
        self.assertEqual(device.read(4, 4), bytes(UNIT) + unit(1) + unit(2) + bytes(UNIT))
        device.trim(5)
        self.assertEqual(device.read(5, 2), bytes(UNIT) + unit(2))
        device.write_zeroes(6)
        self.assertEqual(device.read(6), bytes(UNIT))
        self.assertEqual((device.is_mapped(5), device.capacity_units * UNIT), (False, CAPACITY))

    def test_share_and_remap_move_no_data(self):
        device = self.device()
        device.write(0, unit(1) + unit(2))
        device.flush()
        before = device.counters()["flash_units"]["host"]
        device.share([(10, 0, 2)])
        device.remap(1, 20)
        self.assertEqual([stamp_of(device.read(lpn)) for lpn in (0, 1, 10, 11, 20)], [1, 0, 1, 2, 2])
        counters = device.counters()
        self.assertEqual((counters["units_shared"], counters["units_remapped"]), (2, 1))
        self.assertEqual(counters["flash_units"]["host"], before)

    def test_transactions_are_seen_when_they_commit(self):
        device = self.device()
        device.write(3, unit(1))
        with device.begin() as tx:
            tx.write(3, unit(2))
            self.assertEqual((stamp_of(tx.read(3)), stamp_of(device.read(3))), (2, 1))
        self.assertEqual(stamp_of(device.read(3)), 2)
        with self.assertRaises(ZeroDivisionError), device.begin() as tx:
            tx.write(3, unit(3))
            raise ZeroDivisionError
        self.assertEqual(stamp_of(device.read(3)), 2)
        with self.assertRaises(KeyError):
            tx.commit()

    def test_batches_are_of_units_and_records(self):
        device = self.device()
        names = device.create_namespace(expected_records=100)
        self.assertEqual(device.namespaces(), [names])
        device.write_atomic([(1, unit(1)), (9, bytearray(unit(2)))])
        device.write_batch([(1, unit(3))], [(names, b"a", b"one"), (names, b"b", memoryview(b"two"))])
        self.assertEqual([stamp_of(device.read(lpn)) for lpn in (1, 9)], [3, 2])
        self.assertEqual((device.kv_get(names, b"a"), device.kv_get(names, b"b")), (b"one", b"two"))
        device.kv_put([(names, b"a", None), (names, b"c", b"")])
        self.assertEqual(sorted(device.kv_list(names)), [b"b", b"c"])
        self.assertEqual([device.kv_exists(names, key) for key in (b"a", b"c")], [False, True])
        device.kv_delete(names, b"b")
        with self.assertRaises(KeyError):
            device.kv_get(names, b"b")
        device.delete_namespace(names)
        with self.assertRaises(KeyError):
            device.kv_list(names)

    def test_metadata_travel_with_a_unit(self):
        device = self.device()
        device.write_with_metadata(7, unit(1), b"about it")
        self.assertEqual(device.read_with_metadata(7), (unit(1), b"about it".ljust(24, b"\0")))
        with self.assertRaises(ValueError):
            device.write_with_metadata(7, unit(1), bytes(25))

    def test_a_hint_brings_a_log_page_home(self):
        device = self.device()
        device.write(500, unit(1))
        device.flush()
        log = device.begin_log()
        device.write_hinted(0, unit(2), generation=log, slot=1, first=1, end=False, home=500)
        device.write_hinted(1, unit(3), generation=log, slot=2, first=1, end=True, home=501)
        with self.assertRaises(ValueError):
            device.write_hinted(2, unit(4), generation=log, slot=9, first=9, end=True, home=502)
        device.flush()
        device.share([(500, 0, 1), (501, 1, 1)])
        self.assertEqual([stamp_of(device.read(lpn)) for lpn in (500, 501)], [2, 3])
        self.assertEqual(device.counters()["units_brought_home"], 2)

    def test_lists_of_files(self):
        device = self.device("pebblessd")
        device.fs_write(10, unit(1) + unit(2), file=4, offset=6)
        self.assertEqual((device.list_files(), device.read_file_list(4)), ([4], [(10, 6), (11, 7)]))
        device.cut_power()
        device.power_on(1)
        self.assertEqual((device.read_file_list(4), stamp_of(device.read(11))), ([(10, 6), (11, 7)], 2))
        device.clear_file_lists(4)
        self.assertEqual(device.list_files(), [])


class BuffersTest(DeviceCase):
    def test_bytes_like_objects_are_written_and_filled_in_place(self):
        device = self.device()
        for stamp, kind in enumerate((bytes, bytearray, memoryview), 1):
            device.write(stamp, kind(unit(stamp)))
            target = bytearray(3 * UNIT)
            device.read_into(stamp, memoryview(target)[UNIT : 2 * UNIT])
            self.assertEqual(bytes(target), bytes(UNIT) + unit(stamp) + bytes(UNIT))

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_arrays_of_any_numbers(self):
        device = self.device()
        for lpn, kind in enumerate(("u1", "<i4", ">f8", "c16", "e", "S8")):
            source = numpy.arange(2 * UNIT, dtype="u1").view(kind)
            device.write(4 * lpn, source)
            target = numpy.zeros_like(source)
            device.read_into(4 * lpn, target)
            self.assertEqual(target.tobytes(), source.tobytes())
        rows = numpy.zeros((8, UNIT), dtype="u1")
        device.read_into(0, rows[3:5])
        self.assertEqual([row.any() for row in rows], [False] * 3 + [True] * 2 + [False] * 3)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_arrays_that_cannot_be_used_are_refused(self):
        device = self.device()
        objects = numpy.array([object()] * (UNIT // ctypes.sizeof(ctypes.c_void_p)))
        for array in (objects, numpy.zeros(2 * UNIT, "u1")[::2], numpy.zeros(UNIT // 4, "U1")):
            with self.assertRaises(BufferError):
                device.write(0, array)
            with self.assertRaises(BufferError):
                device.read_into(0, array)
        fixed = numpy.zeros(UNIT, "u1")
        fixed.flags.writeable = False
        with self.assertRaises(BufferError):
            device.read_into(0, fixed)
        with self.assertRaises(BufferError):
            device.read_into(0, bytes(UNIT))
        with self.assertRaises(TypeError):
            device.write(0, "text")

    def test_a_buffer_is_let_go_again(self):
        device = self.device()
        data = bytearray(UNIT)
        device.write(0, data)
        device.read_into(0, data)
        with self.assertRaises(ValueError):
            device.write(0, memoryview(data)[:100])
        gc.collect()
        data.append(1)  # BufferError while somebody has it

    def test_other_threads_run_while_the_drive_works(self):
        device = self.device()
        data, stamps, stop = bytes(48 << 20), [], threading.Event()

        def tick():
            while not stop.is_set():
                stamps.append(time.perf_counter())

        ticking = threading.Thread(target=tick)
        ticking.start()
        within, deadline = [], time.monotonic() + 60
        try:
            # a busy machine may not let the other thread run for a while
            while not within and time.monotonic() < deadline:
                begun = time.perf_counter()
                device.write(0, data)
                ended = time.perf_counter()
                quarter = (ended - begun) / 4
                within = [stamp for stamp in stamps if begun + quarter < stamp < ended - quarter]
                stamps.clear()
        finally:
            stop.set()
            ticking.join()
        self.assertTrue(within, "no other thread ran in the middle of any write")

    def test_threads_share_a_drive(self):
        device = self.device()
        wrong = []

        def work(first):
            for turn in range(200):
                lpn = first + turn % 16
                device.write(lpn, unit(first + turn))
                if stamp_of(device.read(lpn)) != first + turn:
                    wrong.append((first, turn))

        threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(1, 5)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(wrong, [])


class TimeTest(DeviceCase):
    def test_time_is_the_drives_and_repeats(self):
        ends = []
        for _ in range(2):
            device = self.device()
            begun = device.now_ns
            done = device.write(0, unit(1))
            self.assertEqual(device.now_ns, done)
            self.assertGreater(done, begun)
            device.read(0)
            ends.append(device.flush())
        self.assertEqual(*ends)
        self.assertEqual(device.advance(1000), ends[0] + 1000)
        self.assertEqual(device.now_ns, ends[0] + 1000)

    def test_queued_commands_are_under_way_together(self):
        waiting, queued = self.device(), self.device()
        begun = queued.now_ns
        for lpn in range(512):
            waiting.write(lpn, unit(lpn))
            queued.write(lpn, unit(lpn), queued=True)
        waiting.flush()
        queued.flush(queued=True)
        self.assertEqual(queued.now_ns, begun)
        self.assertLess(queued.wait() - begun, waiting.now_ns - begun)
        self.assertEqual(queued.now_ns, queued.idle_ns)

    def test_counters_are_reset_for_an_interval(self):
        with tantalum.Device(capacity_bytes=64 << 20) as device:
            device.write(0, bytes(3 * 4096))
            device.reset_counters()
            device.write(0, memoryview(bytes(4096)))
            self.assertEqual(device.counters(since_reset=True)["host_units_written"], 1)
            self.assertEqual(device.counters()["host_units_written"], 4)
            namespace = device.create_namespace()
            device.kv_put([(namespace, bytearray(b"key"), bytearray(b"value"))])
            self.assertEqual(device.kv_get(namespace, memoryview(b"key")), b"value")

    def test_latencies_and_counters_are_those_of_the_commands(self):
        device = self.device()
        took = []
        for lpn in range(10):
            begun = device.now_ns
            took.append(device.write(lpn, unit(lpn)) - begun)
        latency = device.latencies()["write"]
        self.assertEqual((latency["count"], "read" in device.latencies()), (10, False))
        self.assertAlmostEqual(latency["max_ns"], max(took), delta=max(took) / 100)
        self.assertAlmostEqual(latency["mean_ns"], sum(took) / 10, delta=max(took) / 100)
        self.assertEqual((device.counters()["host_units_written"], device.usage()["writes_ns"]), (10, sum(took)))

    def test_overrides_change_the_profile(self):
        def read_ns(**options):
            device = self.device(**options)
            device.write(0, unit(1))
            device.flush()
            begun = device.now_ns
            device.read(0)
            return device.now_ns - begun

        slow = {"flash.read_ns": 5_000_000, "over_provisioning_percent": 28}
        self.assertGreater(read_ns(overrides=slow), 5_000_000)
        self.assertLess(read_ns(), 5_000_000)
        device = self.device(overrides={"cache.mode": "off", **FIFO})
        self.assertIn('mode = "off"', device.profile)
        self.assertNotIn("suspend_ns", device.profile)
        for wrong in ({"flash.speed": 1}, {"name.first": 1}, {"flash.read_ns": "fast"}, {"link.command_ns": 1 << 62}):
            with self.assertRaises(ValueError):
                self.device(overrides=wrong)
        for wrong in ({"flash.read_ns": None}, {"flash.read_ns": 1 << 70}):
            with self.assertRaises(ValueError):
                self.device(overrides=wrong)
        with self.assertRaises(TypeError):
            self.device(overrides=[1])
        slow_file = self.folder() / "slow.toml"
        slow_file.write_text(device.profile.replace("command_ns = 5000", "command_ns = 5000000000000000"))
        with self.assertRaises(ValueError):
            self.device(str(slow_file))


class PowerTest(DeviceCase):
    def cut_in_writes(self, profile, operation, seed):
        """Writes until power goes at a flash operation. Returns the drive, what was acknowledged and what was flushed."""
        # a small drive with a capacitor needs more room
        device = self.device(profile, overrides={"over_provisioning_percent": 28})
        chance = random.Random(seed)
        acknowledged, flushed, submitted = {}, {}, {}
        device.cut_after(operation)
        try:
            for stamp in range(1, 30_000):
                # a capacitor lets the cache keep more
                lpn = chance.randrange(200 if profile == "tlc-nvme" else 10_000)
                submitted.setdefault(lpn, []).append(stamp)
                device.write(lpn, unit(stamp))
                acknowledged[lpn] = stamp
                if chance.random() < 0.1:
                    device.flush()
                    flushed = dict(acknowledged)
        except tantalum.PowerLostError:
            return device, submitted, acknowledged, flushed
        self.fail("power did not go")

    def survive(self, profile, is_durable):
        lost, in_flight = 0, 0
        for seed, operation in enumerate(range(1, 60, 3)):
            device, submitted, acknowledged, flushed = self.cut_in_writes(profile, operation, seed)
            self.assertFalse(device.has_power)
            with self.assertRaises(tantalum.PowerLostError):
                device.read(0)
            in_flight += len(device.in_flight())
            report = device.power_on(seed)
            self.assertEqual(report, device.recovery())
            for lpn, stamps in submitted.items():
                found = stamp_of(device.read(lpn))
                promised = (acknowledged if is_durable else flushed).get(lpn, 0)
                self.assertIn(found, [0, *stamps], f"seed {seed}, unit {lpn}")
                self.assertGreaterEqual(found, promised, f"seed {seed}, unit {lpn}")
                lost += found < acknowledged.get(lpn, 0)
        self.assertGreater(in_flight, 0, "no cut found an operation under way")
        return lost

    def test_what_was_flushed_survives_a_cut_in_the_middle_of_writes(self):
        lost = self.survive("tlc-nvme", is_durable=False)
        self.assertGreater(lost, 0, "no cut lost what only the cache held: the test proves nothing")

    def test_with_a_capacitor_what_was_acknowledged_survives(self):
        self.assertEqual(self.survive("tlc-nvme-plp", is_durable=True), 0)

    def test_an_atomic_write_is_there_or_not(self):
        seen = set()
        for operation in range(1, 12):
            device = self.device()
            device.write_atomic([(lpn, unit(1)) for lpn in range(20)])
            device.cut_after(operation)
            try:
                device.write_atomic([(lpn, unit(2)) for lpn in range(20)])
            except tantalum.PowerLostError:
                device.power_on(operation)
            stamps = {stamp_of(device.read(lpn)) for lpn in range(20)}
            self.assertEqual(len(stamps), 1)
            seen |= stamps
        self.assertEqual(seen, {1, 2})

    def test_fates_of_operations_in_flight_can_be_chosen(self):
        for fates, expected in (("not started", 1), ("completed", 2)):
            device = self.device()
            device.write(0, unit(1))
            device.flush()
            done = device.write(0, unit(2), fua=True, queued=True)
            # the program takes most of that time
            device.cut_power((device.now_ns + done) // 2)
            (what, page, begin, end), = device.in_flight()
            self.assertEqual((what, begin < device.idle_ns, begin < end), ("program", True, True))
            copy = device.clone()
            device.power_on(fates=[fates])
            copy.power_on(fates=fates)
            self.assertEqual([stamp_of(one.read(0)) for one in (device, copy)], [expected] * 2)
        device.cut_power()
        with self.assertRaises(ValueError):
            device.power_on(fates="gone")

    def test_power_may_go_again_in_recovery(self):
        device, _, _, flushed = self.cut_in_writes("tlc-nvme", 30, 1)
        device.cut_after(1)
        with self.assertRaises(tantalum.PowerLostError):
            device.power_on(1)
        device.power_on(2)
        self.assertTrue(all(stamp_of(device.read(lpn)) >= stamp for lpn, stamp in flushed.items()))

    def test_faults_are_errors_of_their_own(self):
        device = self.device()
        device.write(0, unit(1))
        device.flush()
        device.set_faults(seed=1, read_failure_ppm=1_000_000)
        with self.assertRaises(tantalum.UnreadableError):
            device.read(0)
        device.set_faults(seed=1, program_failure_ppm=900_000)
        with self.assertRaises(tantalum.ReadOnlyError):
            for lpn in range(device.capacity_units):
                device.write(lpn, unit(2))
        # what waits in its cache can no longer be stored
        with self.assertRaises(tantalum.ReadOnlyError):
            device.flush()
        device.cut_power()


class ImageTest(DeviceCase):
    def test_an_image_keeps_what_was_written(self):
        image = self.folder() / "drive.tant"
        with tantalum.Device(path=image, capacity_bytes=CAPACITY) as device:
            device.write(3, unit(1))
            self.assertIsNone(device.clone())
            with self.assertRaises(tantalum.TantalumError):
                tantalum.Device.open(image)
        with self.assertRaises(FileExistsError):
            tantalum.Device(path=image)
        with tantalum.Device.open(image) as device:
            self.assertTrue(device.recovery()["clean"])
            self.assertEqual(stamp_of(device.read(3)), 1)
        with tantalum.Device.open(image, overlay=True) as device:
            device.write(3, unit(2))
            device.flush()
            self.assertEqual(stamp_of(device.read(3)), 2)
        with tantalum.Device.open(image) as device:
            self.assertEqual(stamp_of(device.read(3)), 1)

    def test_killing_the_process_is_a_power_cut(self):
        image = self.folder() / "drive.tant"
        program = (
            "import os, sys, tantalum\n"
            f"device = tantalum.Device(path=sys.argv[1], capacity_bytes={CAPACITY})\n"
            "for lpn in range(100):\n"
            "    device.write(lpn, bytes([lpn + 1]) * 4096)\n"
            "device.flush()\n"
            "device.write(0, bytes([255]) * 4096)\n"
            "os.kill(os.getpid(), 9)\n"
        )
        killed = subprocess.run([sys.executable, "-c", program, image])
        self.assertEqual(killed.returncode, -9)
        with tantalum.Device.open(image) as device:
            self.assertFalse(device.recovery()["clean"])
            found = [device.read(lpn)[0] for lpn in range(100)]
            self.assertEqual(found[1:], list(range(2, 101)))
            self.assertIn(found[0], (1, 255))

    def test_files_that_are_no_images_are_refused(self):
        folder = self.folder()
        with self.assertRaises(FileNotFoundError):
            tantalum.Device.open(folder / "none")
        (folder / "text").write_text("not an image")
        with self.assertRaises(ValueError):
            tantalum.Device.open(folder / "text")
        image = folder / "drive.tant"
        tantalum.Device(path=image, capacity_bytes=CAPACITY).close()
        with open(image, "r+b") as file:
            file.seek(12)  # the header's checksum
            file.write(b"\xff" * 4)
        with self.assertRaises(tantalum.DamagedError):
            tantalum.Device.open(image)


class FlashTest(unittest.TestCase):
    def test_limits_tell_the_flash_that_a_drive_has(self):
        # a small drive has more flash than the 7 % asked for, in smaller blocks than the 256 pages of its profile
        with tantalum.Device("tlc-nvme", capacity_bytes=128 << 20) as device:
            limits = device.limits()
        self.assertEqual(limits["effective_over_provisioning_percent"], 9.375)
        planes = limits["channels"] * limits["dies_per_channel"] * limits["planes_per_die"]
        pages = planes * limits["blocks_per_plane"] * limits["pages_per_block"]
        self.assertEqual(limits["pages_per_block"], 8)
        self.assertEqual(pages * limits["page_bytes"], (128 << 20) * 1.09375)


class RefusalsTest(DeviceCase):
    def test_units_beyond_the_drive(self):
        device = self.device()
        last = device.capacity_units
        for attempt in (
            lambda: device.read(last),
            lambda: device.read(0, last + 1),
            lambda: device.read(1 << 63),
            lambda: device.read(0, 1 << 63),
            lambda: device.write(last - 1, bytes(2 * UNIT)),
            lambda: device.trim(1 << 40),
            lambda: device.share([(last, 0, 1)]),
            lambda: device.remap(0, 1 << 40),
            lambda: device.write_atomic([(last, bytes(UNIT))]),
        ):
            self.assertRaises(IndexError, attempt)
        self.assertRaises(OverflowError, device.read, -1)

    def test_wrong_values(self):
        device = self.device()
        for attempt in (
            lambda: device.write(0, b""),
            lambda: device.write(0, b"short"),
            lambda: device.read(0, 0),
            lambda: device.write_atomic([(0, bytes(UNIT)), (0, bytes(UNIT))]),
            lambda: device.kv_put([(1, b"a key of more than 16 bytes", b"")]),
            lambda: device.fs_write(0, bytes(UNIT), file=1, offset=0),
            lambda: device.create_namespace(load_factor_percent=100),
            lambda: device.advance(1 << 63),
            lambda: device.cut_power(1 << 63),
            lambda: device.cut_after(0),
            lambda: device.set_faults(program_failure_ppm=1_000_000),
            lambda: device.power_on(),
            lambda: tantalum.Device("no such drive"),
            lambda: tantalum.Device(capacity_bytes=1000),
            lambda: tantalum.Device(capacity_bytes=1 << 63),
            lambda: tantalum.Device(capacity_bytes=1 << 63, overrides={"cache.mode": "off"}),
        ):
            self.assertRaises(ValueError, attempt)
        too_many = [(lpn, bytes(UNIT)) for lpn in range(device.limits()["atomic_units"] + 1)]
        self.assertRaises(tantalum.LimitError, device.write_atomic, too_many)
        self.assertRaises(tantalum.UnmappedError, device.share, [(0, 1, 1)])

    def test_a_closed_drive_and_one_without_power(self):
        device = self.device()
        device.cut_power()
        self.assertRaises(tantalum.PowerLostError, device.flush)
        self.assertRaises(tantalum.PowerLostError, device.begin)
        self.assertEqual(device.counters()["host_units_written"], 0)
        device.close()
        device.close()
        with self.assertRaisesRegex(tantalum.TantalumError, "closed"):
            device.read(0)

    def test_any_numbers_are_answered(self):
        """Calls with odd numbers, again and again: whatever is refused, nothing panics, and the drive still works."""
        odd = [0, 1, 2, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        device = self.device(overrides=FIFO)
        log, names = device.begin_log(), device.create_namespace()
        small = [number for number in odd if number < 2**32]

        def any_of(numbers):
            return chance.choice(numbers)

        calls = [
            lambda: device.read(any_of(odd), any_of(odd)),
            lambda: device.write(any_of(odd), bytes(any_of([0, 1, UNIT, 3 * UNIT]))),
            lambda: device.trim(any_of(odd), any_of(odd)),
            lambda: device.write_zeroes(any_of(odd), any_of(odd)),
            lambda: device.share([(any_of(odd), any_of(odd), any_of(odd)) for _ in range(any_of([0, 1, 3]))]),
            lambda: device.remap(any_of(odd), any_of(odd), any_of(odd)),
            lambda: device.write_atomic([(any_of(odd), bytes(UNIT)) for _ in range(any_of([0, 1, 3]))]),
            lambda: device.write_hinted(
                any_of(odd),
                bytes(UNIT),
                generation=any_of([log, 0, 2**64 - 1]),
                slot=any_of(small),
                first=any_of(small),
                end=any_of([True, False]),
                home=any_of([None, *odd]),
                attempt=any_of(small),
                start=any_of(small),
            ),
            lambda: device.fs_write(any_of(odd), bytes(UNIT), file=any_of(small), offset=any_of(small)),
            lambda: device.read_file_list(any_of(small)),
            lambda: device.clear_file_lists(any_of(small)),
            lambda: device.create_namespace(
                expected_records=any_of(odd), logs=any_of(small), load_factor_percent=any_of([0, 75, 255])
            ),
            lambda: device.kv_put([(any_of([names, *small]), bytes(any_of([0, 1, 16, 17])), b"value")]),
            lambda: device.kv_list(any_of([names, *small]), limit=any_of(odd)),
            lambda: device.advance(any_of([0, 1, 2**32])),
            lambda: device.begin().write(any_of(odd), bytes(UNIT)),
            lambda: device.set_faults(seed=any_of(odd)),
        ]
        expected = (IndexError, ValueError, KeyError, OverflowError, tantalum.TantalumError)
        for step in range(3000):
            call = chance.choice(calls)
            try:
                call()
            except expected:
                pass
            except BaseException as error:
                self.fail(f"seed {seed}, step {step}: {error!r}")
        device.write(7, unit(7))
        device.flush()
        self.assertEqual(stamp_of(device.read(7)), 7)


if __name__ == "__main__":
    unittest.main()
