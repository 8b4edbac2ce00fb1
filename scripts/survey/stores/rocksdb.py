"""RocksDB, with writes that ask for `sync`."""
import rocksdict


def may_lose(options):
    return 'nosync' in options


def open(folder, options):
    return Store(folder, options)


class Store:
    def __init__(self, folder, options):
        settings = rocksdict.Options(raw_mode=True)
        settings.create_if_missing(True)
        settings.set_keep_log_file_num(1)
        self.db = rocksdict.Rdict(folder, settings)
        self.how = rocksdict.WriteOptions()
        self.how.sync = 'nosync' not in options
        self.batch = None

    def write(self):
        self.batch = self.batch or rocksdict.WriteBatch(raw_mode=True)
        return self.batch

    def put(self, key, text):
        self.write().put(key.encode(), text.encode())

    def delete(self, key):
        self.write().delete(key.encode())

    def commit(self):
        self.db.write(self.batch, self.how)
        self.batch = None

    def pairs(self):
        return {key.decode(): text.decode() for key, text in self.db.items()}

    def compact(self):
        self.db.flush()
        self.db.compact_range(None, None)

    def close(self):
        self.db.close()
