"""Run by python/test: the document store."""

import os
import tempfile
import unittest

import tantalum


class DocumentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.store = tantalum.Documents(self.folder.name)

    def tearDown(self):
        self.store.close()
        self.folder.cleanup()

    def test_a_commit_is_there_after_the_store_is_opened_again(self):
        self.store.commit({b"a": b"1", b"b": b"2"})
        self.store.commit({b"a": None, b"c": b""})
        self.store.close()
        with self.assertRaises(tantalum.TantalumError):
            self.store.get(b"a")
        self.store = tantalum.Documents(self.folder.name, share=False, cache_bytes=1 << 20)
        self.assertEqual([self.store.get(key) for key in (b"a", b"b", b"c")], [None, b"2", b""])
        self.assertEqual(len(self.store), 2)

    def test_a_snapshot_stays_what_it_was(self):
        keys = [b"key %03d" % number for number in range(200)]
        made = self.store.commit({key: b"first" for key in keys})
        with self.store.snapshot() as before:
            self.store.commit({keys[7]: b"second", keys[9]: None})
            self.store.compact()
            self.assertEqual(list(before), [(key, b"first") for key in keys])
            self.assertEqual((len(before), before.seq, before.get(keys[9])), (200, made, b"first"))
        with self.assertRaises(tantalum.TantalumError):
            before.get(keys[9])
        after = self.store.snapshot()
        self.assertEqual(list(after.range(keys[7], keys[11])), [(keys[7], b"second"), (keys[8], b"first"), (keys[10], b"first")])
        self.assertEqual([(key, value) for _, key, value in after.changes(made)], [(keys[7], b"second"), (keys[9], None)])
        self.assertEqual(len(list(after.changes(0))), 200)
        self.assertLess(self.store.garbage_percent(), 100)

    def test_what_is_wrong_is_refused(self):
        with self.assertRaises(ValueError):
            self.store.commit({b"": b"1"})
        with self.assertRaises(OSError):
            tantalum.Documents(self.folder.name)
        with self.assertRaisesRegex(OSError, "/nowhere/at/all"):
            tantalum.Documents("/nowhere/at/all")
        with self.assertRaises(TypeError):
            self.store.commit({b"a": "text"})

    def test_a_folder_is_created(self):
        folder = os.path.join(self.folder.name, "data")
        with tantalum.Documents(folder) as store:
            store.commit({b"a": b"1"})
        with tantalum.Documents(folder) as store:
            self.assertEqual(store.get(b"a"), b"1")

    def test_bytes_like_objects_are_taken_and_ranges_go_backwards(self):
        keys = [b"key %03d" % number for number in range(200)]
        for make in (bytes, bytearray, memoryview):
            self.store.commit({key: make(key) for key in keys})
            self.assertEqual(self.store.get(make(keys[3])), keys[3])
            with self.store.snapshot() as snapshot:
                self.assertEqual(snapshot.get(make(keys[3])), keys[3])
                found = [key for key, _ in snapshot.range(make(keys[20]), make(keys[150]), reverse=True)]
                self.assertEqual(found, list(reversed(keys[20:150])))
                self.assertEqual([key for key, _ in snapshot.range(reverse=True)], list(reversed(keys)))
        self.store.commit({memoryview(b"key 007"): None})
        self.assertEqual(len(self.store), 199)


if __name__ == "__main__":
    unittest.main()
