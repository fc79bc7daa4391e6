#!/bin/bash
# Compiles all kernels with CUDA 12, which Debian 13 has as a package, in a bare Debian 13, and lists the variants by the
# program that was built. Needs root, debootstrap and unshare; without them it says so and exits 77. Twenty minutes on two
# cores, and 12 GB of disk.
#     tests/cuda12.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/chroot.sh
for_debians "$@"
trap 'remove "$bare"/at-*; rm -rf --one-file-system "$bare"' EXIT

release=trixie root=$bare/at-trixie
make_bare "$root"
find "$root"/etc/apt/sources.list* -type f -exec sed -i -E \
    's/^(deb .* main)$/\1 contrib non-free/; s/^Components: main$/& contrib non-free/' {} +
git clone -q . "$root/root/tilerun"
try "$root" sh -c 'apt-get update -qq && apt-get install -qq -y --no-install-recommends nvidia-cuda-toolkit'
try "$root" make deps
try "$root" make -j"$(nproc)" CUDA_ARCHS=80
try "$root" sh -c 'build/tilerun list > list.txt && grep -q async list.txt && build/tilerun --version'
