"""SQLite. Options: the journal mode, and `synchronous`."""
import apsw


def may_lose(options):
    return options[1] in ('normal', 'off')


def open(folder, options):
    return Store(folder, *options)


class Store:
    def __init__(self, folder, journal, synchronous):
        self.db = apsw.Connection(f'{folder}/ledger.db')
        self.db.execute(f'pragma journal_mode={journal}')
        self.db.execute(f'pragma synchronous={synchronous}')
        self.db.execute('create table if not exists pairs (key text primary key, value text)')
        self.began = False

    def begin(self):
        if not self.began:
            self.db.execute('begin immediate')
            self.began = True

    def put(self, key, text):
        self.begin()
        self.db.execute('insert or replace into pairs values (?, ?)', (key, text))

    def delete(self, key):
        self.begin()
        self.db.execute('delete from pairs where key = ?', (key,))

    def commit(self):
        self.db.execute('commit')
        self.began = False

    def pairs(self):
        sound = self.db.execute('pragma integrity_check').fetchall()
        if sound != [('ok',)]:
            raise ValueError(f'integrity_check: {sound[:3]}')
        return dict(self.db.execute('select key, value from pairs').fetchall())

    def compact(self):
        self.db.execute('vacuum')
        self.db.execute('pragma wal_checkpoint(truncate)').fetchall()

    def close(self):
        self.db.close()
