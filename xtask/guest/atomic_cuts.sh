# Power is cut while records of 8 to 64 KiB are overwritten, eight at a time: which are torn? CUT_DRIVES has
# PORT,NQN,BYTES,DURABLE for each, with the promised size, and whether what is acknowledged or what is flushed is durable.
# The host arms the cut at "cut" and is told the results at "found".
. /library.sh

RECORDS=128

for drive in $CUT_DRIVES; do
    set -- $(echo "$drive" | tr , ' ')
    PORT="$1" NQN="$2" promised="$3" durable="$4"
    attach --ctrl-loss-tmo=0 || exit
    rm -f /tmp/state
    check "fill-$promised-$durable" atomic fill "$DEVICE" "$RECORDS"
    round=0
    while [ "$round" -lt "$CUTS" ]; do
        round=$((round + 1))
        ask cut "$PORT"
        name="cut-$promised-$durable $round"
        # it ends when power is lost
        atomic overwrite "$DEVICE" "$RECORDS" "$promised" /tmp/state "$round" > /tmp/said 2>&1 || {
            fail "$name: ended with $?: $(cat /tmp/said)"
            break
        }
        detach
        attach --ctrl-loss-tmo=0 || exit
        if found="$(atomic check "$DEVICE" "$RECORDS" /tmp/state "$durable" 2>&1)"; then pass "$name: $found"; else
            fail "$name: $found"
            break
        fi
        ask found "$PORT" "$found"
    done
    detach
done
