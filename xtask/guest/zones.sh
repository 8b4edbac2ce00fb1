# What Linux makes of a drive's zones: what it tells in sysfs, blkzone and nvme-cli, and zonefs, also when power is cut. The host arms
# the cut at "cut". ZONES is how many the drive has, each of 32 MiB, of which MOST may be open or active.
. /library.sh

# is NAME EXPECTED FOUND
is() { [ "$2" = "$3" ] && pass "$1: $3" || fail "$1: $3, not $2"; }

# zone N: the first sector of a zone
zone() { echo $(($1 * 65536)); }

# zone_is NAME CONDITION SECTORS N: as blkzone reports it
zone_is() {
    line="$(blkzone report -o "$(zone "$4")" -c 1 "$ZONED")"
    case "$line" in
        *"wptr $3 "*"zcond:$2"*) pass "$1" ;;
        *) fail "$1: $line" ;;
    esac
}

# direct WHERE COUNT: writes blocks of 4 KiB from /tmp/blocks past the page cache
direct() { dd if=/tmp/blocks of="$ZONED" bs=4096 seek="$1" count="$2" oflag=direct conv=notrunc; }

attach_zoned --ctrl-loss-tmo=0 || exit
controller="/dev/$(controller)"
queue="/sys/block/$(basename "$ZONED")/queue"
head -c 1048576 /dev/urandom > /tmp/blocks

# sysfs
is zoned host-managed "$(cat "$queue/zoned")"
is zoned-blocks none "$(cat "/sys/block/$(basename "$DEVICE")/queue/zoned")"
is zones "$ZONES" "$(cat "$queue/nr_zones")"
is zone-sectors 65536 "$(cat "$queue/chunk_sectors")"
is append-bytes 524288 "$(cat "$queue/zone_append_max_bytes")"
is open-zones "$MOST" "$(cat "$queue/max_open_zones")"
is active-zones "$MOST" "$(cat "$queue/max_active_zones")"
is granularity 4096 "$(cat "$queue/zone_write_granularity")"
expect lsblk "host-managed +32M +$ZONES " lsblk -z -n -o ZONED,ZONE-SZ,ZONE-NR,NAME "$ZONED"

# blkzone
is report "$ZONES" "$(blkzone report "$ZONED" | grep -c 'wptr 0x000000 .*zcond: 1(em)')"
check open blkzone open -o "$(zone 1)" -c 1 "$ZONED"
zone_is opened " 3(oe)" 0x000000 1
check write direct 8192 4
zone_is written " 3(oe)" 0x000020 1
check close blkzone close -o "$(zone 1)" -c 1 "$ZONED"
zone_is closed " 4(cl)" 0x000020 1
check write-more direct 8196 252
zone_is implicitly-open " 2(oi)" 0x000800 1
check read dd if="$ZONED" of=/tmp/read bs=4096 skip=8192 count=256 iflag=direct
(head -c 16384 /tmp/blocks && head -c 1032192 /tmp/blocks) > /tmp/right
check compare cmp /tmp/read /tmp/right
refuse write-elsewhere "error|Error" direct 8192 1
zone_is unchanged " 2(oi)" 0x000800 1
check finish blkzone finish -o "$(zone 1)" -c 1 "$ZONED"
expect finished "zcond:14\(fu\)" blkzone report -o "$(zone 1)" -c 1 "$ZONED"
refuse write-full "error|Error|No space" direct 8448 1
refuse open-too-many "." blkzone open -o "$(zone 2)" -c $((MOST + 1)) "$ZONED"
check reset blkzone reset "$ZONED"
is reset-all "$ZONES" "$(blkzone report "$ZONED" | grep -c 'wptr 0x000000 .*zcond: 1(em)')"
check read-empty dd if="$ZONED" of=/tmp/read bs=4096 skip=8192 count=256 iflag=direct
check compare-empty cmp -n 1048576 /tmp/read /dev/zero

# nvme-cli
expect id-ns "^mor *: 0xd" nvme zns id-ns "$ZONED"
expect id-ns-size "zsze:0x2000 " nvme zns id-ns "$ZONED"
expect id-ctrl "^zasl *: 0" nvme zns id-ctrl "$controller"
expect list-ns "0x2\$" nvme list-ns "$controller" --csi=2
expect effects "Zone Append|zone" nvme effects-log "$controller" --csi=2
head -c 8192 /tmp/blocks > /tmp/two
expect append "LBA 8000" nvme zns zone-append "$ZONED" -s 0x8000 -z 8192 -d /tmp/two
expect append-again "LBA 8002" nvme zns zone-append "$ZONED" -s 0x8000 -z 8192 -d /tmp/two
expect report-zones "SLBA: 0x8000 +WP: 0x8004 .*State: 0x20 " nvme zns report-zones "$ZONED" -s 0x8000 -d 1
check mgmt-finish nvme zns finish-zone "$ZONED" -s 0x8000
refuse append-full "FULL|Full|full" nvme zns zone-append "$ZONED" -s 0x8000 -z 8192 -d /tmp/two
refuse append-within "INVALID_FIELD|Invalid Field" nvme zns zone-append "$ZONED" -s 0x8001 -z 8192 -d /tmp/two
refuse open-full "TRANSITION|ransition" nvme zns open-zone "$ZONED" -s 0x8000
refuse offline "TRANSITION|ransition" nvme zns offline-zone "$ZONED" -s 0x8000
check mgmt-reset nvme zns reset-zone "$ZONED" -a
expect changed "nrzid *:? *0" nvme zns changed-zone-list "$ZONED"

# zonefs: the first zone has its superblock, each other one is a file
check mkzonefs zoned mkzonefs "$ZONED"
check finish-superblock blkzone finish -o 0 -c 1 "$ZONED"
check zonefs-mount mount -t zonefs "$ZONED" /mnt
is zonefs-files $((ZONES - 1)) "$(ls /mnt/seq | wc -l)"
check zonefs-append zoned append /mnt/seq/20 20 32
is zonefs-size 131072 "$(stat -c %s /mnt/seq/20)"
zone_is zonefs-zone " 2(oi)" 0x000100 21
check zonefs-fill truncate -s 33554432 /mnt/seq/20
expect zonefs-full "zcond:14\(fu\)" blkzone report -o "$(zone 21)" -c 1 "$ZONED"
check zonefs-empty truncate -s 0 /mnt/seq/20
zone_is zonefs-reset " 1(em)" 0x000000 21
rm -f /tmp/state
round=0
while [ "$round" -lt "$CUTS" ]; do
    round=$((round + 1))
    ask cut
    check "zonefs-fill $round" zoned fill /mnt/seq 8 /tmp/state "$round"
    umount /mnt
    detach
    attach_zoned --ctrl-loss-tmo=0 || exit
    check "zonefs-mount $round" mount -t zonefs "$ZONED" /mnt
    if found="$(zoned check /mnt/seq 8 /tmp/state 2>&1)"; then pass "zonefs-cut $round: $found"; else
        fail "zonefs-cut $round: $found"
        break
    fi
done
umount /mnt
check zonefs-end blkzone reset "$ZONED"
detach
