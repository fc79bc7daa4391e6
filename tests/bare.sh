#!/bin/bash
# Runs README's two commands on bare Debians: debootstrap makes each with only git and make added, and HEAD is cloned
# into it. This machine's release runs them once as it is, with only the layout tests of the end-to-end tests, and once,
# with all tests, with a foreign python3 first in PATH that has one of the modules; other releases once as they are,
# with all tests, but sid, which has the newest of everything, with those of `make check`. At the end each release reads
# the others' results. Eight minutes a release on two cores; with `make check` three.
#     tests/bare.sh [CODENAME...]    such as bookworm trixie sid; without one this machine's release
#     GOAL=check tests/bare.sh ...   all releases once as they are, with the tests of `make check`
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/chroot.sh
for_debians "$@"
shift
[ $# -gt 0 ] || set -- "$own"
trap 'remove "$bare"/at-*; rm -rf --one-file-system "$bare"' EXIT

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

# ---- results of each release, read by the others --------------------------------------------------------------------

write_results() {
    try "$bare/at-$release" build/tilerun run configs/quickstart.yaml --once -o "$release.h5"
}

read_results() {
    local writer
    for writer; do
        [ "$writer" = "$release" ] && continue
        cp "$bare/at-$writer/root/tilerun/$writer.h5" "$bare/at-$release/root/tilerun"
        try "$bare/at-$release" build/tilerun compare --any-device "$release.h5" "$writer.h5"
    done
}

for release; do
    make_bare "$bare/at-$release"
    git clone -q . "$bare/at-$release/root/tilerun"
    goal=${GOAL:-$([ "$release" = sid ] && echo check || echo test)}
    twice=''
    if [ "$release $goal" = "$own test" ]; then twice=yes; fi
    with=()
    if [ "$twice" ]; then
        make_bare "$bare/at-foreign"
        git clone -q . "$bare/at-foreign/root/tilerun"
        with=("PYTEST_ADDOPTS=-k 'layouts or slurm'")
    fi
    try "$bare/at-$release" make demo
    try "$bare/at-$release" make "$goal"
    with=()
    if [ "$twice" ]; then
        add_foreign "$bare/at-foreign"
        try "$bare/at-foreign" make demo
        try "$bare/at-foreign" make test
        foreign=''
        remove "$bare/at-foreign"
    fi
    write_results
done
for release; do
    read_results "$@"
done
