#!/bin/sh
# build.sh FOLDER PROGRAMS MODULES [SUITE]: Debian's kernel and a root in memory for a guest, from packages of this machine. A
# program may be named by its path. FOLDER/root is the root, FOLDER/vmlinuz the kernel, which is fetched if it is not there from
# last time: that of a suite of Debian's archive ("bookworm-backports"), or the one that apt knows on this machine.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$1"
cd "$1"
if [ -n "$4" ]; then
    # the suite alone, in folders of its own: nothing of this machine's apt changes
    apt="$PWD/apt-$4"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $4 main" > "$apt/sources.list"
    printf 'Dir::%s "%s";\n' Etc::SourceList "$apt/sources.list" Etc::SourceParts /dev/null State::Lists "$apt/lists" \
        Cache "$apt" > "$apt/apt.conf"
    export APT_CONFIG="$apt/apt.conf"
    apt-get update -q
fi
package="$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)"
if [ -z "$package" ]; then
    echo "apt knows no package linux-image-amd64; as root: apt-get update" >&2
    exit 1
fi
version="${package#linux-image-}"
kernel="kernel-$version"
if [ ! -e "$kernel/vmlinuz" ]; then
    rm -rf "$kernel" downloads
    mkdir downloads
    # newer kernels have their image and their modules in packages of their own
    parts="$(apt-cache depends "$package" | sed -n "s/^ *Depends: \(linux-[a-z]*-$version\)\$/\1/p")"
    (cd downloads && apt-get download -q "$package" $parts)
    for file in downloads/*.deb; do
        dpkg-deb -x "$file" "$kernel"
    done
    rm -rf downloads
    if [ -e "$kernel/usr/lib/modules" ]; then
        mkdir -p "$kernel/lib"
        mv "$kernel/usr/lib/modules" "$kernel/lib/modules"
    fi
    depmod -b "$kernel" "$version"
    # the last file: the kernel is complete
    for image in "$kernel/boot/vmlinuz-$version" "$kernel/lib/modules/$version/vmlinuz"; do
        [ ! -e "$image" ] || cp "$image" "$kernel/vmlinuz"
    done
fi
cp "$kernel/vmlinuz" vmlinuz
echo "$version" > version

rm -rf root
mkdir -p root/bin root/sbin root/usr/bin root/usr/sbin root/lib root/lib64 root/proc root/sys root/dev root/tmp root/mnt \
    root/etc/nvme root/run root/modules root/scripts
PATH="$PATH:/usr/sbin:/sbin"
cp "$(command -v busybox)" root/bin/busybox
for name in $2; do
    file="$(readlink -f "$(command -v "$name")")"
    cp "$file" "root/usr/sbin/$(basename "$name")"
    ldd "$file" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "root$(dirname "$library")"
        [ -e "root$library" ] || cp "$(readlink -f "$library")" "root$library"
    done
done
cp /etc/mke2fs.conf root/etc/
for module in $3; do
    modprobe -d "$PWD/$kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r module; do
    name="$(basename "$module" .xz)"
    case "$module" in
        *.xz) busybox unxz -c "$module" > "root/modules/$name" ;;
        *) cp "$module" root/modules/ ;;
    esac
    echo "$name" >> root/modules/order
done
cp "$here/init.sh" root/init
chmod +x root/init
cp "$here/library.sh" root/library.sh
