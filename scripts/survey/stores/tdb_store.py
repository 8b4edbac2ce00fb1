"""TDB, Samba's store, with transactions."""
import os

import tdb


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = tdb.open(f'{folder}/ledger.tdb', flags=os.O_RDWR | os.O_CREAT)
        self.began = False

    def begin(self):
        if not self.began:
            self.db.transaction_start()
            self.began = True

    def put(self, key, text):
        self.begin()
        self.db.store(key.encode(), text.encode())

    def delete(self, key):
        self.begin()
        self.db.delete(key.encode())

    def commit(self):
        self.db.transaction_commit()
        self.began = False

    def pairs(self):
        return {key.decode(): self.db.get(key).decode() for key in self.db}

    def compact(self):
        self.db.repack()

    def close(self):
        self.db.close()
