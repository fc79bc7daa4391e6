#!/bin/bash
# From a release's tarball to `tilerun run` by a Debian package, on bare Debians: one builds it and lintian checks it,
# another installs it, runs the first job and removes it.
#     tests/packages/debian.sh [CODENAME...]    without one bookworm and trixie
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/chroot.sh
for_debians "$@"
shift
[ $# -gt 0 ] || set -- bookworm trixie
trap 'remove "$bare"/at-*; rm -rf --one-file-system "$bare"' EXIT

# shellcheck disable=SC2016 # the shell within expands
build='tar xzf ../tilerun-*.tar.gz --strip-components=1
cp -r configs/packaging/debian .
apt-get install -qq -y --no-install-recommends lintian dpkg-dev fakeroot > /dev/null
apt-get build-dep -qq -y ./ > /dev/null
dpkg-buildpackage -b -us -uc
lintian --allow-root --fail-on error,warning --tag-display-limit 0 ../tilerun_*.changes'

install='apt-get install -qq -y --no-install-recommends ../tilerun_*.deb > /dev/null
cd /tmp
tilerun run /usr/share/tilerun/configs/quickstart.yaml
tilerun show quickstart.h5
apt-get remove -qq -y tilerun > /dev/null
test ! -e /usr/share/tilerun && test ! -e /usr/bin/tilerun'

make -s dist
with=(DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=nocheck)
for release; do
    begin=$SECONDS
    make_bare "$bare/at-build"
    make_bare "$bare/at-user"
    cp tilerun-*.tar.gz "$bare/at-build/root"
    try "$bare/at-build" sh -ec "apt-get update -qq; $build"
    cp "$bare"/at-build/root/tilerun_*.deb "$bare/at-user/root"
    try "$bare/at-user" sh -ec "apt-get update -qq; $install"
    remove "$bare/at-build" "$bare/at-user"
    echo "debian $release: built, clean, installed, run and removed in $((SECONDS - begin)) s"
done
