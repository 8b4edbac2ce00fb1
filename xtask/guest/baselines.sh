# What real log-structured file systems write below synced writers. Each of CASES is FILE_SYSTEM:COUNT:ARGUMENTS, on a new file
# system: what `writers` takes, with commas between, FOLDER where files are and COUNT for how much it does. The host takes the
# drive's counters between "begin" and "end".
. /library.sh

# f2fs-log is f2fs that appends what others overwrite in place.
make() {
    case "$1" in
        f2fs*) mkfs.f2fs -q -f "$DEVICE" ;;
        nilfs2) mkfs.nilfs2 -q -f "$DEVICE" ;;
    esac
}

mount_it() {
    case "$1" in
        f2fs) mount -t f2fs "$DEVICE" /mnt ;;
        f2fs-log)
            mount -t f2fs "$DEVICE" /mnt || return 1
            echo 0 > "/sys/fs/f2fs/$(basename "$DEVICE")/ipu_policy"
            ;;
        # what mount.nilfs2 does as well
        nilfs2) mount -t nilfs2 "$DEVICE" /mnt && nilfs_cleanerd "$DEVICE" /mnt ;;
    esac
}

unmount_it() {
    # it ends when it has finished what it is doing
    [ "$1" != nilfs2 ] || killall nilfs_cleanerd
    tries=0
    while ! umount /mnt && [ "$tries" -lt 60 ]; do
        tries=$((tries + 1))
        sleep 1
    done
}

# As it comes, but that what was overwritten may be cleaned at once, and that the cleaner looks each second: a drive of half a
# gigabyte is full long before the hour is over for which else nothing is cleaned.
mkdir -p /dev/mqueue
mount -t mqueue mqueue /dev/mqueue
cat > /etc/nilfs_cleanerd.conf << END
protection_period 0
min_clean_segments 10%
max_clean_segments 20%
clean_check_interval 1
selection_policy timestamp
nsegments_per_clean 2
mc_nsegments_per_clean 4
cleaning_interval 5
mc_cleaning_interval 1
retry_interval 60
min_reclaimable_blocks 10%
mc_min_reclaimable_blocks 1%
use_set_suinfo
use_mmap
log_priority info
END

attach || exit
for case in $CASES; do
    system="${case%%:*}"
    rest="${case#*:}"
    count="${rest%%:*}"
    arguments="$(echo "${rest#*:}" | sed 's/,/ /g; s#FOLDER#/mnt#')"
    check "$system-mkfs" make "$system"
    check "$system-mount" mount_it "$system"
    # nothing to do: files are made
    check "$system-files" writers $(echo "$arguments" | sed 's/COUNT/0/')
    ask begin
    if writers $(echo "$arguments" | sed "s/COUNT/$count/") > /tmp/said 2>&1; then
        pass "$system $arguments"
        ask end "$(tail -n 1 /tmp/said)"
    else
        fail "$system $arguments: $(tail -n 1 /tmp/said)"
    fi
    unmount_it "$system"
done
detach
