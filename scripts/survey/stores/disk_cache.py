"""diskcache, with its defaults. Values are large enough that some are files of their own."""
import diskcache

SINGLE = True


def may_lose(options):
    return True


def open(folder, options):
    return Store(folder)


class Store:
    def __init__(self, folder):
        self.db = diskcache.Cache(folder, disk_min_file_size=4096)

    def put(self, key, text):
        self.db[key] = text

    def commit(self):
        pass

    def pairs(self):
        return {key: self.db[key] for key in self.db}

    def close(self):
        self.db.close()
