#!/bin/sh
# databases.sh ROOT: MariaDB and PostgreSQL of this machine in a guest's root, each with a new database in ROOT/databases:
# accounts, and for each client the number of its last transaction.
set -e
root="$1"
postgresql="$(dirname "$(dirname "$(readlink -f "$(command -v pg_ctl || echo /usr/lib/postgresql/*/bin/pg_ctl)")")")"
data="$root/databases"
# before the wrappers that Debian has of them
PATH="$postgresql/bin:$PATH:/usr/sbin"
mkdir -p "$data" "$root/usr/share"

# where they look for their files
cp -r --parents /usr/share/mysql/english /usr/share/mysql/charsets "$postgresql"/lib/*.so "$root"
cp -rL --parents "/usr/share/postgresql/$(basename "$postgresql")" "$root"
for program in mariadbd mariadb innochecksum postgres psql pg_checksums setpriv; do
    file="$(readlink -f "$(command -v "$program")")"
    cp "$file" "$root/usr/sbin/$program"
    ldd "$file" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp "$(readlink -f "$library")" "$root$library"
    done
done
printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' > "$root/etc/passwd"

mariadb-install-db --no-defaults --datadir="$data/mariadb" --auth-root-authentication-method=normal --skip-test-db \
    --innodb-log-file-size=16M
mariadbd --no-defaults --bootstrap --datadir="$data/mariadb" --innodb-log-file-size=16M << 'SQL'
CREATE DATABASE bank;
CREATE TABLE bank.account(id INT PRIMARY KEY, balance INT NOT NULL, filler CHAR(200) CHARACTER SET latin1 NOT NULL) ENGINE=InnoDB;
CREATE TABLE bank.done(client INT PRIMARY KEY, number INT NOT NULL) ENGINE=InnoDB;
INSERT INTO bank.done VALUES (0, 0), (1, 0), (2, 0), (3, 0);
SET max_recursive_iterations = 100000;
INSERT INTO bank.account WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39999) SELECT i, 0, '' FROM n;
SQL

# a time zone that it knows without files
TZ=GMT initdb -D "$data/postgresql" -U postgres --auth=trust -E UTF8 --no-locale --data-checksums --wal-segsize=1
postgres --single -D "$data/postgresql" postgres << 'SQL'
CREATE TABLE account(id int PRIMARY KEY, balance int NOT NULL, filler char(200) NOT NULL) WITH (fillfactor = 70);
CREATE TABLE done(client int PRIMARY KEY, number int NOT NULL);
INSERT INTO done VALUES (0, 0), (1, 0), (2, 0), (3, 0);
INSERT INTO account SELECT i, 0, '' FROM generate_series(0, 39999) i;
CREATE EXTENSION amcheck;
SQL
