# Power goes while files are written and synced, and one file is overwritten and synced. Requests fail at once, as when the
# machine loses power with the drive; the guest attaches again, and every file that was synced must be whole.
. /library.sh

# as many slots of the file that is overwritten, of 16 KiB
SLOTS=40

# Writes until it cannot: the sums of files that were synced are in /tmp/synced; /tmp/slotN is what slot N of the table
# should hold, /tmp/slotN.next what else it may hold, /tmp/slotN.old what it held before.
write_files() {
    number=0
    while [ "$number" -lt 2000 ]; do
        number=$((number + 1))
        name="round$1-$number"
        head -c $(((number * 7919) % 50000 + 100)) /dev/urandom > /tmp/body
        cp /tmp/body "/mnt/folder/$name" 2> /dev/null || return 0
        sync "/mnt/folder/$name" 2> /dev/null || return 0
        sync /mnt/folder 2> /dev/null || return 0
        echo "$(md5sum < /tmp/body | cut -c 1-32)  $name" >> /tmp/synced
        overwrite_slot $(((number * 17) % SLOTS)) || return 0
        [ "$number" = 3 ] && ask cut
    done
    return 1
}

overwrite_slot() {
    head -c 16384 /dev/urandom > "/tmp/slot$1.next"
    dd if="/tmp/slot$1.next" of=/mnt/table bs=16k seek="$1" conv=notrunc,fsync 2> /dev/null || return 1
    mv "/tmp/slot$1" "/tmp/slot$1.old"
    mv "/tmp/slot$1.next" "/tmp/slot$1"
}

make_table() {
    rm -f /tmp/slot*
    slot=0
    while [ "$slot" -lt "$SLOTS" ]; do
        head -c 16384 /dev/urandom > "/tmp/slot$slot"
        cat "/tmp/slot$slot"
        slot=$((slot + 1))
    done > /mnt/table
    sync
}

# Every unit of the table is what was synced; of the slot that was being overwritten, it may be the next.
check_table() {
    slot=0
    while [ "$slot" -lt "$SLOTS" ]; do
        dd if=/mnt/table of=/tmp/found bs=16k skip="$slot" count=1 2> /dev/null
        if ! cmp -s /tmp/found "/tmp/slot$slot"; then
            for unit in 0 1 2 3; do
                unit_is "$unit" "/tmp/slot$slot" || unit_is "$unit" "/tmp/slot$slot.next" && continue
                differs="unit $unit of slot $slot is something else"
                unit_is "$unit" "/tmp/slot$slot.old" && differs="unit $unit of slot $slot is what it was before"
                return 1
            done
        fi
        # what is there now is what the next round must find
        [ -e "/tmp/slot$slot.next" ] && rm "/tmp/slot$slot.next" && cp /tmp/found "/tmp/slot$slot"
        slot=$((slot + 1))
    done
    sync
}

# unit_is UNIT FILE: whether a unit of /tmp/found is the same in the file.
unit_is() {
    [ -e "$2" ] || return 1
    dd if=/tmp/found bs=4k skip="$1" count=1 of=/tmp/unit1 2> /dev/null
    dd if="$2" bs=4k skip="$1" count=1 of=/tmp/unit2 2> /dev/null
    cmp -s /tmp/unit1 /tmp/unit2
}

# cut_once FS ROUND: one cut, and what is there afterwards.
cut_once() {
    write_files "$2" || fail "$1-cut $2: power did not go"
    # the device is dead: nothing can be written, and the guest knows
    if echo lost > /mnt/folder/lost && sync /mnt/folder/lost; then fail "$1-cut $2: no error is seen"; fi 2> /dev/null
    umount /mnt 2> /dev/null || umount -l /mnt
    detach
    ask kept "$1" "$2"
    attach_for "$1" || exit
    if ! mount_fs "$1" "$DEVICE"; then
        fail "$1-cut $2: cannot be mounted"
        dmesg | tail -n 20
        return 1
    fi
    if ! (cd /mnt/folder && md5sum -c /tmp/synced) > /tmp/said 2>&1; then
        fail "$1-cut $2: $(grep -v ': OK' /tmp/said | head -n 3 | tr '\n' ' ')"
    elif ! check_table; then
        fail "$1-cut $2: $differs, after $(wc -l < /tmp/synced) files"
    else
        pass "$1-cut $2: $(wc -l < /tmp/synced) files"
    fi
    umount /mnt
    check "$1-fsck $2" check_fs "$1" "$DEVICE"
    mount_fs "$1" "$DEVICE"
    # so that the drive does not fill up
    rm -f /mnt/folder/*
    : > /tmp/synced
    sync
}

attach_for() {
    case "$1" in
        *-zoned) attach_zoned --ctrl-loss-tmo=0 ;;
        *) attach --ctrl-loss-tmo=0 ;;
    esac
}

# cut_all FILE_SYSTEMS
cut_all() {
    for fs in $1; do
        attach_for "$fs" || exit
        ask "drive $PORT"
        check "$fs-mkfs" make_fs "$fs" "$DEVICE"
        if ! mount_fs "$fs" "$DEVICE"; then
            fail "$fs-cut: cannot be mounted"
            continue
        fi
        mkdir /mnt/folder
        make_table
        : > /tmp/synced
        round=0
        while [ "$round" -lt "$CUTS" ]; do
            round=$((round + 1))
            cut_once "$fs" "$round" || break
        done
        umount /mnt 2> /dev/null
        detach
    done
}

# by way of a tap, which keeps account of what the drive promises
PORT="$TAP_PORT"
cut_all "$CUT_FILE_SYSTEMS"
PORT="$REMAPPING_TAP_PORT"
NQN="$REMAPPING_NQN"
cut_all "$REMAPPED_FILE_SYSTEMS"
