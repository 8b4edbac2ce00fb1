# ext4 on served drives, one after the other: files that are written and synced, and synced overwrites in one file. The host
# takes the drive's counters between "begin" and "end". CASES has MODE,PORT,NQN for each.
. /library.sh

# A number below $1, the next one of SEED.
next_random() {
    SEED=$(((SEED * 1103515245 + 12345) & 0x7fffffff))
    random=$((SEED / 65536 % $1))
}

# All bytes are different from all others, so that nothing is shared but what ext4 writes twice.
files() {
    number=0
    while [ "$number" -lt "$FILES" ]; do
        number=$((number + 1))
        dd if=/dev/urandom of=/tmp/body bs=64k count=1 iflag=fullblock 2> /dev/null
        dd if=/tmp/body of="/mnt/file$number" bs=64k conv=fsync 2> /dev/null || return 1
        echo "$(md5sum < /tmp/body | cut -c 1-32)  file$number" >> /tmp/sums
    done
}

overwrites() {
    number=0
    while [ "$number" -lt "$OVERWRITES" ]; do
        number=$((number + 1))
        next_random 512
        dd if=/dev/urandom of=/tmp/body bs=16k count=1 iflag=fullblock 2> /dev/null
        dd if=/tmp/body of=/tmp/table bs=16k seek="$random" conv=notrunc 2> /dev/null
        dd if=/tmp/body of=/mnt/table bs=16k seek="$random" conv=notrunc,fsync 2> /dev/null || return 1
    done
    echo "$(md5sum < /tmp/table | cut -c 1-32)  table" > /tmp/sums
}

# measure WORKLOAD: on a new file system, with a table of 8 MiB.
measure() {
    check "$1-mkfs" mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$DEVICE"
    mount -t ext4 -o "data=$mode" "$DEVICE" /mnt || fail "$1: mount"
    : > /tmp/sums
    dd if=/dev/urandom of=/tmp/table bs=64k count=128 iflag=fullblock 2> /dev/null
    dd if=/tmp/table of=/mnt/table bs=64k conv=fsync 2> /dev/null
    umount /mnt
    mount -t ext4 -o "data=$mode" "$DEVICE" /mnt || fail "$1: mount"
    sync
    ask begin
    check "$1" "$1"
    # the journal is empty afterwards: everything is where it belongs
    umount /mnt
    ask end "$1"
    check "$1-fsck" e2fsck -fn "$DEVICE"
    mount -t ext4 "$DEVICE" /mnt
    (cd /mnt && md5sum -c /tmp/sums) > /tmp/said 2>&1 && pass "$1-contents" || fail "$1: contents differ"
    umount /mnt
}

for case in $CASES; do
    mode="${case%%,*}"
    rest="${case#*,}"
    PORT="${rest%%,*}"
    NQN="${rest#*,}"
    attach || exit
    measure files
    measure overwrites
    detach
done
