"""`shelve` on `dbm.dumb`, which is in every Python; each step ends with `sync`."""
import dbm.dumb
import shelve

SINGLE = True


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = shelve.Shelf(dbm.dumb.open(f'{folder}/ledger', 'c'))

    def put(self, key, text):
        self.db[key] = text

    def commit(self):
        self.db.sync()

    def pairs(self):
        return dict(self.db)

    def close(self):
        self.db.close()
