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
        # without its cleaner, which has nothing to do on a drive with so much room
        nilfs2) mount -t nilfs2 "$DEVICE" /mnt ;;
    esac
}

# Blocks that the cleaner has moved, and checkpoints, where the file system tells.
counts() {
    case "$1" in
        f2fs*)
            cd "/sys/fs/f2fs/$(basename "$DEVICE")" || return 1
            # those in the background are among the calls in the foreground
            echo "$(cat moved_blocks_*ground | awk '{ sum += $1 } END { print sum }') $(cat cp_foreground_calls)"
            ;;
    esac
}

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
    before="$(counts "$system")"
    ask begin
    if writers $(echo "$arguments" | sed "s/COUNT/$count/") > /tmp/said 2>&1; then
        pass "$system $arguments"
        ask end "$(tail -n 1 /tmp/said), $before $(counts "$system")"
    else
        fail "$system $arguments: $(tail -n 1 /tmp/said)"
    fi
    umount /mnt
done
detach
