#!/bin/bash
# Packs the last commit, and unpacks and builds it where git does not see it; scripts of this folder source it. It sets
# `tarball`, `version` and `scratch`, which goes when the script ends, and goes into the tree that was built.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make -s dist
mv tilerun-*.tar.gz "$scratch"
tarball=$(echo "$scratch"/tilerun-*.tar.gz)
version=${tarball##*/tilerun-} version=${version%.tar.gz}
tar xzf "$tarball" -C "$scratch"
cd "$scratch/tilerun-$version" || exit
[ -n "${NO_BUILD:-}" ] || make -s CUDA=0 > "$scratch/make.log" 2>&1 || { cat "$scratch/make.log"; exit 1; }

# Lays the system's HDF5 out as an installation of its own: a prefix with include and lib.
system_prefix() {
    local include library
    include=$(pkg-config --cflags-only-I hdf5 | sed 's/^-I//; s/ .*//')
    library=$(pkg-config --libs-only-L hdf5 | sed 's/^-L//; s/ .*//')
    mkdir -p "$1"
    ln -s "${include:-/usr/include}" "$1/include"
    ln -s "${library:-/usr/lib}" "$1/lib"
}
