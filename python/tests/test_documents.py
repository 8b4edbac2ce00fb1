"""Run by python/test: the document store."""

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
        with self.assertRaises(OSError):
            tantalum.Documents("/nowhere/at/all")


if __name__ == "__main__":
    unittest.main()
