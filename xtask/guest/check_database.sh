#!/bin/sh
# check_database.sh mariadb|postgresql: what a power cut has left of a database of atomic_databases.sh. The file system is in the file
# disk. The database must recover, have each transaction in $TANTALUM_ACKS and each as a whole, and its pages must have right
# checksums. Prints what is wrong. Nobody need be root.
database="$1"
here="$PWD"
PATH="$PATH:/usr/sbin:/sbin:$(dirname "$(readlink -f "$(command -v pg_ctl || echo /usr/lib/postgresql/*/bin/pg_ctl)")")"
# the path of a socket is short
short="$(mktemp -d /tmp/tantalum-database-XXXXXX)"

wrong() {
    echo "$*"
    exit 1
}

mariadb_start() {
    mariadbd --no-defaults --datadir="$here/mariadb" --socket="$short/socket" --pid-file="$short/pid" --skip-networking \
        --innodb-doublewrite=OFF --innodb-log-file-size=16M --innodb-buffer-pool-size=8M > "$here/server" 2>&1 &
}
mariadb_ask() { mariadb --no-defaults -N -u root -S "$short/socket" bank "$@"; }
mariadb_stop() { mariadb-admin --no-defaults -u root -S "$short/socket" shutdown; }
mariadb_pages() {
    # pages 64 to 191 are the doublewrite buffer, which is not in use
    innochecksum -e 63 mariadb/ibdata1 && innochecksum -s 192 mariadb/ibdata1 || return 1
    for file in mariadb/*/*.ibd; do innochecksum "$file" || return 1; done
}
mariadb_structure() { echo 'CHECK TABLE account, done EXTENDED' | mariadb_ask | grep -v 'status.*OK$'; }

postgresql_start() {
    chmod 700 postgresql
    postgres -D "$here/postgresql" -c full_page_writes=off -c listen_addresses= -c unix_socket_directories="$short" \
        -c fsync=off > "$here/server" 2>&1 &
}
postgresql_ask() { psql -q -A -t -h "$short" -U postgres "$@"; }
postgresql_stop() { kill -INT "$server"; }
postgresql_pages() { pg_checksums --check -D "$here/postgresql"; }
postgresql_structure() {
    echo "SELECT * FROM verify_heapam('account'); SELECT bt_index_check('account_pkey', true)" | postgresql_ask 2>&1 | grep .
}

server=
end() {
    [ -z "$server" ] || kill -9 "$server" 2> /dev/null
    rm -rf "$short"
}
trap end EXIT

# replays the journal; 1 is that it has changed something
e2fsck -fy disk > fsck 2>&1
[ $? -le 1 ] || wrong "e2fsck: $(tail -n 3 fsck)"
debugfs -R "rdump /$database $here" disk > dump 2>&1
[ -d "$database" ] || wrong "no $database in the file system: $(tail -n 2 dump)"
"${database}_start"
server=$!
tries=0
until echo 'SELECT 1' | "${database}_ask" > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ -d "/proc/$server" ] && [ "$tries" -lt 600 ] ||
        wrong "does not start: $(grep -i 'error\|panic\|fatal\|corrupt' server | head -n 2)"
    sleep 0.1
done
for client in 0 1 2 3; do
    acknowledged="$(grep "^$client " "$TANTALUM_ACKS" | tail -n 1 | cut -d ' ' -f 2)"
    found="$(echo "SELECT number FROM done WHERE client = $client" | "${database}_ask" 2>&1)"
    [ "$found" -ge "${acknowledged:-0}" ] ||
        wrong "client $client: transaction $acknowledged was acknowledged, and the last that is there is $found"
done
sums="$(echo "SELECT (SELECT SUM(balance) FROM account) - 16 * (SELECT SUM(number) FROM done)" | "${database}_ask" 2>&1)"
[ "$sums" = 0 ] || wrong "accounts and transactions differ by $sums"
structure="$("${database}_structure")"
[ -z "$structure" ] || wrong "structure: $(echo "$structure" | head -n 2)"
"${database}_stop" > /dev/null 2>&1
wait "$server"
server=
"${database}_pages" > pages 2>&1 || wrong "pages: $(tail -n 2 pages)"
