#!/bin/bash
# Makes the root of a guest that systemd runs: a Debian of its own with Cantle installed as docs/deploy/README.md says; prints the folder.
# What is there already is taken as it is, without the network; Cantle itself is installed anew each time, from the checkout.
#
#   systemd.sh          CANTLE_LAB_DIR as for setup.sh, which has run before; PYTHON: that of the checkout, for its pip
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(realpath "$here/../../..")
store=$(realpath -m "${CANTLE_LAB_DIR:-$checkout/.lab}")
. "$here/packages.sh"
pip=("${PYTHON:-$checkout/.venv/bin/python}" -m pip --quiet --disable-pip-version-check)

suite=bookworm
packages=systemd,systemd-sysv,udev,dbus,kmod,python3,python3-venv,postgresql,nginx-light,libvirt-daemon-system,libvirt-clients,lxc,busybox-static
extras=openstack,postgresql,gunicorn # as docs/deploy/README.md has them

exec 9> "$store/lock"
flock 9
install_missing mmdebstrap debian-archive-keyring e2fsprogs
needs() { sed -n '/^\[project/,/^\[tool/p' "$checkout/pyproject.toml"; cat "$here/systemd.sh" "$checkout/constraints.txt"; }
root=$store/systemd-$(needs | sha256sum | cut -c1-12)
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "$checkout" >&2
wheel=$(basename "$wheels"/cantle-*.whl)

if [ ! -e "$root" ]; then
    say "making a Debian with systemd"
    rm -rf "$store"/systemd-* # one is half a gigabyte
    again mmdebstrap --variant=minbase --include="$packages" "$suite" "$root.new"
    version=$(chroot "$root.new" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "fetching what Cantle needs there"
    platforms=(--platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64)
    again "${pip[@]}" download --only-binary=:all: --python-version "$version" "${platforms[@]}" --find-links "$wheels" \
        --constraint "$checkout/constraints.txt" --dest "$wheels" "$wheels/$wheel[$extras]"
    chroot "$root.new" python3 -m venv /opt/cantle
    cp -r "$wheels" "$root.new/opt/wheels"
    chroot "$root.new" /opt/cantle/bin/pip install --quiet --no-index --find-links /opt/wheels "/opt/wheels/$wheel[$extras]" >&2
    rm -rf "$root.new/opt/wheels"
    chroot "$root.new" sh -c 'ln -s /opt/cantle/bin/cantle* /opt/cantle/bin/gunicorn /usr/bin/'
    mv "$root.new" "$root"
fi

say "installing $wheel"
cp "$wheels/$wheel" "$root/opt/"
chroot "$root" /opt/cantle/bin/pip install --quiet --no-index --no-deps --force-reinstall "/opt/$wheel" >&2
rm "$root/opt/$wheel"
echo "$root"
