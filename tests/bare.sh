#!/bin/bash
# Runs README's two commands on bare Debians: debootstrap makes each with only git and make added, and HEAD is cloned
# into it. This machine's release runs them once as it is, with only the layout tests of the end-to-end tests, and once,
# with all tests, with a foreign python3 first in PATH that has one of the modules; other releases once as they are, with
# all tests. Eight minutes a release on two cores. Needs root, debootstrap and unshare; without them it says so and
# exits 77.
#     tests/bare.sh [CODENAME...]    such as bookworm trixie; without one this machine's release
#
# Debian and its packages come from where this machine's apt is configured to get them.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD

for need in debootstrap unshare; do
    [ "$(id -u)" = 0 ] && command -v $need > /dev/null && continue
    echo "bare: SKIPPED: it needs root, debootstrap and unshare"
    exit 77
done
# Runs in its own mount namespace, so that all mounts end with it.
[ "${1:-}" = inside ] || exec unshare --mount --propagation private "$0" inside "$@"
shift

bare=$(mktemp -d)
remove() {
    umount -R "$1/dev" "$1/proc" 2> /dev/null || true
    rm -rf --one-file-system "$1"
}
trap 'remove "$bare/plain"; remove "$bare/foreign"; rm -rf --one-file-system "$bare"' EXIT
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[ $# -gt 0 ] || set -- "$own"

# ---- the bare system ------------------------------------------------------------------------------------------------

# Prints the address that this machine's apt gets its release's packages from.
# shellcheck disable=SC2016 # apt and awk expand
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v r="$own" '$2 == r && !n++ {print $1}'
}

# Copies apt's sources (for the release), keys and network settings, and the trusted certificates, into the bare system.
lend_network() {
    local root=$1 path
    for path in /etc/apt/{sources.list,sources.list.d,trusted.gpg,trusted.gpg.d,keyrings,auth.conf.d} \
        /etc/{resolv.conf,hosts,pip.conf,ssl/certs} /usr/share/{keyrings,ca-certificates} \
        /usr/local/share/ca-certificates; do
        [ ! -e "$path" ] || { mkdir -p "$root${path%/*}" && cp -rLT "$path" "$root$path"; }
    done
    apt-config dump | grep '^Acquire::' > "$root/etc/apt/apt.conf.d/99lent"
    [ -e /etc/apt/sources.list ] || rm "$root/etc/apt/sources.list"
    grep -rlZw "$own" "$root"/etc/apt/sources.list* | xargs -0r sed -i "s/\b$own\b/$release/g"
}

make_bare() {
    local proxy=''
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase --include=git,make "$release" "$1" "$(mirror)" \
        > "$bare/log" 2>&1 || { tail -n 20 "$bare/log"; return 1; }
    lend_network "$1"
}

# Runs a command in the bare system, in the clone, with only those environment variables that the network needs.
within() {
    local root=$1
    shift
    mapfile -t network < <(env | grep -iE '^(https?_proxy|no_proxy|pip_[a-z_]*|ssl_cert_[a-z]*|requests_ca_bundle)=')
    chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
        "PATH=${foreign:+$foreign:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "${network[@]}" "${with[@]}" \
        sh -c 'cd /root/tilerun && exec "$@"' sh "$@" < /dev/null
}

# Runs one of the two commands; shows its output only if it fails.
try() {
    local way=$1 begin=$SECONDS name="bare $release, $1"
    shift
    if within "$bare/$way" "$@" > "$bare/log" 2>&1; then
        echo "$name: $*: $(tail -n 1 "$bare/log") ($((SECONDS - begin)) s)"
    else
        cat "$bare/log"
        echo "$name: $* FAILED"
        exit 1
    fi
}

# ---- a foreign Python: Debian's packages unpacked elsewhere, where apt's modules are not seen -----------------------

add_foreign() {
    local root=$1 deb
    within "$root" sh -c 'apt-get update -qq && mkdir -p /opt/debs/partial &&
        apt-get install -qq -y --no-install-recommends --download-only -o Dir::Cache::archives=/opt/debs \
            python3 python3-jsonschema' > "$bare/log" 2>&1 || { cat "$bare/log"; return 1; }
    for deb in "$root"/opt/debs/*.deb; do dpkg-deb -x "$deb" "$root/opt/foreign"; done
    rm -r "$root/opt/debs"
    foreign=/opt/foreign/usr/bin
    # shellcheck disable=SC2016 # the shell within expands
    within "$root" sh -c '[ "$(command -v python3)" = /opt/foreign/usr/bin/python3 ] &&
        python3 -c "import jsonschema" && ! python3 -c "import pytest" 2> /dev/null'
}

# ---- the two ways ---------------------------------------------------------------------------------------------------

try_plain() {
    try plain make demo
    try plain make test
    remove "$bare/plain"
}

try_foreign() {
    add_foreign "$bare/foreign"
    try foreign make demo
    try foreign make test
    remove "$bare/foreign"
}

for release; do
    foreign='' with=() ways=(plain)
    make_bare "$bare/plain"
    if [ "$release" = "$own" ]; then
        cp -a "$bare/plain" "$bare/foreign"
        ways+=(foreign) with=("PYTEST_ADDOPTS=-k 'layouts or slurm'")
    fi
    for way in "${ways[@]}"; do
        mount -t proc proc "$bare/$way/proc"
        mount --rbind /dev "$bare/$way/dev"
        git clone -q "$repository" "$bare/$way/root/tilerun"
    done
    try_plain
    with=()
    [ "$release" != "$own" ] || try_foreign
done
