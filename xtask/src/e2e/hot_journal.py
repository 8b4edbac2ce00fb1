"""SQLite on a mount whose drive loses power while a killed program's transaction is half in the database.

hot_journal.py TANTALUM FOLDER. Prints what a connection that was open before the cut is told afterwards.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys

ROWS = 3000


def fill(connection):
    chosen = random.Random(1)
    connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)")
    connection.execute("CREATE INDEX i ON t(b)")
    connection.execute("BEGIN")
    for row in range(ROWS):
        connection.execute("INSERT INTO t VALUES(?, ?)", (row, chosen.randbytes(200)))
    connection.execute("COMMIT")


def die_in_a_transaction(database):
    """The cache is small, so that pages reach the database before the commit."""
    chosen = random.Random(2)
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA cache_size = 10")
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(1500):
        connection.execute("UPDATE t SET b = ? WHERE a = ?", (chosen.randbytes(900), chosen.randrange(ROWS)))
    os.kill(os.getpid(), signal.SIGKILL)


def main(tantalum, folder):
    database = os.path.join(folder, "app.db")
    reader = sqlite3.connect(database, isolation_level=None)
    reader.execute("PRAGMA cache_size = 5")
    fill(reader)
    subprocess.run([sys.executable, __file__, "--die", database], check=False)
    # The kernel knows the attributes of the database again, and must ask for those of the journal.
    os.stat(database)
    subprocess.run([tantalum, "cut", folder], check=True, stdout=subprocess.DEVNULL)
    try:
        rows = reader.execute("SELECT count(*), sum(length(b)) FROM t").fetchone()
        print("read", *rows, *reader.execute("PRAGMA integrity_check").fetchone())
    except sqlite3.DatabaseError as error:
        print("error:", error)


if sys.argv[1] == "--die":
    die_in_a_transaction(sys.argv[2])
elif sys.argv[1] == "--check":
    connection = sqlite3.connect(os.path.join(sys.argv[2], "app.db"))
    print(*connection.execute("SELECT count(*), sum(length(b)) FROM t").fetchone())
    print(*connection.execute("PRAGMA integrity_check").fetchone())
else:
    main(*sys.argv[1:])
