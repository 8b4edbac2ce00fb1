# What the guest's scripts share. A line that begins with PASS, FAIL or GUEST is for the host.
. /parameters

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; }

# ask WHAT...: tells the host, and waits until it has done what it is to do.
ask() {
    echo "GUEST $*"
    read -r answer
}

# check NAME COMMAND...: it must end well.
check() {
    name="$1"
    shift
    if "$@" > /tmp/said 2>&1; then pass "$name"; else
        fail "$name: ended with $?: $*"
        tail -n 5 /tmp/said
    fi
}

# expect NAME PATTERN COMMAND...: it must end well, and print what matches.
expect() {
    name="$1"
    pattern="$2"
    shift 2
    if "$@" > /tmp/said 2>&1 && grep -Eq "$pattern" /tmp/said; then pass "$name"; else
        fail "$name: no $pattern from $*"
        tail -n 5 /tmp/said
    fi
}

# refuse NAME PATTERN COMMAND...: it must end badly, and print what matches.
refuse() {
    name="$1"
    pattern="$2"
    shift 2
    if "$@" > /tmp/said 2>&1; then fail "$name: ended well: $*"; elif grep -Eq "$pattern" /tmp/said; then pass "$name"; else
        fail "$name: no $pattern from $*"
        tail -n 5 /tmp/said
    fi
}

# The controller that is there; none if there is none.
controller() {
    for folder in /sys/class/nvme/nvme*; do
        [ "$(cat "$folder/state" 2>/dev/null)" = live ] && basename "$folder" && return
    done
}

# block_device NAMESPACE: the device with the blocks of a namespace of $NQN, if there is one. The numbers in a device's name are
# not those of its namespace: since Linux 6.12 they differ each time.
block_device() {
    for folder in /sys/block/nvme*; do
        node="/dev/$(basename "$folder")"
        [ -b "$node" ] && [ "$(cat "$folder/nsid")" = "$1" ] && [ "$(cat "$folder/device/subsysnqn")" = "$NQN" ] &&
            echo "$node" && return
    done
}

# generic_device NAMESPACE: the generic device of a namespace of $NQN, if there is one.
generic_device() {
    for folder in /sys/class/nvme-generic/*; do
        node="/dev/$(basename "$folder")"
        [ -c "$node" ] && [ "$(cat "$folder/device/subsysnqn")" = "$NQN" ] &&
            nvme get-ns-id "$node" | grep -q "namespace-id:$1\$" && echo "$node" && return
    done
}

# attach OPTIONS...: connects, however often it takes, and sets DEVICE.
attach() {
    tries=0
    while [ "$tries" -lt 60 ]; do
        # a busy machine is slow to keep a controller alive
        nvme connect -t tcp -a 10.0.2.2 -s "$PORT" -n "$NQN" --keep-alive-tmo=60 "$@" > /tmp/said 2>&1
        DEVICE="$(block_device 1)"
        [ -n "$(controller)" ] && [ -n "$DEVICE" ] && return 0
        tries=$((tries + 1))
        sleep 1
    done
    fail "attach: $(tail -n 1 /tmp/said)"
    return 1
}

# attach_zoned OPTIONS...: the same for a drive with zones. They are in its namespace 2, and set ZONED; as file systems store the names of
# their devices, there are links to both that stay.
attach_zoned() {
    attach "$@" || return 1
    tries=0
    while ZONED="$(block_device 2)" && [ -z "$ZONED" ] && [ "$tries" -lt 60 ]; do
        tries=$((tries + 1))
        sleep 1
    done
    [ -n "$ZONED" ] || { fail "attach_zoned: no namespace 2" && return 1; }
    ln -sf "$DEVICE" /dev/conventional
    ln -sf "$ZONED" /dev/zoned
}

detach() { nvme disconnect -n "$NQN" > /tmp/said 2>&1; }

# ext4-journal is ext4 that writes data to its journal first. On zones f2fs has its metadata on blocks, and btrfs everything.
make_fs() {
    case "$1" in
        ext4 | ext4-journal) mkfs.ext4 -q -F "$2" ;;
        xfs) mkfs.xfs -q -f "$2" ;;
        btrfs) mkfs.btrfs -q -f "$2" ;;
        f2fs) mkfs.f2fs -q -f "$2" ;;
        nilfs2) mkfs.nilfs2 -q -f "$2" ;;
        btrfs-zoned) mkfs.btrfs -q -f -O zoned -d single -m single /dev/zoned ;;
        f2fs-zoned) mkfs.f2fs -q -f -m -c /dev/zoned /dev/conventional ;;
    esac
}

mount_fs() {
    case "$1" in
        ext4-journal) mount -t ext4 -o data=journal "$2" /mnt ;;
        btrfs-zoned) mount -t btrfs /dev/zoned /mnt ;;
        f2fs-zoned) mount -t f2fs /dev/conventional /mnt ;;
        *) mount -t "$1" "$2" /mnt ;;
    esac
}

# The file system's own check, which changes nothing. nilfs2 has none.
check_fs() {
    case "$1" in
        ext4 | ext4-journal) e2fsck -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
        btrfs) btrfs check --readonly "$2" ;;
        f2fs) fsck.f2fs --dry-run "$2" ;;
        nilfs2) true ;;
        btrfs-zoned) btrfs check --readonly /dev/zoned ;;
        f2fs-zoned) fsck.f2fs --dry-run /dev/conventional ;;
    esac
}
