"""DuckDB."""
import duckdb


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = duckdb.connect(f'{folder}/ledger.duckdb')
        self.db.execute('create table if not exists pairs (key text, value text)')
        self.began = False

    def begin(self):
        if not self.began:
            self.db.execute('begin')
            self.began = True

    def put(self, key, text):
        self.delete(key)
        self.db.execute('insert into pairs values (?, ?)', (key, text))

    def delete(self, key):
        self.begin()
        self.db.execute('delete from pairs where key = ?', (key,))

    def commit(self):
        self.db.execute('commit')
        self.began = False

    def pairs(self):
        return dict(self.db.execute('select key, value from pairs').fetchall())

    def compact(self):
        self.db.execute('checkpoint')

    def close(self):
        self.db.close()
