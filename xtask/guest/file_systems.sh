# File systems on the drive: made, filled, trimmed, checked, and read again. The host sees in the drive's counters that what
# was removed is unmapped.
. /library.sh

# as many megabytes of files as are removed later
fill() {
    mkdir -p /mnt/folder
    for number in 1 2 3 4 5 6; do
        head -c $((number * 50000)) /dev/urandom > "/mnt/folder/file$number"
    done
    (cd /mnt/folder && md5sum file*) > /tmp/sums
    head -c 8000000 /dev/urandom > /mnt/folder/removed
    sync
}

attach || exit
for fs in $FILE_SYSTEMS; do
    # Linux's nilfs2 takes logical blocks for sectors of 512 bytes when it discards: with others it loses data
    if [ "$fs" = nilfs2 ]; then
        detach
        PORT="$PROTECTED_PORT"
        NQN="$PROTECTED_NQN"
        attach || exit
    fi
    check "$fs-mkfs" make_fs "$fs" "$DEVICE"
    check "$fs-mount" mount_fs "$fs" "$DEVICE" || continue
    fill
    ask "mapped $fs"
    rm /mnt/folder/removed
    sync
    # xfs frees what was removed in the background, and discards it when that is in its log
    [ "$fs" = xfs ] && sleep 5 && sync
    # f2fs may have discarded by itself what it could
    case "$fs" in
        ext4 | xfs | btrfs) expect "$fs-fstrim" "[1-9][0-9]* bytes" fstrim -v /mnt ;;
        *) check "$fs-fstrim" fstrim -v /mnt ;;
    esac
    check "$fs-umount" umount /mnt
    # nilfs2 keeps what was removed until its cleaner runs
    [ "$fs" = nilfs2 ] || ask "trimmed $fs"
    check "$fs-fsck" check_fs "$fs" "$DEVICE"
    check "$fs-mount-again" mount_fs "$fs" "$DEVICE"
    (cd /mnt/folder && md5sum -c /tmp/sums) > /tmp/said 2>&1 && pass "$fs-files" || fail "$fs-files"
    umount /mnt
done
detach
