# The drive is divided, formatted and sanitized with nvme-cli. It is the last script: what was on the drive is gone afterwards.
. /library.sh

attach || exit
controller="/dev/$(controller)"
expect ns-capacity "^tnvmcap *: 536870912" nvme id-ctrl "$controller"
expect ns-oacs "^oacs *: 0xa" nvme id-ctrl "$controller"
cntlid="$(nvme id-ctrl "$controller" | sed -n 's/^cntlid *: *//p')"
check ns-detach nvme detach-ns "$controller" -n 1 -c "$cntlid"
refuse ns-detach-again "." nvme detach-ns "$controller" -n 1 -c "$cntlid"
check ns-delete nvme delete-ns "$controller" -n 1
expect ns-unallocated "^unvmcap *: 536870912" nvme id-ctrl "$controller"
expect ns-create "nsid: ?1" nvme create-ns "$controller" --nsze=65536 --ncap=65536 --flbas=0 --nmic=1
expect ns-create-small-blocks "nsid: ?[0-9]" nvme create-ns "$controller" --nsze=131072 --ncap=131072 --flbas=1 --nmic=1
# the numbers in between are those of namespaces with records
number="$(sed -n 's/.*nsid: *\([0-9]*\).*/\1/p' /tmp/said)"
refuse ns-create-too-large "." nvme create-ns "$controller" --nsze=65536 --ncap=65536 --flbas=0 --nmic=1
expect ns-all "0x$number\$" nvme list-ns "$controller" --all
check ns-attach nvme attach-ns "$controller" -n 1 -c "$cntlid"
check ns-attach-small-blocks nvme attach-ns "$controller" -n "$number" -c "$cntlid"
sleep 3
# the kernel heard of them by an event
first="$(block_device 1)"
other="$(block_device "$number")"
echo "namespace 1 is $first, namespace $number is $other"
expect ns-size "^524288$" cat "/sys/block/$(basename "$first")/size"
expect ns-size-small-blocks "^131072$" cat "/sys/block/$(basename "$other")/size"
expect ns-block "^512$" cat "/sys/block/$(basename "$other")/queue/logical_block_size"
head -c 32768 /dev/urandom > /tmp/ns
check ns-write nvme write "$first" -s 0 -c 7 -z 32768 -d /tmp/ns
check ns-write-small-blocks nvme write "$other" -s 0 -c 63 -z 32768 -d /tmp/ns
check ns-format nvme format "$other" --lbaf=0 --force
sleep 3
expect ns-formatted "^4096$" cat "/sys/block/$(basename "$other")/queue/logical_block_size"
check ns-format-erase nvme format "$first" --ses=1 --force
head -c 32768 /dev/zero > /tmp/zeros
for device in "$first" "$other"; do
    check "ns-read-$(basename "$device")" nvme read "$device" -s 0 -c 7 -z 32768 -d /tmp/read
    check "ns-zeros-$(basename "$device")" cmp /tmp/read /tmp/zeros
done
check ns-write-again nvme write "$first" -s 0 -c 7 -z 32768 -d /tmp/ns
expect sanitize-capabilities "^sanicap *: 0x60000002" nvme id-ctrl "$controller"
check sanitize nvme sanitize "$controller" --sanact=2
tries=0
until nvme sanitize-log "$controller" | grep -q "SSTAT.*0x1$" || [ "$tries" -ge 60 ]; do
    tries=$((tries + 1))
    sleep 1
done
expect sanitize-log "SSTAT.*0x1$" nvme sanitize-log "$controller"
check sanitized-read nvme read "$first" -s 0 -c 7 -z 32768 -d /tmp/read
check sanitized-zeros cmp /tmp/read /tmp/zeros
check ns-disconnect nvme disconnect -n "$NQN"
attach || exit
if [ -n "$(block_device "$number")" ]; then pass ns-stays; else fail "ns-stays: $(ls /dev/nvme*)"; fi
check ns-disconnect-again nvme disconnect -n "$NQN"
