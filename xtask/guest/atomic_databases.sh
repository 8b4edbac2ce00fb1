# A database without its own protection against torn pages, whose clients commit transactions while the host records what
# reaches the drive: MariaDB without its doublewrite buffer or PostgreSQL without full-page writes, on ext4 with clusters of 16 KiB.
# DATABASES has PORT,NQN,DATABASE,ACKS for each: each transaction that a client has seen committed goes to the host's port
# ACKS as a line. PROTECTED is ON to have the databases' own protection instead, TRANSACTIONS is the number of each client.
. /library.sh

CLIENTS="0 1 2 3"

# No request of the kernel is larger than this, so none has more than one page, and none is split within a page.
REQUEST_KIB=16

# by its path: busybox has one of this name
as_nobody() { /usr/sbin/setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

mariadb_start() {
    as_nobody mariadbd --no-defaults --datadir=/mnt/mariadb --socket=/tmp/socket --pid-file=/tmp/pid --skip-networking \
        --lc-messages-dir=/usr/share/mysql --innodb-doublewrite="$PROTECTED" --innodb-flush-method=O_DIRECT \
        --innodb-log-file-size=16M --innodb-buffer-pool-size=8M --innodb-max-dirty-pages-pct=0 \
        --innodb-max-dirty-pages-pct-lwm=0 --transaction-isolation=READ-COMMITTED --innodb-lock-wait-timeout=3600 \
        > /tmp/server 2>&1 &
}
mariadb_ask() { mariadb -N -n -u root -S /tmp/socket bank "$@"; }

postgresql_start() {
    as_nobody postgres -D /mnt/postgresql -c full_page_writes="$PROTECTED" -c listen_addresses= -c unix_socket_directories=/tmp \
        -c shared_buffers=1MB -c max_wal_size=8MB -c checkpoint_timeout=30s > /tmp/server 2>&1 &
}
postgresql_ask() { psql -q -A -t -h /tmp -U postgres "$@"; }

# start: the server, and waits until it answers.
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

# transactions CLIENT: the transactions of a client. Each changes 16 accounts on as many pages, and is acknowledged by the client
# and its number.
transactions() {
    awk -v client="$1" -v most="$TRANSACTIONS" 'BEGIN {
        srand(client)
        for (number = 1; number <= most; number++) {
            ids = ""
            for (part = 0; part < 16; part++)
                ids = ids (part ? ", " : "") part * 2500 + int(rand() * 625) * 4 + client
            letter = sprintf("%c", 65 + number % 26)
            print "BEGIN;"
            print "UPDATE account SET balance = balance + 1, filler = REPEAT(\047" letter "\047, 200) WHERE id IN (" ids ");"
            print "UPDATE done SET number = " number " WHERE client = " client ";"
            print "COMMIT;"
            print "SELECT \047" client " " number "\047;"
        }
    }'
}

# run_clients: all transactions of all clients.
run_clients() {
    clients=
    for client in $CLIENTS; do
        transactions "$client" | "${database}_ask" 2> "/tmp/client$client" | nc 10.0.2.2 "$acks" &
        clients="$clients $!"
    done
    wait $clients
    cat /tmp/client*
}

# PostgreSQL's processes share memory there
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
for case in $DATABASES; do
    set -- $(echo "$case" | tr , ' ')
    PORT="$1" NQN="$2" database="$3" acks="$4"
    attach || exit
    check "$database-mkfs" mkfs.ext4 -q -F -b 4096 -O bigalloc -C 16384 -E lazy_itable_init=0,lazy_journal_init=0 "$DEVICE"
    echo "$REQUEST_KIB" > "/sys/block/$(basename "$DEVICE")/queue/max_sectors_kb"
    mount "$DEVICE" /mnt
    cp -a "/databases/$database" /mnt
    chown -R 65534:65534 "/mnt/$database"
    sync
    if start; then
        ask begin "$PORT"
        run_clients
        ask end "$PORT"
        # what is not durable is in the recording as far as it has been written
        kill -9 "$server"
        for process in $(pidof mariadbd postgres); do kill -9 "$process" 2> /dev/null; done
        pass "$database"
    else
        fail "$database: does not start"
        cat /tmp/server
    fi
    sleep 2
    umount /mnt || umount -l /mnt
    detach
done
