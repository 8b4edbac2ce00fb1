# What Linux makes of a drive's atomic writes: what it tells in sysfs and by statx, which writes with RWF_ATOMIC it does and which
# it refuses, on the device and in files. DRIVES has PORT,NQN,BYTES for each, with the promised size.
. /library.sh

# is NAME EXPECTED FOUND
is() { [ "$2" = "$3" ] && pass "$1: $3" || fail "$1: $3, not $2"; }

# written NAME PATH OFFSET BYTES; refused NAME WHY PATH OFFSET BYTES [buffered]
written() { check "$1" atomic write "$2" "$3" "$4" atomic; }
refused() { refuse "$1" "^$2\$" atomic write "$3" "$4" "$5" "${6:-atomic}"; }

limits() {
    queue="/sys/block/$(basename "$DEVICE")/queue"
    is "$promised-greatest" "$promised" "$(cat "$queue/atomic_write_max_bytes")"
    is "$promised-unit-max" "$promised" "$(cat "$queue/atomic_write_unit_max_bytes")"
    is "$promised-unit-min" 4096 "$(cat "$queue/atomic_write_unit_min_bytes")"
    is "$promised-boundary" 0 "$(cat "$queue/atomic_write_boundary_bytes")"
    is "$promised-statx" "4096 $promised 0" "$(atomic limits "$DEVICE")"
}

# Each size that is a power of two, where it is aligned; nothing else.
device_writes() {
    bytes=4096
    while [ "$bytes" -le 131072 ]; do
        if [ "$bytes" -le "$promised" ]; then
            written "$promised-write-$bytes" "$DEVICE" $((3 * bytes)) "$bytes"
        else
            refused "$promised-write-$bytes" EINVAL "$DEVICE" $((3 * bytes)) "$bytes"
        fi
        bytes=$((2 * bytes))
    done
    refused "$promised-odd-size" EINVAL "$DEVICE" 0 12288
    refused "$promised-odd-place" EINVAL "$DEVICE" 4096 8192
    refused "$promised-part" EINVAL "$DEVICE" 0 2048
    refused "$promised-buffered" EOPNOTSUPP "$DEVICE" 0 8192 buffered
}

# file_writes FILE_SYSTEM TOLD: in a file that has room; TOLD is what statx says of it.
file_writes() {
    if ! mount -t "$1" "$DEVICE" /mnt; then
        fail "$promised-$1: mount"
        return
    fi
    fallocate -l 1048576 /mnt/file
    is "$promised-$1-statx" "$2" "$(atomic limits /mnt/file)"
    largest="$(echo "$2" | cut -d ' ' -f 2)"
    bytes=4096
    while [ "$bytes" -le "$largest" ] && [ "$bytes" -le 65536 ]; do
        written "$promised-$1-write-$bytes" /mnt/file $((5 * bytes)) "$bytes"
        written "$promised-$1-again-$bytes" /mnt/file $((5 * bytes)) "$bytes"
        bytes=$((2 * bytes))
    done
    refused "$promised-$1-too-large" EINVAL /mnt/file 0 $((2 * largest))
    refused "$promised-$1-odd-place" EINVAL /mnt/file 4096 8192
    umount /mnt
    check "$promised-$1-check" check_fs "$1" "$DEVICE"
}

for drive in $DRIVES; do
    set -- $(echo "$drive" | tr , ' ')
    PORT="$1" NQN="$2" promised="$3"
    attach || exit
    limits
    device_writes
    check "$promised-mkfs-ext4" mkfs.ext4 -q -F -b 4096 -O bigalloc -C 16384 "$DEVICE"
    file_writes ext4 "4096 $([ "$promised" -lt 16384 ] && echo "$promised" || echo 16384) 0"
    # xfs copies what is larger than the drive promises
    check "$promised-mkfs-xfs" mkfs.xfs -q -f "$DEVICE"
    file_writes xfs "4096 1048576 $promised"
    detach
done
