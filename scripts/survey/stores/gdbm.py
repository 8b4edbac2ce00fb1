"""GNU dbm through Python's `dbm.gnu`, in synchronized mode."""
import dbm.gnu

SINGLE = True


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = dbm.gnu.open(f'{folder}/ledger.gdbm', 'cs')

    def put(self, key, text):
        self.db[key] = text

    def commit(self):
        self.db.sync()

    def pairs(self):
        return {key.decode(): self.db[key].decode() for key in self.db.keys()}

    def compact(self):
        self.db.reorganize()

    def close(self):
        self.db.close()
