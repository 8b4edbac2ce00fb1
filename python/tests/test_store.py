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


if __name__ == "__main__":
    unittest.main()
