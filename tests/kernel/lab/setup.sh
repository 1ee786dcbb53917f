#!/bin/bash
# Makes what the lab guest boots from, out of the distribution's own packages (Debian, Ubuntu), and prints the folder it is in.
# Nothing is installed as the host's kernel: the image is only unpacked. A lab that is there and was made from these sources is
# taken as it is, without the network. Needs root, for apt-get and because the guest reads the host's root as its own.
#
#   setup.sh            CANTLE_LAB_DIR: where labs are kept (default: .lab in the checkout)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
store=$(realpath -m "${CANTLE_LAB_DIR:-$here/../../../.lab}")
. "$here/packages.sh"

[ "$(id -u)" = 0 ] || fail "the kernel lab needs root: run make test-kernel as root"
command -v apt-get > /dev/null || fail "the kernel lab is made from Debian or Ubuntu packages; there is no apt-get here"
[ "$(dpkg --print-architecture)" = amd64 ] || fail "the kernel lab boots an x86-64 kernel; this machine is $(dpkg --print-architecture)"

case $(. /etc/os-release && echo "$ID") in
    ubuntu) flavour=generic ;;
    *) flavour=amd64 ;;
esac
tools=(qemu-system-x86 busybox-static cpio kmod xz-utils zstd pciutils e2fsprogs util-linux lxc)
builders=(make gcc "linux-headers-$flavour")

depends_on() { apt-cache depends "$1" | awk -v prefix="$2" '$1 == "Depends:" && index($2, prefix) == 1 { print $2; exit }'; }

mkdir -p "$store"
exec 9> "$store/lock"
flock 9 # one set-up at a time; the second finds the first one's work
install_missing "${tools[@]}"

sources=$(cd "$here/.." && cat lab/setup.sh lab/packages.sh lab/mkinitrd.sh lab/*init lab/vmlinux.py modules/* | sha256sum | cut -c1-12)
for made in "$store"/*-"$sources"/version; do
    [ -e "$made" ] && dirname "$made" && exit
done

install_missing "${builders[@]}"
image=$(depends_on "linux-image-$flavour" linux-image-)
[ -n "$image" ] || { again apt-get update -qq; image=$(depends_on "linux-image-$flavour" linux-image-); }
version=${image#linux-image-}
series=$(echo "$version" | cut -d. -f1,2)
packages=("$image" "linux-source-$series")
modules=$(depends_on "$image" linux-modules-) # Ubuntu keeps the modules apart
[ -z "$modules" ] || packages+=("$modules")
headers=/usr/src/linux-headers-$version
[ -d "$headers" ] || install_missing "linux-headers-$version"

kernel=$store/kernel-$version
if [ ! -e "$kernel/complete" ]; then
    say "fetching ${packages[*]}"
    rm -rf "$kernel" "$store/packages"
    mkdir -p "$kernel/samples" "$store/packages"
    (cd "$store/packages" && again apt-get download -qq "${packages[@]}")

    say "unpacking $image"
    dpkg -x "$store/packages/${image}"_*.deb "$kernel"
    [ -z "$modules" ] || dpkg -x "$store/packages/${modules}"_*.deb "$kernel"
    [ -e "$kernel/lib" ] || ln -s usr/lib "$kernel/lib"
    depmod -b "$kernel" "$version"

    say "taking mtty, mdpy and mbochs from linux-source-$series"
    dpkg --fsys-tarfile "$store/packages/linux-source-${series}"_*.deb | tar -x -C "$store/packages" --wildcards '*/linux-source-*.tar.*'
    tar -x -C "$kernel/samples" --strip-components=3 --wildcards '*/samples/vfio-mdev/*' \
        -f "$(find "$store/packages" -name 'linux-source-*.tar.*')"
    rm -rf "$store/packages"
    touch "$kernel/complete"
fi

work=$store/making.$sources
build=$(mktemp -d) # not below $store: the kernel's makefiles do not take a path with a space
trap 'rm -rf "$build"' EXIT
rm -rf "$work"
mkdir -p "$work/modules"
cp "$kernel"/samples/*.[ch] "$here"/../modules/* "$build/"

say "building modules for $version"
make -C "$headers" M="$build" modules > "$work/build.log" 2>&1 || { cat "$work/build.log" >&2; fail "the modules do not build"; }
for module in "$build"/*.ko; do strip -g -o "$work/modules/$(basename "$module")" "$module"; done

say "unpacking the kernel and making the initrds"
python3 "$here/vmlinux.py" "$kernel/boot/vmlinuz-$version" "$work/vmlinux"
initrd() { bash "$here/mkinitrd.sh" "$version" "$kernel" "$@"; }
initrd "$work/initrd.img" "$here/init" virtio_pci 9pnet_virtio 9p virtio_console overlay
initrd "$work/disk.img" "$here/disk-init" virtio_pci 9pnet_virtio 9p virtio_console virtio_blk ext4

echo "$version" > "$work/version"
rm -rf "$store/$version-$sources"
mv "$work" "$store/$version-$sources" # complete or not there at all
say "ready: $store/$version-$sources"
echo "$store/$version-$sources"
