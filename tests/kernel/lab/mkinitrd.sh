#!/bin/bash
# Makes a guest's initrd: busybox, an init, and the modules that reach the guest's root.
#   mkinitrd.sh KERNEL_VERSION MODULE_TREE OUTPUT INIT MODULE...      MODULE_TREE holds lib/modules/KERNEL_VERSION
set -euo pipefail
version=$1 tree=$2 output=$3 init=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work"/{bin,proc,sys,dev,modules}
cp "$(command -v busybox)" "$work/bin/busybox"
install -m 755 "$init" "$work/init"

unpack() { # a module file as busybox's insmod takes it
    case $1 in
        *.xz) xz -dc "$1" ;;
        *.zst) zstd -qdc "$1" ;;
        *) cat "$1" ;;
    esac
}

# In load order, each once; one that is built into this kernel has no file.
touch "$work/modules/order"
for wanted in "$@"; do
    modprobe -d "$tree" -S "$version" --show-depends "$wanted" | sed -n 's/^insmod \(.*\.ko[.a-z]*\).*/\1/p' | while read -r file; do
        name=$(basename "$file")
        name=${name%.xz} name=${name%.zst}
        grep -qx "$name" "$work/modules/order" && continue
        unpack "$file" > "$work/modules/$name"
        echo "$name" >> "$work/modules/order"
    done
done
(cd "$work" && find . | cpio --quiet -o -H newc | gzip -1) > "$output"
