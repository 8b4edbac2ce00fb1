"""LevelDB, with writes that ask for `sync`. A small write buffer makes it write tables as well as its log."""
import plyvel


def may_lose(options):
    return 'nosync' in options


def open(folder, options):
    return Store(folder, options)


class Store:
    def __init__(self, folder, options):
        self.db = plyvel.DB(folder, create_if_missing=True, write_buffer_size=1 << 16)
        self.sync = 'nosync' not in options
        self.batch = None

    def write(self):
        self.batch = self.batch or self.db.write_batch(sync=self.sync)
        return self.batch

    def put(self, key, text):
        self.write().put(key.encode(), text.encode())

    def delete(self, key):
        self.write().delete(key.encode())

    def commit(self):
        self.batch.write()
        self.batch = None

    def pairs(self):
        return {key.decode(): text.decode() for key, text in self.db.iterator(verify_checksums=True)}

    def compact(self):
        self.db.compact_range()

    def close(self):
        self.db.close()
