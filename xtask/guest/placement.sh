# Flexible data placement with nvme-cli, and Linux's write streams, on a drive with HANDLES reclaim unit handles. The host says after
# "placed HANDLE UNITS" whether so many units have been written with a handle since it was last asked.
. /library.sh

# is NAME EXPECTED FOUND
is() { [ "$2" = "$3" ] && pass "$1: $3" || fail "$1: $3, not $2"; }

# left HANDLE: blocks that still fit in the reclaim unit of a placement handle (RUAMW)
left() {
    nvme fdp status "$DEVICE" | grep -A 2 "^Placement Identifier $1;" | sed -n 's/.*(RUAMW): *//p'
}

attach || exit
controller="/dev/$(controller)"
queue="/sys/block/$(basename "$DEVICE")/queue"
expect ctratt "^ctratt *: 0x80051" nvme id-ctrl "$controller"
expect oacs "^oacs *: 0x2a" nvme id-ctrl "$controller"
expect endgidmax "^endgidmax *: 1" nvme id-ctrl "$controller"
expect endgid "^endgid *: 1" nvme id-ns "$DEVICE"
expect endurance-log "^avl_spare[[:space:]]*: 100" nvme endurance-log "$controller" -g 1
refuse endurance-log-other "INVALID_FIELD|Invalid Field" nvme endurance-log "$controller" -g 2
expect list-endgrp "." nvme list-endgrp "$controller"
expect feature "0x0*1" nvme get-feature "$controller" -f 0x1d --cdw11=1
refuse feature-set "SEQ|Sequence" nvme admin-passthru "$controller" --opcode=9 --cdw10=0x1d --cdw11=1 --cdw12=0
expect directives "Data Placement|0000: 05" nvme dir-receive "$DEVICE" --dir-type=0 --dir-oper=1 --data-len=4096

# what the log pages say
expect configs-handles "Number of Reclaim Unit Handles: $HANDLES" nvme fdp configs "$controller" -e 1
runs="$(sed -n 's/^Reclaim Unit Nominal Size: *//p' /tmp/said)"
expect configs-valid "FDP Configuration Valid" nvme fdp configs "$controller" -e 1 -H
expect configs-isolation "\[$((HANDLES - 1))\]: Persistently Isolated" nvme fdp configs "$controller" -e 1
# nvme-cli 2.3 ends badly and prints another status
refuse configs-other "." nvme fdp configs "$controller" -e 2
expect usage "Reclaim Unit Handle Attributes: 0x1|Host Specified" nvme fdp usage "$controller" -e 1
expect stats "\(MBMW\): [0-9]" nvme fdp stats "$controller" -e 1
expect status "Placement Identifier $((HANDLES - 1)); Reclaim Unit Handle Identifier $((HANDLES - 1))" nvme fdp status "$DEVICE"
is status-whole "$((runs / 4096))" "$(left 1)"

# io passthrough with the directive
head -c 32768 /dev/urandom > /tmp/placed
check write-placed nvme write "$DEVICE" -s 16 -c 7 -z 32768 -d /tmp/placed -T 2 -S 1
ask placed 1 8
check read-placed nvme read "$DEVICE" -s 16 -c 7 -z 32768 -d /tmp/read
check compare-placed cmp /tmp/read /tmp/placed
is status-less "$((runs / 4096 - 8))" "$(left 1)"
refuse write-streams "INVALID_FIELD|Invalid Field" nvme write "$DEVICE" -s 16 -c 7 -z 32768 -d /tmp/placed -T 1 -S 1

# events, and the end of a reclaim unit
check set-events nvme fdp set-events "$DEVICE" -p 0 -e -t 3
check set-events-1 nvme fdp set-events "$DEVICE" -p 1 -e -t 0
check write-unknown nvme write "$DEVICE" -s 32 -c 7 -z 32768 -d /tmp/placed -T 2 -S 99
ask placed 0 8
expect events-unknown "Invalid Placement Identifier" nvme fdp events "$controller" -e 1 -E
check update nvme fdp update "$DEVICE" --pids=1
is status-begun "$((runs / 4096))" "$(left 1)"
expect events-ended "Reclaim Unit Not Fully Written" nvme fdp events "$controller" -e 1 -E
refuse update-unknown "INVALID_FIELD|Invalid Field" nvme fdp update "$DEVICE" --pids=1,99

# write streams: stream N + 1 is placement handle N
is streams-most "$HANDLES" "$(cat "$queue/max_write_streams")"
is streams-size "$runs" "$(cat "$queue/write_stream_granularity")"
stream=1
while [ "$stream" -le "$HANDLES" ]; do
    check "stream-$stream" streams write "$DEVICE" "$stream" $((stream * 1048576)) 262144
    ask placed $((stream - 1)) 64
    stream=$((stream + 1))
done
refuse stream-too-high "^EINVAL\$" streams write "$DEVICE" $((HANDLES + 1)) 0 4096
check stream-none streams write "$DEVICE" 0 0 65536
ask placed 0 16
# two at once
streams write "$DEVICE" 2 67108864 8388608 65536 > /tmp/second 2>&1 &
second=$!
check stream-first streams write "$DEVICE" 3 134217728 4194304 65536
wait "$second" && pass stream-second || fail "stream-second: $(cat /tmp/second)"
ask placed 1 2048
ask placed 2 1024
# the page cache loses nothing of a file system, which has no stream
check mkfs mkfs.ext4 -q -F "$DEVICE"
check mount mount -t ext4 "$DEVICE" /mnt
check copy dd if=/dev/urandom of=/mnt/file bs=65536 count=64
check umount umount /mnt
check fsck check_fs ext4 "$DEVICE"

# a namespace with two handles, in another order
cntlid="$(nvme id-ctrl "$controller" | sed -n 's/^cntlid *: *//p')"
check detach nvme detach-ns "$controller" -n 1 -c "$cntlid"
check delete nvme delete-ns "$controller" -n 1
head -c 4096 /dev/zero > /tmp/new
# 32768 blocks, shared; two placement handles: 2 and 1
printf '\000\200\000\000\000\000\000\000\000\200' | dd of=/tmp/new conv=notrunc 2>/dev/null
printf '\001' | dd of=/tmp/new bs=1 seek=30 conv=notrunc 2>/dev/null
printf '\002' | dd of=/tmp/new bs=1 seek=392 conv=notrunc 2>/dev/null
printf '\002\000\001' | dd of=/tmp/new bs=1 seek=512 conv=notrunc 2>/dev/null
check create nvme admin-passthru "$controller" --opcode=0x0d --data-len=4096 --write --input-file=/tmp/new
check attach-again nvme attach-ns "$controller" -n 1 -c "$cntlid"
sleep 3
DEVICE="$(block_device 1)"
queue="/sys/block/$(basename "$DEVICE")/queue"
expect status-first "Placement Identifier 0; Reclaim Unit Handle Identifier 2" nvme fdp status "$DEVICE"
expect status-second "Placement Identifier 1; Reclaim Unit Handle Identifier 1" nvme fdp status "$DEVICE"
is streams-two 2 "$(cat "$queue/max_write_streams")"
ask placed any
check stream-of-two streams write "$DEVICE" 1 0 65536
ask placed 2 16
check stream-plain streams write "$DEVICE" 0 65536 65536
ask placed 2 16
check stream-last streams write "$DEVICE" 2 131072 65536
ask placed 1 16
detach
