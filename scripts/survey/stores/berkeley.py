"""Berkeley DB with transactions: each commit is synced by default."""
from berkeleydb import db


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.environment = db.DBEnv()
        parts = db.DB_INIT_MPOOL | db.DB_INIT_LOG | db.DB_INIT_LOCK | db.DB_INIT_TXN
        self.environment.open(folder, db.DB_CREATE | db.DB_RECOVER | db.DB_PRIVATE | parts)
        self.db = db.DB(self.environment)
        self.db.open('ledger.db', dbtype=db.DB_BTREE, flags=db.DB_CREATE | db.DB_AUTO_COMMIT)
        self.transaction = None

    def begin(self):
        self.transaction = self.transaction or self.environment.txn_begin()
        return self.transaction

    def put(self, key, text):
        self.db.put(key.encode(), text.encode(), txn=self.begin())

    def delete(self, key):
        self.db.delete(key.encode(), txn=self.begin())

    def commit(self):
        self.transaction.commit()
        self.transaction = None

    def pairs(self):
        return {key.decode(): text.decode() for key, text in self.db.items()}

    def compact(self):
        self.environment.txn_checkpoint()

    def close(self):
        self.db.close()
        self.environment.close()
