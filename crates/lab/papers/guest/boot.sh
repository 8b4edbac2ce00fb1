#!/bin/sh
# boot.sh FOLDER IMAGE SECONDS: boots what build.sh made in FOLDER, for SECONDS at most. IMAGE is where the root goes, packed.
# The guest's serial line is standard input and output. The host's loopback address is 10.0.2.2 there. The processor is
# emulated, so it needs neither root nor /dev/kvm.
set -e
(cd "$1/root" && find . | cpio -o -H newc --quiet) > "$2"
die="setpriv --pdeathsig KILL --"
exec $die timeout --foreground "$3" $die qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nographic \
    -no-reboot -netdev user,id=n0 -device virtio-net-pci,netdev=n0 -kernel "$1/vmlinuz" -initrd "$2" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check"
