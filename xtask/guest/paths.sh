# A drive with two ports, PORT and OTHER_PORT, which Linux uses as one device (native multipath). The host changes the access through a port
# ("access PORT ACCESS"), and breaks the connections through BREAKING_PORT, which leads to the second port ("break").
. /library.sh

# paths: how many live controllers the subsystem has
paths() { cat /sys/class/nvme-subsystem/nvme-subsys*/nvme*/state 2>/dev/null | grep -c live; }

# access_of PORT: what Linux knows of the access through a port, by its TCP port
access_of() {
    for path in /sys/block/nvme*c*n*; do
        grep -q "trsvcid=$1" "$path/device/address" 2>/dev/null && cat "$path/ana_state"
    done
}

# becomes NAME EXPECTED COMMAND...: what it prints is that, within a minute
becomes() {
    name="$1"
    expected="$2"
    shift 2
    tries=0
    while [ "$("$@")" != "$expected" ] && [ "$tries" -lt 60 ]; do
        tries=$((tries + 1))
        sleep 1
    done
    [ "$("$@")" = "$expected" ] && pass "$name: $expected" || fail "$name: $("$@"), not $expected"
}

write_files() {
    number=0
    while [ ! -e /tmp/enough ] && [ "$number" -lt 4000 ]; do
        number=$((number + 1))
        head -c $(((number * 7919) % 50000 + 100)) /dev/urandom > /tmp/body
        cp /tmp/body "/mnt/file$number" || return 1
        sync "/mnt/file$number" || return 1
        echo "$(md5sum < /tmp/body | cut -c 1-32)  file$number" >> /tmp/synced
    done
}

# goes_on NAME: files are synced from now on
goes_on() {
    before="$(wc -l < /tmp/synced)"
    tries=0
    while [ "$(wc -l < /tmp/synced)" -lt $((before + 5)) ] && [ "$tries" -lt 120 ]; do
        tries=$((tries + 1))
        sleep 1
    done
    if [ "$(wc -l < /tmp/synced)" -ge $((before + 5)) ]; then pass "$1: goes on"; else
        fail "$1: no 5 files were synced after file $before"
    fi
}

expect discover "Number of Records 2" nvme discover -t tcp -a 10.0.2.2 -s "$PORT"
expect discover-other "trsvcid: *$OTHER_PORT" nvme discover -t tcp -a 10.0.2.2 -s "$PORT"
check connect-all nvme connect-all -t tcp -a 10.0.2.2 -s "$PORT" --keep-alive-tmo=60
becomes both 2 paths
becomes access-first optimized access_of "$PORT"
becomes access-second optimized access_of "$OTHER_PORT"
controller="/dev/$(controller)"
expect cmic "^cmic *: 0xb" nvme id-ctrl "$controller"
expect ana-log "state *: *optimized|ANA Optimized|ana-log|grpid" nvme ana-log "$controller"
check disconnect nvme disconnect -n "$NQN"

# the second path through what will break
check connect nvme connect -t tcp -a 10.0.2.2 -s "$PORT" -n "$NQN" --keep-alive-tmo=60 --ctrl-loss-tmo=600 --reconnect-delay=1
check connect-breaking nvme connect -t tcp -a 10.0.2.2 -s "$BREAKING_PORT" -n "$NQN" --keep-alive-tmo=60 --ctrl-loss-tmo=600 --reconnect-delay=1
becomes both-again 2 paths
tries=0
while [ -z "$(block_device 1)" ] && [ "$tries" -lt 30 ]; do
    tries=$((tries + 1))
    sleep 1
done
DEVICE="$(block_device 1)"
check mkfs mkfs.ext4 -q "$DEVICE"
check mount mount_fs ext4 "$DEVICE"
: > /tmp/synced
write_files > /tmp/written 2>&1 &
writer=$!
goes_on begins
ask access 1 inaccessible
becomes first-inaccessible inaccessible access_of "$PORT"
goes_on first-inaccessible
ask access 1 non-optimized
becomes first-non-optimized non-optimized access_of "$PORT"
ask access 2 inaccessible
becomes second-inaccessible inaccessible access_of "$BREAKING_PORT"
goes_on second-inaccessible
ask access 2 optimized
becomes second-optimized optimized access_of "$BREAKING_PORT"
goes_on second-optimized
ask break
goes_on broken
becomes one-path 1 paths
touch /tmp/enough
check writer wait "$writer"
check umount umount /mnt
check fsck check_fs ext4 "$DEVICE"
check mount-again mount_fs ext4 "$DEVICE"
(cd /mnt && md5sum -c /tmp/synced) > /tmp/said 2>&1 && pass "files: $(wc -l < /tmp/synced)" ||
    fail "files: $(grep -v ': OK' /tmp/said | head -n 3 | tr '\n' ' ')"
umount /mnt
nvme disconnect -n "$NQN"
