#!/bin/bash
# `make check` for aarch64: cross-compiled against a bare Debian's arm64 libraries and run by qemu's user mode, the
# tests' Python natively; then the first job inside that Debian, whose results must be this machine's where bits are
# promised. Needs root, debootstrap, qemu-user-static, gcc-aarch64-linux-gnu and a kernel with private binfmt_misc
# (6.7); without them it says so and exits 77. Half an hour on two cores.
#     tests/aarch64.sh [CODENAME]    without one this machine's release
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/chroot.sh
for need in qemu-aarch64-static aarch64-linux-gnu-gcc; do
    command -v $need > /dev/null || { echo "aarch64: SKIPPED: it needs $need"; exit 77; }
done
for_debians "$@"
shift
trap 'remove "$bare"; rm -rf --one-file-system "$bare"' EXIT
release=${1:-$own} root=${BARE:-$bare}/arm64-${1:-$own}

# Unpacked, not installed: no script of a package runs, and none of what is compiled or run asks for one.
packages=libhdf5-dev,libyaml-dev,libxxhash-dev,libssl-dev,libdeflate-dev,liblzf-dev,libcmocka-dev,libgomp1,libc6-dev
if [ ! -e "$root/unpacked" ]; then
    debootstrap --arch arm64 --foreign --variant=minbase --include=$packages,libgcc-12-dev \
        "$release" "$root" "$(mirror)" > "$bare/log" 2>&1 || { tail -n 20 "$bare/log"; exit 1; }
    for deb in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
    touch "$root/unpacked"
fi

# The tests compile what they preload: for the program's processor too.
mkdir "$bare/bin"
printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc --sysroot="%s" "$@"\n' "$root" > "$bare/bin/cc"
chmod +x "$bare/bin/cc"
export PATH=$bare/bin:$PATH PKG_CONFIG_SYSROOT_DIR=$root QEMU_LD_PREFIX=$root
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig
make CUDA=0 BUILD=build-aarch64 CFLAGS='-O2 -g -Werror'

# In a namespace with its own table of program formats, which ends with it.
format=':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
format+=':\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
format+=":$(command -v qemu-aarch64-static):F" # F: opened now, so that a bare system needs none
status=0
root=$root bare=$bare format=$format unshare --user --map-root-user --mount bash -eu << 'END' || status=$?
mount -t binfmt_misc binfmt /proc/sys/fs/binfmt_misc 2> /dev/null ||
    { echo "aarch64: SKIPPED: this kernel has no private binfmt_misc"; exit 77; }
printf %s "$format" > /proc/sys/fs/binfmt_misc/register
# qemu knows no RLIMIT_AS (h5type, rawio), opens no pseudo-terminal (table) and says so when a program crashes (fence).
units=$(printf 'build-aarch64/tests/%s ' $(ls tests/unit | sed -n 's/^\(test_.*\)\.c$/\1/p' |
    grep -vE '^test_(h5type|rawio|table|fence)$'))
make DEPS=0 CUDA=0 BUILD=build-aarch64 CFLAGS='-O2 -g -Werror' UNITS="$units" check
mkdir -p "$root/root/configs" "$root/root/data"
cp build-aarch64/tilerun "$root/root"
cp configs/quickstart.yaml "$root/root/configs"
cp data/digits.h5 "$root/root/data"
QEMU_LD_PREFIX='' chroot "$root" /bin/sh -c \
    'cd /root && ./tilerun run configs/quickstart.yaml --once --overwrite -o out.h5'
cp "$root/root/out.h5" "$bare/aarch64.h5"
END
[ $status = 0 ] || exit $status
unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR
PATH=${PATH#*:} make CUDA=0 BUILD=build
build/tilerun run configs/quickstart.yaml --once -o "$bare/own.h5"
build/tilerun compare --any-device --json "$bare/own.h5" "$bare/aarch64.h5" > "$bare/compared"
if grep '"identical": false' "$bare/compared"; then exit 1; fi
echo "aarch64: $(grep -c '"identical": true' "$bare/compared") outputs are this machine's, bit for bit"
echo "aarch64: checked in $SECONDS s"
