# nvme-cli against the drive: what it prints is looked at.
. /library.sh

expect discover "subnqn: *$NQN" nvme discover -t tcp -a 10.0.2.2 -s "$PORT"
expect discover-port "trsvcid: *$PORT" nvme discover -t tcp -a 10.0.2.2 -s "$PORT"
# the host is behind an address translation: discovery has the address that is advertised
expect discover-address "traddr: *10\.0\.2\.2$" nvme discover -t tcp -a 10.0.2.2 -s "$PORT"
check connect-all nvme connect-all -t tcp -a 10.0.2.2 -s "$PORT"
sleep 2
if [ -n "$(block_device 1)" ]; then pass connect-all-device; else fail "connect-all-device: $(ls /dev/nvme*)"; fi
expect connect-all-disconnect "disconnected 1" nvme disconnect -n "$NQN"
attach || exit
controller="/dev/$(controller)"
expect id-ctrl "^mn *: Tantalum" nvme id-ctrl "$controller"
expect id-ctrl-copy "^oncs *: 0x1ff" nvme id-ctrl "$controller"
expect id-ctrl-cache "^vwc *: 0x[0-9a-f]*[1357]$" nvme id-ctrl "$controller"
expect id-ctrl-limits "^mdts *: 7" nvme id-ctrl "$controller"
expect id-ctrl-name "^subnqn *: $NQN" nvme id-ctrl "$controller"
expect list "Tantalum .*536.87 *MB" nvme list
# only namespaces with blocks are listed, each with its size, and no question leaves an error
nvme list > /tmp/listed 2>&1
if [ "$(grep -c "^/dev/" /tmp/listed)" = 1 ]; then pass list-rows; else fail "list-rows: $(cat /tmp/listed)"; fi
expect list-verbose "$DEVICE " nvme list -v
expect error-log-empty "num_err_log_entries[[:space:]]*: 0$" nvme smart-log "$controller"
expect list-subsys "tcp traddr=10.0.2.2,trsvcid=$PORT.* live" nvme list-subsys
expect id-ns "^nsze *: 0x20000$" nvme id-ns "$DEVICE"
expect id-ns-blocks "lbads:12.*in use" nvme id-ns "$DEVICE"
expect id-ns-atomic "^nawupf *: 0" nvme id-ns "$DEVICE"
expect effects-log "ACS2.*Get Log Page" nvme effects-log -c 0 "$controller"
expect effects-log-records "IOCS16 " nvme effects-log -c 1 "$controller"
expect list-ns "0x1" nvme list-ns "$controller"
expect ns-descs "csi *: 0" nvme ns-descs "$DEVICE"
# the UUID is what udev names the device by
uuid="$(nvme ns-descs "$DEVICE" | sed -n 's/^uuid *: *//p')"
wwid="$(cat "/sys/block/$(basename "$DEVICE")/wwid")"
if [ "$wwid" = "uuid.$uuid" ] && [ "$UUID" = "$uuid" ]; then pass uuid; else fail "uuid: $uuid, $wwid, $UUID"; fi
refuse id-ns-records "402c|Command Set" nvme id-ns -n 2 "$controller"
expect optimal-size "^524288$" cat "/sys/block/$(basename "$DEVICE")/queue/optimal_io_size"
expect smart-log "available_spare.*: 100%" nvme smart-log "$controller"
expect fw-log "afi *: 0x1" nvme fw-log "$controller"
expect supported-log-pages "0x5" nvme supported-log-pages "$controller"
expect get-feature-cache "0x0*1" nvme get-feature "$controller" -f 6
expect get-feature-queues "Current value" nvme get-feature "$controller" -f 7
check set-feature-cache nvme set-feature "$controller" -f 6 -v 0
expect set-feature-cache-off "value:(0x)?0+$" nvme get-feature "$controller" -f 6
check set-feature-cache-on nvme set-feature "$controller" -f 6 -v 1
expect get-feature-keep-alive "Current value" nvme get-feature "$controller" -f 0xf
refuse set-feature-unknown "INVALID_FIELD|Invalid Field" nvme set-feature "$controller" -f 0xc7 -v 1
refuse get-feature-unknown "INVALID_FIELD|Invalid Field" nvme get-feature "$controller" -f 0xc7
refuse format-unknown "." nvme format "$DEVICE" --lbaf=5 --force

head -c 32768 /dev/urandom > /tmp/a
check write nvme write "$DEVICE" -s 10 -c 7 -z 32768 -d /tmp/a
check read nvme read "$DEVICE" -s 10 -c 7 -z 32768 -d /tmp/b
check read-same cmp /tmp/a /tmp/b
check compare nvme compare "$DEVICE" -s 10 -c 7 -z 32768 -d /tmp/a
refuse compare-other "COMPARE|ompare" nvme compare "$DEVICE" -s 11 -c 7 -z 32768 -d /tmp/a
check copy nvme copy "$DEVICE" -d 100 -s 10 -b 7
check read-copy nvme read "$DEVICE" -s 100 -c 7 -z 32768 -d /tmp/c
check copy-same cmp /tmp/a /tmp/c
check verify nvme verify "$DEVICE" -s 10 -c 7
check write-zeroes nvme write-zeroes "$DEVICE" -s 10 -c 3
check dsm nvme dsm "$DEVICE" -s 14 -b 2 -d
check flush nvme flush "$DEVICE"
check read-zeroes nvme read "$DEVICE" -s 10 -c 7 -z 32768 -d /tmp/b
head -c 16384 /dev/zero > /tmp/z
dd if=/tmp/a bs=4096 skip=6 >> /tmp/z 2>/dev/null
dd if=/tmp/b bs=4096 count=4 of=/tmp/b1 2>/dev/null
dd if=/tmp/b bs=4096 skip=6 >> /tmp/b1 2>/dev/null
check zeroes-same cmp /tmp/z /tmp/b1
refuse read-beyond "LBA_RANGE|LBA Out of Range|range" nvme read "$DEVICE" -s 99999999 -c 0 -z 4096 -d /tmp/b
expect error-log "status_field[[:space:]]*: 0x4080\(LBA Out of Range" nvme error-log "$controller"
expect error-log-block "^lba[[:space:]]*: 0x5f5e0ff" nvme error-log "$controller"
# a remap: units 100 to 103 move to 200
check remap nvme io-passthru "$DEVICE" --opcode=0x80 --namespace-id=1 --cdw10=100 --cdw11=200 --cdw12=4
check read-remapped nvme read "$DEVICE" -s 200 -c 3 -z 16384 -d /tmp/r
dd if=/tmp/a bs=4096 count=4 of=/tmp/a4 2>/dev/null
check remapped-same cmp /tmp/a4 /tmp/r
check read-moved nvme read "$DEVICE" -s 100 -c 3 -z 16384 -d /tmp/r
head -c 16384 /dev/zero > /tmp/z4
check moved-zeroes cmp /tmp/z4 /tmp/r
# a share: units 200 to 203 at 300 too; to, from, units, 0
printf '\054\001\000\000\310\000\000\000\004\000\000\000\000\000\000\000' > /tmp/ranges
check share nvme io-passthru "$DEVICE" --opcode=0x81 --namespace-id=1 --data-len=16 --write --input-file=/tmp/ranges
check read-shared nvme read "$DEVICE" -s 300 -c 3 -z 16384 -d /tmp/r
check shared-same cmp /tmp/a4 /tmp/r
# a transaction: what is written in it is there once it is committed
nvme io-passthru "$DEVICE" --opcode=0x84 --namespace-id=1 > /tmp/said 2>&1
tx="$(sed -n 's/.*result: *\(0x[0-9a-f]*\).*/\1/p' /tmp/said)"
head -c 4096 /tmp/a > /tmp/a1
check tx-write nvme io-passthru "$DEVICE" --opcode=0x89 --namespace-id=1 --cdw10=400 --cdw14="$tx" --data-len=4096 \
    --write --input-file=/tmp/a1
nvme read "$DEVICE" -s 400 -c 0 -z 4096 -d /tmp/t > /dev/null 2>&1
head -c 4096 /dev/zero > /tmp/z1
check tx-not-yet cmp /tmp/z1 /tmp/t
check tx-commit nvme io-passthru "$DEVICE" --opcode=0x88 --namespace-id=1 --cdw14="$tx"
nvme read "$DEVICE" -s 400 -c 0 -z 4096 -d /tmp/t > /dev/null 2>&1
check tx-there cmp /tmp/a1 /tmp/t
refuse tx-over "." nvme io-passthru "$DEVICE" --opcode=0x88 --namespace-id=1 --cdw14="$tx"
refuse passthru-unknown "INVALID_OPCODE|Invalid Command Opcode|Invalid Opcode" \
    nvme io-passthru "$DEVICE" --opcode=0xfd --namespace-id=1
expect smart-log-counts "host_write_commands[[:space:]]*: [1-9]" nvme smart-log "$controller"
expect smart-log-units "Data Units Written[[:space:]]*: [1-9]" nvme smart-log "$controller"
# records, by way of the generic device of namespace 2
generic="$(generic_device 2)"
echo "namespace 1 is $DEVICE, namespace 2 is $generic"
if [ -n "$generic" ]; then
    printf 'a value of a record.' > /tmp/v
    # key "key1": dword 2; 20 bytes of value; 4 bytes of key
    store="--namespace-id=2 --cdw2=0x3179656b --cdw10=20 --cdw11=4"
    check kv-store nvme io-passthru "$generic" --opcode=0x01 $store --data-len=20 --write --input-file=/tmp/v
    check kv-exist nvme io-passthru "$generic" --opcode=0x14 --namespace-id=2 --cdw2=0x3179656b --cdw11=4
    expect kv-retrieve "a.value.of.a.rec" nvme io-passthru "$generic" --opcode=0x02 $store --data-len=20 --read
    # a key of its own, and a value of a unit
    printf '%04096d' 0 > /tmp/big
    check kv-store-big nvme io-passthru "$generic" --opcode=0x01 --namespace-id=2 --cdw2=0x3279656b --cdw10=4096 \
        --cdw11=4 --data-len=4096 --write --input-file=/tmp/big
    refuse kv-store-exists "." nvme io-passthru "$generic" --opcode=0x01 --namespace-id=2 --cdw2=0x3279656b \
        --cdw10=4096 --cdw11=0x204 --data-len=4096 --write --input-file=/tmp/big
    expect kv-list "key1" nvme io-passthru "$generic" --opcode=0x06 --namespace-id=2 --cdw10=64 --data-len=64 --read
    expect kv-list-both "y2\.\.\." nvme io-passthru "$generic" --opcode=0x06 --namespace-id=2 --cdw10=64 --data-len=64 --read
    check kv-delete nvme io-passthru "$generic" --opcode=0x10 --namespace-id=2 --cdw2=0x3179656b --cdw11=4
    refuse kv-gone "." nvme io-passthru "$generic" --opcode=0x14 --namespace-id=2 --cdw2=0x3179656b --cdw11=4
    # the example in C: records, a share, an atomic batch, a transaction
    expect client-in-c "all of it is right" batch "$NQN"
    refuse client-in-c-elsewhere "namespace 1 of $NQN.x: No such file" batch "$NQN.x"
else
    fail "kv: there is no generic device of namespace 2: $(ls /dev/ng* 2>/dev/null | tr '\n' ' ')"
fi
check reset nvme reset "$controller"
sleep 1
expect id-ctrl-again "^mn *: Tantalum" nvme id-ctrl "$controller"
expect disconnect "disconnected 1" nvme disconnect -n "$NQN"
if [ -z "$(controller)" ]; then pass disconnected; else fail "disconnected: $(controller) is still there"; fi
