"""Run by python/test: installs the package into an environment of its own, then this."""

import os
import tempfile
import threading
import unittest

import tantalum


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "app.tant")
        self.store = tantalum.Store(self.path, capacity_bytes=64 << 20)
        self.names = self.store.namespace("names")

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
                tx.put(self.names, b"a", bytes((2 << 20) + 1))
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
        events = self.store.ordered("events")
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
            self.store.ordered("names")
        with self.assertRaises(ValueError):
            self.store.list(events)

    def test_a_snapshot_stays_and_a_backup_is_restored(self):
        events = self.store.ordered("events")
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
            self.assertEqual(list(tx.range(store.ordered("events"))), [(b"a", b"1"), (b"b", b"2")])

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

    def test_the_version_is_there(self):
        self.assertRegex(tantalum.__version__, r"^\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
