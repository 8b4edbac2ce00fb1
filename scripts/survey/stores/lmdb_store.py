"""LMDB. Options: flags of the environment, `writemap`, `nosync`, `nometasync`."""
import lmdb


def may_lose(options):
    return 'nometasync' in options or 'nosync' in options


def open(folder, options):
    return Store(folder, options)


class Store:
    def __init__(self, folder, options):
        flags = {'sync': 'nosync' not in options, 'metasync': 'nometasync' not in options, 'writemap': 'writemap' in options}
        self.environment = lmdb.open(folder, map_size=16 << 20, **flags)
        self.transaction = None

    def write(self):
        self.transaction = self.transaction or self.environment.begin(write=True)
        return self.transaction

    def put(self, key, text):
        self.write().put(key.encode(), text.encode())

    def delete(self, key):
        self.write().delete(key.encode())

    def commit(self):
        self.transaction.commit()
        self.transaction = None

    def pairs(self):
        with self.environment.begin() as transaction:
            return {key.decode(): text.decode() for key, text in transaction.cursor()}

    def close(self):
        self.environment.close()
