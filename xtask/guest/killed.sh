# The server is killed and started again while files are written. On a drive with capacitors nothing is lost that it has
# answered, so requests that wait meanwhile are repeated, and the file system sees a pause.
. /library.sh

write_files() {
    number=0
    while [ ! -e /tmp/enough ] && [ "$number" -lt 2000 ]; do
        number=$((number + 1))
        head -c $(((number * 7919) % 50000 + 100)) /dev/urandom > /tmp/body
        cp /tmp/body "/mnt/file$number" || return 1
        sync "/mnt/file$number" || return 1
        echo "$(md5sum < /tmp/body | cut -c 1-32)  file$number" >> /tmp/synced
    done
}

# at_least FILES: waits until so many are synced.
at_least() {
    tries=0
    while [ "$(wc -l < /tmp/synced)" -lt "$1" ] && [ "$tries" -lt 120 ]; do
        tries=$((tries + 1))
        sleep 1
    done
}

PORT="$PROTECTED_PORT"
NQN="$PROTECTED_NQN"
for fs in $KILLED_FILE_SYSTEMS; do
    attach --ctrl-loss-tmo=600 --reconnect-delay=1 || exit
    check "killed-$fs-mkfs" make_fs "$fs" "$DEVICE"
    check "killed-$fs-mount" mount_fs "$fs" "$DEVICE" || continue
    : > /tmp/synced
    rm -f /tmp/enough
    write_files > /tmp/written 2>&1 &
    writer=$!
    for round in 1 2; do
        at_least $((round * 10))
        ask kill
        synced="$(wc -l < /tmp/synced)"
        at_least $((synced + 5))
        if [ "$(wc -l < /tmp/synced)" -gt "$synced" ]; then pass "killed-$fs $round: goes on"; else
            fail "killed-$fs $round: no file was synced after file $synced"
        fi
    done
    touch /tmp/enough
    check "killed-$fs-writer" wait "$writer"
    check "killed-$fs-umount" umount /mnt
    check "killed-$fs-fsck" check_fs "$fs" "$DEVICE"
    check "killed-$fs-mount-again" mount_fs "$fs" "$DEVICE"
    (cd /mnt && md5sum -c /tmp/synced) > /tmp/said 2>&1 && pass "killed-$fs-files: $(wc -l < /tmp/synced)" ||
        fail "killed-$fs-files: $(grep -v ': OK' /tmp/said | head -n 3 | tr '\n' ' ')"
    umount /mnt
    detach
done
