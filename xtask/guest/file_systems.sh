# File systems on the drive: made, filled, trimmed, checked, and read again.
. /library.sh

attach || exit
for fs in $FILE_SYSTEMS; do
    check "$fs-mkfs" make_fs "$fs" "$DEVICE"
    check "$fs-mount" mount -t "$fs" "$DEVICE" /mnt || continue
    mkdir -p /mnt/folder
    for number in 1 2 3 4 5 6 7 8; do
        head -c $((number * 50000)) /dev/urandom > "/mnt/folder/file$number"
    done
    (cd /mnt/folder && md5sum file*) > /tmp/sums
    rm /mnt/folder/file8
    sync
    # f2fs has discarded by itself what it could
    case "$fs" in
        ext4 | xfs | btrfs) expect "$fs-fstrim" "[1-9][0-9]* bytes" fstrim -v /mnt ;;
        *) check "$fs-fstrim" fstrim -v /mnt ;;
    esac
    check "$fs-umount" umount /mnt
    check "$fs-fsck" check_fs "$fs" "$DEVICE"
    check "$fs-mount-again" mount -t "$fs" "$DEVICE" /mnt
    grep -v file8 /tmp/sums > /tmp/left
    (cd /mnt/folder && md5sum -c /tmp/left) > /tmp/said 2>&1 && pass "$fs-files" || fail "$fs-files"
    umount /mnt
done
detach
