#!/bin/busybox sh
# The guest's first process: modules, the network, and then the scripts that it was made for.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
. /parameters
while read -r module; do
    options=""
    # requests of a drive that is gone are to fail, not to wait for another path to it, unless there is one
    [ "$module" = nvme-core.ko ] && options="multipath=${MULTIPATH:-N}"
    insmod "/modules/$module" $options 2>/dev/null
done < /modules/order
ifconfig lo up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
ln -s /proc/self/mounts /etc/mtab
id=11111111-2222-4333-8444-555555555555
echo "nqn.2014-08.org.nvmexpress:uuid:$id" > /etc/nvme/hostnqn
echo "$id" > /etc/nvme/hostid
dmesg -n 1
stty -echo
# the firmware leaves a line with control characters and without an end: what came next would not be heard
echo
for script in $SCRIPTS; do
    sh "/scripts/$script.sh"
done
echo "GUEST ended"
poweroff -f
