"""Run by python/test: installs the package into an environment of its own, then this."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

import tantalum


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "app.tant")
        self.store = tantalum.Store(self.path, capacity_bytes=64 << 20)
        self.names = self.store.hashed_namespace("names")

    def tearDown(self):
        self.store.close()
        self.folder.cleanup()

    def read(self, key):
        with self.store.transaction() as tx:
            return tx.read(self.names, key)

    def test_a_block_that_ends_commits(self):
        with self.store.transaction() as tx:
            tx.put(self.names, b"a", b"1")
            self.assertEqual(tx.read(self.names, b"a"), b"1")
        self.store.close()
        with self.assertRaises(tantalum.TantalumError):
            self.store.transaction()
        self.store = tantalum.Store(self.path)
        self.assertEqual(self.read(b"a"), b"1")

    def test_an_exception_aborts_and_goes_on(self):
        with self.assertRaises(ZeroDivisionError):
            with self.store.transaction() as tx:
                tx.put(self.names, b"a", b"1")
                1 / 0
        self.assertIsNone(self.read(b"a"))
        with self.assertRaises(tantalum.TantalumError):
            tx.read(self.names, b"a")

    def test_what_cannot_be_is_refused(self):
        with self.store.transaction() as tx:
            for key in (b"", b"x" * 17):
                with self.assertRaises(ValueError):
                    tx.put(self.names, key, b"1")
            with self.assertRaises(ValueError):
                tx.put(self.names, b"a", bytes((64 << 20) + 1))
            with self.assertRaises(tantalum.TantalumError):
                tx.put(99, b"a", b"1")
            with self.assertRaises(TypeError):
                tx.put(self.names, "a", b"1")
        self.assertFalse(self.read(b"a"))

    def test_a_forked_process_is_refused(self):
        child = os.fork()
        if child == 0:
            try:
                self.store.transaction()
                os._exit(1)
            except tantalum.TantalumError as error:
                os._exit(0 if "fork" in str(error) else 2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNone(self.read(b"a"))

    def test_threads_count_to_the_same_number(self):
        def count():
            done = 0
            while done < 20:
                try:
                    with self.store.transaction() as tx:
                        number = int(tx.read(self.names, b"n") or b"0")
                        tx.put(self.names, b"n", str(number + 1).encode())
                    done += 1
                except tantalum.DeadlockError:
                    pass

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.read(b"n"), b"60")

    def test_a_transaction_within_another_one_is_refused(self):
        def inner(tx):
            tx.put(self.names, b"a", b"2")

        def outer(tx):
            tx.put(self.names, b"a", b"1")
            self.store.transact(inner)

        with self.assertRaises(tantalum.SelfDeadlockError):
            self.store.transact(outer)
        with self.assertRaises(tantalum.SelfDeadlockError):
            with self.store.transaction() as tx:
                tx.put(self.names, b"a", b"1")
                self.store.transact(inner)
        self.assertIsNone(self.read(b"a"))

    def test_an_ordered_namespace_has_ranges(self):
        events = self.store.namespace("events")
        with self.store.transaction() as tx:
            for number in range(200):
                tx.insert(events, b"event %03d" % number, b"%d" % number)
            with self.assertRaises(KeyError):
                tx.insert(events, b"event 007", b"")
            with self.assertRaises(KeyError):
                tx.update(events, b"event", b"")
            self.assertEqual([value for _, value in tx.range(events, b"event 198")], [b"198", b"199"])
            self.assertEqual(len(list(tx.range(events))), 200)
        with self.store.transaction() as tx:
            found = [key for key, _ in tx.range(events, None, b"event 150", reverse=True, for_update=True)]
            self.assertEqual(found, [b"event %03d" % number for number in reversed(range(150))])
            self.assertEqual(len(list(tx.prefix(events, b"event 1"))), 100)
            with self.assertRaises(ValueError):
                list(tx.range(self.names))
            with self.assertRaises(ValueError):
                tx.put(events, b"x" * 1025, b"")
        with self.assertRaises(ValueError):
            self.store.hashed_namespace("events")
        self.assertEqual(self.store.namespace("names"), self.names)
        with self.assertRaises(ValueError):
            self.store.list(events)

    def test_a_large_value_is_read_whole_and_in_pieces(self):
        events, value = self.store.namespace("events"), os.urandom(20_000_000)
        with self.store.transaction() as tx:
            tx.put(events, b"large", value)
            tx.put(self.names, b"large", value)
            self.assertEqual(tx.value_bytes(events, b"large"), len(value))
        with self.store.snapshot() as snapshot:
            with self.store.transaction() as tx:
                for namespace in (events, self.names):
                    self.assertEqual(tx.read(namespace, b"large"), value)
                    pieces = [tx.read_at(namespace, b"large", at, 3_000_000) for at in range(0, len(value), 3_000_000)]
                    self.assertEqual(b"".join(pieces), value)
                    self.assertEqual(tx.read_at(namespace, b"large", len(value) + 9, 5), b"")
                    self.assertIsNone(tx.read_at(namespace, b"none", 0, 5))
                    self.assertIsNone(tx.value_bytes(namespace, b"none"))
                self.assertEqual([len(value) for _, value in tx.range(events)], [len(value)])
                tx.delete(events, b"large")
            self.assertEqual(snapshot.value_bytes(events, b"large"), len(value))
            self.assertEqual(snapshot.read_at(events, b"large", 10_000_000, 10), value[10_000_000:10_000_010])
            self.assertEqual(snapshot.read(events, b"large"), value)

    def test_a_snapshot_stays_and_a_backup_is_restored(self):
        events = self.store.namespace("events")
        with self.store.transaction() as tx:
            tx.put(events, b"a", b"1")
            tx.put(self.names, b"n", b"1")
        with self.store.snapshot() as snapshot:
            with self.store.transaction() as tx:
                tx.put(events, b"b", b"2")
                tx.delete(self.names, b"n")
            self.assertEqual(list(snapshot.range(events)), [(b"a", b"1")])
            self.assertEqual(snapshot.list(self.names), [b"n"])
            self.assertEqual(snapshot.read(self.names, b"n"), b"1")
        with self.assertRaises(tantalum.TantalumError):
            snapshot.read(self.names, b"n")
        self.assertEqual(self.store.list(self.names), [])
        backup = os.path.join(self.folder.name, "backup")
        self.assertEqual(self.store.back_up(backup), 2)
        with self.assertRaises(ValueError):
            self.store.back_up(backup)
        other = os.path.join(self.folder.name, "other.tant")
        self.assertEqual(tantalum.restore(backup, other, capacity_bytes=64 << 20), 2)
        self.assertEqual(tantalum.rebuild(other, capacity_bytes=128 << 20), 2)
        with self.assertRaises(ValueError):
            tantalum.Store(other, capacity_bytes=64 << 20)
        with tantalum.Store(other) as store, store.transaction() as tx:
            self.assertEqual(list(tx.range(store.namespace("events"))), [(b"a", b"1"), (b"b", b"2")])

    def test_an_image_shrinks_when_it_is_compacted(self):
        events = self.store.namespace("events")
        with self.store.transaction() as tx:
            for number in range(20_000):
                tx.put(events, number.to_bytes(4, "big"), bytes(1000))
        with self.store.transaction() as tx:
            for number in range(1, 20_000):
                tx.delete(events, number.to_bytes(4, "big"))
        self.store.compact()
        self.assertLess(os.stat(self.path).st_blocks * 512, 12 << 20)
        with self.store.transaction() as tx:
            self.assertEqual(list(tx.range(events)), [(bytes(4), bytes(1000))])

    def test_work_is_retried_until_it_commits(self):
        calls = []

        def add(tx):
            calls.append(1)
            number = int(tx.read(self.names, b"n") or b"0")
            tx.put(self.names, b"n", str(number + 1).encode())
            return number

        threads = [threading.Thread(target=lambda: [self.store.transact(add) for _ in range(50)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.store.transact(add), 150)
        self.assertGreaterEqual(len(calls), 151)
        with self.assertRaises(ZeroDivisionError):
            self.store.transact(lambda tx: (tx.put(self.names, b"n", b"0"), 1 / 0))
        self.assertEqual(self.read(b"n"), b"151")

    def test_a_second_open_names_this_process(self):
        with self.assertRaisesRegex(tantalum.TantalumError, "this process"):
            tantalum.Store(self.path)

    def test_a_store_is_read_by_several(self):
        with self.store.transaction() as tx:
            tx.put(self.names, b"a", b"1")
        self.store.close()
        with tantalum.Store(self.path, read_only=True) as first, tantalum.Store(self.path, read_only=True) as second:
            for store in (first, second):
                with store.transaction() as tx:
                    self.assertEqual(tx.read(store.hashed_namespace("names"), b"a"), b"1")
                with self.assertRaises(tantalum.ReadOnlyError):
                    store.hashed_namespace("others")
            self.assertIn("read", first.refuses_changes)
        self.store = tantalum.Store(self.path)
        self.assertIsNone(self.store.refuses_changes)

    def test_an_empty_file_is_a_new_image_and_a_missing_folder_is_told(self):
        path = os.path.join(self.folder.name, "empty.tant")
        open(path, "w").close()
        with tantalum.Store(path, capacity_bytes=16 << 20) as store:
            self.assertEqual(store.namespaces(), {})
        with self.assertRaises(FileNotFoundError):
            tantalum.Store(os.path.join(self.folder.name, "missing", "app.tant"))

    def test_bytes_like_objects_are_taken_everywhere(self):
        events = self.store.namespace("events")
        for make in (bytes, bytearray, memoryview):
            with self.store.transaction() as tx:
                for namespace in (self.names, events):
                    tx.put(namespace, make(b"a"), make(b"1"))
                    tx.update(namespace, make(b"a"), make(b"2"))
                    tx.insert(namespace, make(b"b"), make(b""))
                    self.assertEqual(tx.read(namespace, make(b"a")), b"2")
                    self.assertEqual(tx.read_for_update(namespace, make(b"b")), b"")
                    self.assertTrue(tx.delete(namespace, make(b"b")))
                self.assertEqual(list(tx.range(events, make(b"a"), make(b"b"))), [(b"a", b"2")])
                self.assertEqual(list(tx.prefix(events, make(b"a"))), [(b"a", b"2")])
            self.assertEqual(self.store.list(self.names, make(b"a")), [b"a"])
            with self.store.snapshot() as snapshot:
                self.assertEqual(snapshot.read(events, make(b"a")), b"2")
                self.assertEqual(list(snapshot.range(events, make(b"a"))), [(b"a", b"2")])
                self.assertEqual(snapshot.list(self.names, make(b"a")), [b"a"])
        with self.store.transaction() as tx, self.assertRaises(TypeError):
            tx.put(self.names, b"a", [1, 2])

    def test_options_counters_and_namespaces(self):
        path = os.path.join(self.folder.name, "other.tant")
        with tantalum.Store(path, capacity_bytes=64 << 20, profile="tlc-nvme", snapshot_bytes=1 << 20) as store:
            self.assertIn('name = "tlc-nvme"', store.profile)
            self.assertEqual(store.capacity_bytes, 64 << 20)
            self.assertGreater(store.room_for(100), store.room_for(1000))
            names, events = store.hashed_namespace("names"), store.namespace("events")
            self.assertEqual(store.namespaces(), {"names": "hashed", "events": "ordered"})
            for number in range(10):
                store.transact(lambda tx: tx.put(names, b"%d" % number, bytes(1000)))
            total = store.drive_counters()
            self.assertGreaterEqual(total["records_put"], 10)
            self.assertEqual(store.counters()["conflicts"], 0)
            self.assertGreaterEqual(store.counters()["cached_bytes"], 10_000)
            store.reset_counters()
            store.transact(lambda tx: tx.put(events, b"a", b"1"))
            self.assertLess(store.drive_counters(since_reset=True)["records_put"], 5)
            self.assertGreater(store.drive_counters()["records_put"], total["records_put"])
            with store.snapshot() as snapshot:
                store.transact(lambda tx: [tx.put(names, b"%d" % n, bytes(200_000)) for n in range(10)])
                self.assertEqual(len(snapshot.read(names, b"1")), 1000)
                store.transact(lambda tx: [tx.put(names, b"%d" % n, b"") for n in range(10)])
                store.transact(lambda tx: [tx.put(names, b"%d" % n, b"1") for n in range(10)])
                self.assertGreater(store.counters()["snapshot_bytes"], 10_000)

    def test_what_is_lost_is_named_passed_and_dropped(self):
        events = self.store.namespace("events")
        with self.store.transaction() as tx:
            for number in range(300):
                tx.put(events, b"event %03d" % number, b"contents %03d " % number * 300)
        self.store.close()
        with open(self.path, "rb") as file:
            image = bytearray(file.read())
        at = image.find(b"contents 150 " * 100)
        while at >= 0:
            image[at + 3] ^= 0x40
            at = image.find(b"contents 150 " * 100, at + 1)
        with open(self.path, "wb") as file:
            file.write(image)
        self.store = tantalum.Store(self.path)
        with self.store.transaction() as tx:
            with self.assertRaises(tantalum.UnreadableError) as caught:
                tx.read(events, b"event 150")
            self.assertEqual((caught.exception.namespace, caught.exception.key), ("events", b"event 150"))
            records, found, lost = tx.range(events), [], []
            while True:
                try:
                    found.append(next(records)[0])
                except StopIteration:
                    break
                except tantalum.UnreadableError as error:
                    lost.append(error.key)
        self.assertIn(b"event 150", lost)
        self.assertEqual(len(found) + len(lost), 300)
        self.assertEqual([error.key for error in self.store.find_damage()], lost)
        self.assertEqual([error.key for error in self.store.drop_damaged()], lost)
        with self.store.transaction() as tx:
            self.assertEqual([key for key, _ in tx.range(events)], found)

    def test_on_a_full_disk_reads_go_on_and_the_error_has_a_type(self):
        """A limit of the process stands for the disk: no file of it may grow beyond 1 MiB."""
        program = """
import resource, sys, tantalum
store = tantalum.Store(sys.argv[1])
names = store.hashed_namespace("names")
store.transact(lambda tx: tx.put(names, b"k", b"1"))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))

def is_refused(value):
    try:
        store.transact(lambda tx: tx.put(names, b"n", value))
    except tantalum.HostError:
        return True
    return False

assert any(is_refused(bytes(100_000)) for _ in range(100))
for reopened in (False, True):
    with store.transaction() as tx:
        assert tx.read(names, b"k") == b"1"
    assert is_refused(b"2") and "File too large" in store.refuses_changes, reopened
    del tx, store
    store = tantalum.Store(sys.argv[1])
"""
        self.store.close()
        subprocess.run([sys.executable, "-c", program, self.path], check=True, timeout=60)
        self.store = tantalum.Store(self.path)
        self.assertEqual(self.read(b"k"), b"1")

    def test_the_version_is_there(self):
        self.assertRegex(tantalum.__version__, r"^\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
