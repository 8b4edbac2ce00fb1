# Databases without their own protection against torn pages, on drives whose power is cut while clients commit: MariaDB without
# its doublewrite buffer on ext4 with clusters of 16 KiB, PostgreSQL without full-page writes on xfs with blocks of 16 KiB.
# After each cut the database recovers, has each acknowledged transaction as a whole, and its pages have right checksums.
# DATABASES has PORT,NQN,DATABASE,CUTS for each. The host arms the cut at "cut", and is told "recovered" or "corrupt".
. /library.sh

CLIENTS="0 1 2 3"

# No request of the kernel is larger than this, so none has more than one page, and none is split within a page.
REQUEST_KIB=16

# by its path: busybox has one of this name
as_nobody() { /usr/sbin/setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

mariadb_make_fs() { mkfs.ext4 -q -F -b 4096 -O bigalloc -C 16384 "$DEVICE"; }
mariadb_start() {
    as_nobody mariadbd --no-defaults --datadir=/mnt/mariadb --socket=/tmp/socket --pid-file=/tmp/pid --skip-networking \
        --lc-messages-dir=/usr/share/mysql --innodb-doublewrite=OFF --innodb-flush-method=O_DIRECT \
        --innodb-log-file-size=16M --innodb-buffer-pool-size=8M --innodb-max-dirty-pages-pct=0 \
        --innodb-max-dirty-pages-pct-lwm=0 > /tmp/server 2>&1 &
}
mariadb_ask() { mariadb -N -n -u root -S /tmp/socket bank "$@"; }
mariadb_stop() { echo shutdown | mariadb_ask; }
mariadb_pages() {
    # pages 64 to 191 are the doublewrite buffer, which is not in use
    innochecksum -e 63 /mnt/mariadb/ibdata1 && innochecksum -s 192 /mnt/mariadb/ibdata1 || return 1
    for file in /mnt/mariadb/*/*.ibd; do innochecksum "$file" || return 1; done
}
mariadb_structure() { echo 'CHECK TABLE account, done EXTENDED' | mariadb_ask | grep -v 'status.*OK$'; }

postgresql_make_fs() { mkfs.xfs -q -f -b size=16384 "$DEVICE"; }
postgresql_start() {
    as_nobody postgres -D /mnt/postgresql -c full_page_writes=off -c listen_addresses= -c unix_socket_directories=/tmp \
        -c shared_buffers=1MB -c max_wal_size=8MB -c checkpoint_timeout=30s > /tmp/server 2>&1 &
}
postgresql_ask() { psql -q -A -t -h /tmp -U postgres "$@"; }
postgresql_stop() { kill -INT "$(head -n 1 /mnt/postgresql/postmaster.pid)"; }
postgresql_pages() { as_nobody pg_checksums --check -D /mnt/postgresql; }
postgresql_structure() {
    echo "SELECT * FROM verify_heapam('account'); SELECT bt_index_check('account_pkey', true)" | postgresql_ask 2>&1 | grep .
}

# start: the server, and waits until it answers. It recovers if it has to.
start() {
    "${database}_start"
    server=$!
    tries=0
    until echo 'SELECT 1' | "${database}_ask" > /dev/null 2>&1; do
        tries=$((tries + 1))
        [ -d "/proc/$server" ] && [ "$tries" -lt 300 ] || return 1
        sleep 1
    done
}

stop() {
    "${database}_stop" > /dev/null 2>&1
    wait "$server"
}

# transactions CLIENT NUMBER: transactions of a client from that number on, without end. Each changes 16 accounts on as
# many pages, and is acknowledged by its number.
transactions() {
    awk -v client="$1" -v number="$2" 'BEGIN {
        srand(number * 4 + client)
        for (;;) {
            number++
            ids = ""
            for (part = 0; part < 16; part++)
                ids = ids (part ? ", " : "") part * 2500 + int(rand() * 625) * 4 + client
            letter = sprintf("%c", 65 + number % 26)
            print "BEGIN;"
            print "UPDATE account SET balance = balance + 1, filler = REPEAT(\047" letter "\047, 200) WHERE id IN (" ids ");"
            print "UPDATE done SET number = " number " WHERE client = " client ";"
            print "COMMIT;"
            print "SELECT " number ";"
        }
    }'
}

number_of() { echo "SELECT number FROM done WHERE client = $1" | "${database}_ask" 2>&1; }

# run_clients: until power is lost, which happens after some flash operations.
run_clients() {
    for client in $CLIENTS; do
        number_of "$client" > "/tmp/acknowledged$client"
    done
    ask cut "$PORT"
    for client in $CLIENTS; do
        transactions "$client" "$(cat "/tmp/acknowledged$client")" 2> /dev/null |
            "${database}_ask" >> "/tmp/acknowledged$client" 2> /dev/null &
    done
    tries=0
    while [ -n "$(controller)" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || return 1
        sleep 1
    done
    end
    wait
}

# end: kills the server and its clients.
end() {
    for process in $(pidof mariadbd postgres mariadb psql); do kill -9 "$process" 2> /dev/null; done
}

# lost: what is missing of acknowledged transactions, if something is.
lost() {
    for client in $CLIENTS; do
        acknowledged="$(tail -n 1 "/tmp/acknowledged$client")"
        found="$(number_of "$client")"
        [ "$found" -ge "$acknowledged" ] || echo "client $client: $found is found, $acknowledged was acknowledged"
    done
    sums="$(echo "SELECT (SELECT SUM(balance) FROM account) - 16 * (SELECT SUM(number) FROM done)" | "${database}_ask" 2>&1)"
    [ "$sums" = 0 ] || echo "accounts and transactions differ by $sums"
}

# judge: prints what is wrong, if something is.
judge() {
    if ! mount "$DEVICE" /mnt; then
        echo "cannot be mounted"
    elif ! start; then
        echo "does not start: $(grep -i 'error\|panic\|fatal\|corrupt' /tmp/server | head -n 2)"
    else
        lost
        "${database}_structure"
        stop
        "${database}_pages" > /tmp/pages 2>&1 || echo "pages: $(tail -n 2 /tmp/pages)"
    fi
}

# PostgreSQL's processes share memory there
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
for case in $DATABASES; do
    set -- $(echo "$case" | tr , ' ')
    PORT="$1" NQN="$2" database="$3" cuts="$4"
    attach --ctrl-loss-tmo=0 || exit
    check "$database-mkfs" "${database}_make_fs"
    mount "$DEVICE" /mnt
    cp -a "/databases/$database" /mnt
    chown -R 65534:65534 "/mnt/$database"
    sync
    round=0
    while [ "$round" -lt "$cuts" ]; do
        round=$((round + 1))
        echo "$REQUEST_KIB" > "/sys/block/$(basename "$DEVICE")/queue/max_sectors_kb"
        if ! start; then
            fail "$database $round: does not start"
            cat /tmp/server
            break
        fi
        run_clients || fail "$database $round: power did not go"
        umount /mnt 2> /dev/null || umount -l /mnt
        detach
        attach --ctrl-loss-tmo=0 || exit
        wrong="$(judge)"
        if [ -n "$wrong" ]; then
            ask corrupt "$PORT" "$(echo "$wrong" | head -n 3 | tr '\n' ' ')"
            break
        fi
        ask recovered "$PORT" $(($(cat /tmp/acknowledged* | wc -l) - 4))
    done
    end
    umount /mnt 2> /dev/null || umount -l /mnt
    detach
done
