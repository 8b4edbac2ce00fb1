# Power goes while files are written and synced. Requests fail at once, as when the machine loses power with the drive; the
# guest attaches again, and every file that was synced must be whole.
. /library.sh

# Writes files until one cannot be: those that were synced are in /tmp/synced.
write_files() {
    number=0
    while [ "$number" -lt 2000 ]; do
        number=$((number + 1))
        name="round$1-$number"
        head -c $(((number * 7919) % 50000 + 100)) /dev/urandom > /tmp/body
        cp /tmp/body "/mnt/folder/$name" 2>/dev/null || return 0
        sync "/mnt/folder/$name" 2>/dev/null || return 0
        sync /mnt/folder 2>/dev/null || return 0
        echo "$(md5sum < /tmp/body | cut -c 1-32)  $name" >> /tmp/synced
        [ "$number" = 3 ] && echo "GUEST cut"
    done
    return 1
}

for fs in $FILE_SYSTEMS; do
    attach --ctrl-loss-tmo=0 || exit
    check "$fs-mkfs" make_fs "$fs" "$DEVICE"
    mount_fs "$fs" "$DEVICE" && mkdir /mnt/folder && sync
    : > /tmp/synced
    round=0
    while [ "$round" -lt "$CUTS" ]; do
        round=$((round + 1))
        write_files "$round" || fail "$fs-cut $round: power did not go"
        umount /mnt 2>/dev/null || umount -l /mnt
        detach
        attach --ctrl-loss-tmo=0 || exit
        if ! mount_fs "$fs" "$DEVICE"; then
            fail "$fs-cut $round: cannot be mounted"
            dmesg | tail -n 20
            break
        fi
        if (cd /mnt/folder && md5sum -c /tmp/synced) > /tmp/said 2>&1; then
            pass "$fs-cut $round: $(wc -l < /tmp/synced) files"
        else
            fail "$fs-cut $round: $(grep -v ': OK' /tmp/said | head -n 3 | tr '\n' ' ')"
        fi
        umount /mnt
        check "$fs-fsck $round" check_fs "$fs" "$DEVICE"
        mount_fs "$fs" "$DEVICE"
        # so that the drive does not fill up
        rm -f /mnt/folder/*
        : > /tmp/synced
        sync
    done
    umount /mnt 2>/dev/null
    detach
done
