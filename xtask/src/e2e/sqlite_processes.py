"""SQLite used by several processes on a mounted drive, in lockstep with plain SQLite on an ordinary file.

sqlite_processes.py TANTALUM FOLDER PLAIN-FOLDER --file-system NAME --seed N --rounds N

A seed draws whose turn it is and what that process does: reads, changes, savepoints, commits, rollbacks, checkpoints, VACUUM,
another journal mode. One process at a time takes a step, so a seed repeats. Each step is taken by a process on the mount and by
one in an ordinary folder, and both must give the same answer: the same rows, or the same refusal because the database is locked.
What is committed must be what a single connection makes of the committed transactions, one after the other.

A round ends when power is cut in the middle of the work, when the mount's process is killed, or when a process is killed in the
middle of its step. Then every process is killed, the drive is mounted again, integrity_check must be ok, and the contents must be
those after the last commit that was acknowledged, or after the one in progress; with synchronous = NORMAL after any earlier one of
the round. Processes that are idle, perhaps in a transaction, are killed too: others must roll it back.

With --without-syncs SQLite does not sync, and the torture must notice.
"""

import argparse
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

PROCESSES = 4
UNREADABLE = "malformed, as it cannot be read"
ROWS = 400

# -- one process --------------------------------------------------------------------------------------------------


def digest(connection, where="1"):
    """The contents, as one short text."""
    summed = hashlib.sha256()
    for row in connection.execute(f"SELECT a, n, b FROM t WHERE {where} ORDER BY a"):
        summed.update(repr(row).encode())
    return summed.hexdigest()[:16]


def change(connection, seed):
    """One statement that a seed draws."""
    drawn = random.Random(seed)
    first, n = drawn.randrange(ROWS), drawn.randrange(1000)
    blob = drawn.randbytes(drawn.choice([10, 300, 1500, 6000]))
    kind = drawn.randrange(8)
    if kind < 3:
        connection.execute("INSERT OR REPLACE INTO t VALUES(?, ?, ?)", (first, n, blob))
    elif kind < 5:
        connection.execute("UPDATE t SET n = n + ?, b = ? WHERE a BETWEEN ? AND ?", (n, blob, first, first + 4))
    elif kind == 5:
        connection.execute("DELETE FROM t WHERE a BETWEEN ? AND ?", (first, first + drawn.randrange(12)))
    elif kind == 6:
        connection.execute("UPDATE t SET n = n + 1 WHERE n % 5 = ?", (n % 5,))
    else:
        connection.execute(
            "INSERT OR IGNORE INTO t SELECT a + ?, n, b FROM t WHERE a < ? LIMIT 20", (ROWS + n, first)
        )


def create(connection):
    connection.execute("CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, n INTEGER, b BLOB)")
    connection.execute("CREATE INDEX IF NOT EXISTS i ON t(n, b)")


def take(connection, step):
    """Takes a step. Returns what it found."""
    kind, argument = step
    if kind == "change":
        return change(connection, argument)
    if kind == "read":
        return digest(connection, f"a % 3 = {argument % 3}")
    if kind == "digest":
        return [digest(connection), connection.execute("PRAGMA integrity_check").fetchone()[0]]
    return [list(row) for row in connection.execute(argument)]


def is_unreadable(path):
    """Whether a part of the database cannot be read. SQLite calls that malformed (SQLITE_IOERR_CORRUPTFS), as it does wrong
    contents."""
    try:
        for file in [path, path + "-wal", path + "-journal"]:
            if os.path.exists(file):
                with open(file, "rb") as opened:
                    opened.read()
    except OSError as error:
        return error.errno == errno.EIO
    return False


def serve():
    """Takes steps that come as lines, and answers each with a line."""
    connection = None
    for line in sys.stdin:
        step = json.loads(line)
        answer = {"found": None, "error": None}
        try:
            if step[0] == "open":
                options = step[1]
                connection = sqlite3.connect(options["path"], isolation_level=None, timeout=options["timeout"])
                for pragma in options["pragmas"]:
                    connection.execute(f"PRAGMA {pragma}").fetchall()
            else:
                answer["found"] = take(connection, step)
        except sqlite3.Error as error:
            answer["error"] = str(error)
            if "malformed" in str(error) and is_unreadable(options["path"]):
                answer["error"] = UNREADABLE
        answer["open"] = connection is not None and connection.in_transaction
        print(json.dumps(answer), flush=True)


class Process:
    """A process with one connection."""

    def __init__(self, options):
        self.child = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.opened = self.ask(("open", options))

    def send(self, step):
        self.child.stdin.write(json.dumps(step) + "\n")
        self.child.stdin.flush()

    def answer(self):
        line = self.child.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, step):
        self.send(step)
        return self.answer()

    def kill(self):
        self.child.kill()
        self.child.wait()


# -- what is expected ---------------------------------------------------------------------------------------------


class Committed:
    """The committed transactions, made by one connection, and the contents after each of them."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        create(self.connection)
        self.transactions = []
        self.digests = [digest(self.connection)]

    def add(self, changes):
        for seed in changes:
            change(self.connection, seed)
        self.transactions.append(list(changes))
        self.digests.append(digest(self.connection))

    def cut(self, left):
        """Only so many transactions are left."""
        if left < len(self.transactions):
            kept = self.transactions[:left]
            self.__init__()
            for changes in kept:
                self.add(changes)


class Open:
    """The changes of an open transaction, by savepoints."""

    def __init__(self):
        self.levels = [[]]

    def changes(self):
        return [seed for level in self.levels for seed in level]


# -- the torture --------------------------------------------------------------------------------------------------


class Torture:
    def __init__(self, options):
        self.tantalum, self.folder, self.plain = options.tantalum, options.folder, options.plain
        self.random = random.Random(options.seed)
        self.image = os.path.join(self.folder, "drive.tant")
        self.mounted = os.path.join(self.folder, "mnt")
        self.file_system = options.file_system
        self.committed = Committed()
        self.counts = {}
        self.trace = options.trace
        self.syncs = not options.without_syncs
        os.makedirs(self.mounted, exist_ok=True)
        self.mount("--create", "--capacity", "256M", "--file-system", self.file_system)

    def mount(self, *more):
        said = subprocess.run(
            [self.tantalum, "mount", self.image, self.mounted, "--background", "--time", "none", *more],
            check=True, capture_output=True, text=True,
        ).stdout
        self.server = int(said.split(" process ")[1].split()[0].rstrip(","))

    def unmount(self):
        subprocess.run([self.tantalum, "unmount", self.mounted], check=True, capture_output=True)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    # -- a round --

    def begin(self):
        """Draws how the database is used in this round, and starts the processes."""
        drawn = self.random
        self.is_normal = drawn.randrange(4) == 0
        synchronous = "NORMAL" if self.is_normal else "EXTRA"
        self.journal = drawn.choice(["wal", "wal", "wal", "delete", "truncate", "persist"])
        self.pragmas = [
            f"synchronous = {synchronous if self.syncs else 'OFF'}",
            f"cache_size = {drawn.choice([3, 10, 200])}",
            f"wal_autocheckpoint = {drawn.choice([5, 20, 1000])}",
        ]
        self.since = len(self.committed.transactions)
        database = os.path.join(self.mounted, "app.db")
        first = Process(self.options(database, 5, [f"journal_mode = {self.journal}", "synchronous = EXTRA"]))
        assert first.opened["error"] is None, f"the database cannot be opened: {first.opened['error']}"
        for sql in [
            "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, n INTEGER, b BLOB)",
            "CREATE INDEX IF NOT EXISTS i ON t(n, b)",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ]:
            assert first.ask(("sql", sql))["error"] is None, sql
        # the last connection takes the log home, so that the file alone is the database
        first.child.stdin.close()
        first.child.wait()
        shutil.rmtree(self.plain, ignore_errors=True)
        os.makedirs(self.plain)
        shutil.copy(database, os.path.join(self.plain, "app.db"))
        self.worlds = [(self.start(self.mounted), self.start(self.plain)) for _ in range(PROCESSES)]
        self.open = [None] * PROCESSES

    def options(self, path, timeout, pragmas):
        return {"path": path, "timeout": timeout, "pragmas": self.pragmas + pragmas}

    def start(self, folder):
        return Process(self.options(os.path.join(folder, "app.db"), 0, []))

    def draw(self, process):
        """The next step of a process."""
        drawn, seed = self.random, self.random.randrange(1 << 48)
        choice = drawn.randrange(100)
        if self.open[process] is None:
            if choice < 40:
                return ("sql", f"BEGIN {drawn.choice(['DEFERRED', 'IMMEDIATE', 'IMMEDIATE', 'EXCLUSIVE'])}")
            if choice < 60:
                return ("change", seed)
            if choice < 75:
                return ("read", seed)
            if choice < 87:
                return ("sql", f"PRAGMA wal_checkpoint({drawn.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})")
            if choice < 91:
                return ("sql", "VACUUM")
            if choice < 93:
                journal = drawn.choice(["wal", "delete", "persist"])
                return ("sql", f"PRAGMA journal_mode = {journal}")
            return ("kill", None)
        if choice < 45:
            return ("change", seed)
        if choice < 55:
            return ("read", seed)
        if choice < 62:
            return ("sql", "SAVEPOINT s")
        if choice < 70 and len(self.open[process].levels) > 1:
            return ("sql", drawn.choice(["RELEASE s", "ROLLBACK TO s"]))
        if choice < 93:
            return ("sql", "COMMIT")
        if choice < 97:
            return ("sql", "ROLLBACK")
        return ("kill", None)

    def note(self, process, step, answer):
        """What a step that was taken means for the transaction of its process."""
        kind, argument = step
        changes = self.open[process]
        done = answer["error"] is None
        if kind == "change" and done:
            if changes is None:
                self.committed.add([argument])
            else:
                changes.levels[-1].append(argument)
        elif kind == "sql" and done:
            if argument.startswith("BEGIN"):
                self.open[process] = Open()
            elif argument == "SAVEPOINT s":
                changes.levels.append([])
            elif argument == "RELEASE s":
                released = changes.levels.pop()
                changes.levels[-1].extend(released)
            elif argument == "ROLLBACK TO s":
                changes.levels[-1] = []
            elif argument == "COMMIT":
                self.committed.add(changes.changes())
        if not answer["open"]:
            self.open[process] = None
        self.count((step[1].split("(")[0].split(" =")[0] if kind == "sql" else kind) + ("" if done else " refused"))

    def in_doubt(self, process, step):
        """What a step commits, if it does."""
        if step[0] == "change" and self.open[process] is None:
            return [step[1]]
        return self.open[process].changes() if step == ("sql", "COMMIT") else None

    def turn(self):
        """One step of one process on both sides. False if the drive has no power."""
        process = self.random.randrange(PROCESSES)
        step = self.draw(process)
        on_mount, on_plain = self.worlds[process]
        if self.trace:
            print(process, step, file=sys.stderr)
        if step[0] == "kill":
            on_mount.kill()
            on_plain.kill()
            self.worlds[process] = (self.start(self.mounted), self.start(self.plain))
            self.open[process] = None
            self.count("kill")
            opened = [side.opened["error"] for side in self.worlds[process]]
            return self.is_same(process, step, *opened)
        answer = on_mount.ask(step)
        expected = on_plain.ask(step)
        if not self.is_same(process, step, answer, expected):
            self.doubt = self.in_doubt(process, step)
            return False
        self.note(process, step, answer)
        return True

    def is_same(self, process, step, answer, expected):
        """Whether both sides gave one answer. False if the drive has lost its power."""
        if answer == expected:
            return True
        error = answer if isinstance(answer, (str, type(None))) else answer["error"]
        told = ["disk I/O error", "unable to open database file", UNREADABLE]
        if self.is_armed and any(text in (error or "") for text in told):
            return False
        said = subprocess.run([self.tantalum, "stat", "--json", self.mounted], capture_output=True, text=True).stdout
        power = json.loads(said).get("has_power") if said else None
        journal = f"journal {self.journal}, {self.pragmas}, power {power}"
        raise AssertionError(f"process {process}, {step}: {answer} on the mount, {expected} in a plain file; {journal}")

    def round(self, number):
        self.begin()
        self.is_armed, self.doubt = False, None
        for _ in range(self.random.randrange(30, 120)):
            assert self.turn(), "there is power"
        end = self.random.choice(["cut", "cut", "server", "step"])
        self.count(f"end by {end}")
        if end == "cut":
            self.cut(number)
        elif end == "server":
            os.kill(self.server, signal.SIGKILL)
        else:
            self.kill_in_step()
        for pair in self.worlds:
            for side in pair:
                side.kill()
        if end == "cut":
            self.unmount()
        if end != "step":
            self.mount()
        self.check(end)

    def cut(self, number):
        operations = self.random.randrange(1, 120)
        arguments = ["--after-flash-ops", str(operations), "--seed", str(number)]
        subprocess.run([self.tantalum, "cut", self.mounted, *arguments], check=True, capture_output=True)
        self.is_armed = True
        for _ in range(400):
            if not self.turn():
                return
        subprocess.run([self.tantalum, "cut", self.mounted], check=True, capture_output=True)

    def kill_in_step(self):
        """A process is killed while it takes a step. Whether that took place is seen afterwards."""
        process = self.random.randrange(PROCESSES)
        step = ("sql", "COMMIT") if self.open[process] else ("change", self.random.randrange(1 << 48))
        self.doubt = self.in_doubt(process, step)
        on_mount, _ = self.worlds[process]
        on_mount.send(step)
        time.sleep(self.random.random() * 0.004)
        on_mount.kill()

    def check(self, end):
        """All processes are gone: what is there?"""
        checker = Process(self.options(os.path.join(self.mounted, "app.db"), 5, []))
        answer = checker.ask(("digest", None))
        checker.kill()
        assert answer["error"] is None, f"after {end}: {answer['error']}"
        found, integrity = answer["found"]
        assert integrity == "ok", f"after {end}: {integrity}"
        acknowledged = len(self.committed.transactions)
        if self.doubt is not None:
            self.committed.add(self.doubt)
        first = self.since if self.is_normal and end != "step" else acknowledged
        allowed = range(len(self.committed.digests) - 1, first - 1, -1)
        left = next((number for number in allowed if self.committed.digests[number] == found), None)
        late = [number for number, known in enumerate(self.committed.digests) if known == found]
        assert left is not None, (
            f"after {end}, journal {self.journal}: not the contents after commit {first} to {allowed[0]}, but those after {late}"
        )
        self.count("commits lost that were not synced" if left < acknowledged else "rounds without loss")
        self.committed.cut(left)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tantalum")
    parser.add_argument("folder")
    parser.add_argument("plain")
    parser.add_argument("--file-system", default="volume")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--without-syncs", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    torture = Torture(options)
    number = 0
    try:
        for number in range(options.rounds):
            torture.round(number)
    except AssertionError as error:
        sys.exit(f"seed {options.seed}, round {number}: {error}")
    torture.unmount()
    print(f"{len(torture.committed.transactions)} commits;", json.dumps(dict(sorted(torture.counts.items()))))


if sys.argv[1:] == ["--serve"]:
    serve()
else:
    main()
