# Sourced by setup.sh and nested.sh, which have set $store: how they speak, and how they get the distribution's packages.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

say() { printf 'lab: [%3ds] %s\n' "$SECONDS" "$*" >&2; }
fail() { say "$*"; exit 1; }

again() { # a mirror that hiccups, or another apt-get at work, is no reason to give up
    local try
    for try in 1 2 3 4 5; do
        "$@" >> "$store/apt.log" 2>&1 && return
        say "try $try of 5 failed: $*"
        sleep $((try * 4))
    done
    tail -20 "$store/apt.log" >&2
    fail "cannot get the packages; the log is $store/apt.log"
}
install_missing() {
    local package missing=()
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    again apt-get update -qq
    again apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
}
