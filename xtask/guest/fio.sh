# fio checks what it reads, by several queues of the drive, past the guest's cache and through it.
. /library.sh

verify() {
    fio --name=verify --filename="$DEVICE" --rw=randwrite --bsrange=4k-64k --size=4m --offset_increment=8m --numjobs=4 \
        --verify=crc32c --verify_fatal=1 --end_fsync=1 --group_reporting "$@"
}

attach --nr-io-queues=2 --nr-write-queues=2 || exit
queues="$(cat "/sys/class/nvme/$(controller)/queue_count")"
# the admin queue is one of them
if [ "$queues" -ge 4 ]; then pass "fio-queues: $queues"; else fail "fio-queues: only $queues"; fi
check fio-direct verify --direct=1 --ioengine=libaio --iodepth=16
check fio-buffered verify --direct=0 --ioengine=psync --fsync=16
check fio-digests-detach detach
attach --hdr-digest --data-digest || exit
check fio-digests verify --direct=1 --ioengine=libaio --iodepth=16
detach
