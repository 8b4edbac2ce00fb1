"""ZODB on a FileStorage."""
import transaction
import ZODB
import ZODB.FileStorage


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = ZODB.DB(ZODB.FileStorage.FileStorage(f'{folder}/ledger.fs'))
        self.connection = self.db.open()
        self.root = self.connection.root()

    def put(self, key, text):
        self.root[key] = text

    def delete(self, key):
        del self.root[key]

    def commit(self):
        transaction.commit()

    def pairs(self):
        return dict(self.root)

    def compact(self):
        self.db.pack()

    def close(self):
        transaction.abort()
        self.connection.close()
        self.db.close()
