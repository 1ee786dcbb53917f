#!/bin/bash
# Makes what guests inside the lab's guest boot from, and prints the folder it is in: a kernel with next to nothing in it, which comes up
# where a distribution's would take minutes, and an initramfs. What is there already is taken as it is, without the network.
#
#   nested.sh           CANTLE_LAB_DIR as for setup.sh, which has run before
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
store=$(realpath -m "${CANTLE_LAB_DIR:-$here/../../../.lab}")
. "$here/packages.sh"

exec 9> "$store/lock"
flock 9
install_missing libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients
made=$store/nested-$(cd "$here" && cat nested.sh nested.config nested-init | sha256sum | cut -c1-12)
[ -e "$made" ] && echo "$made" && exit

install_missing make gcc flex bison bc libelf-dev libssl-dev xz-utils
build=$(mktemp -d) # not below $store: the kernel's makefiles do not take a path with a space
trap 'rm -rf "$build"' EXIT
source=$(apt-cache depends linux-source | awk '$1 == "Depends:" && $2 ~ /^linux-source-/ { print $2; exit }')
say "fetching $source"
(cd "$build" && again apt-get download -qq "$source")
cp "$here/nested.config" "$build/"
mkdir "$build/linux" "$build/root" "$build/out"
dpkg --fsys-tarfile "$build/${source}"_*.deb | tar -x -C "$build" --wildcards '*/linux-source-*.tar.*'
tar -x -C "$build/linux" --strip-components=1 -f "$(find "$build" -name 'linux-source-*.tar.*' ! -type l)"

say "building the kernel of nested guests"
{
    make -C "$build/linux" KCONFIG_ALLCONFIG="$build/nested.config" allnoconfig
    make -C "$build/linux" -j"$(nproc)" vmlinux
} > "$store/nested.log" 2>&1 || { tail -40 "$store/nested.log" >&2; fail "it does not build; the log is $store/nested.log"; }
strip -o "$build/out/vmlinux" "$build/linux/vmlinux"

mkdir -p "$build"/root/{bin,proc,sys,dev}
cp "$(command -v busybox)" "$build/root/bin/busybox"
install -m 755 "$here/nested-init" "$build/root/init"
(cd "$build/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$build/out/initrd.img"

rm -rf "$made.new"
mv "$build/out" "$made.new"
mv "$made.new" "$made"
say "ready: $made"
echo "$made"
