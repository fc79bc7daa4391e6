#!/bin/sh
# Prints a recipe with what belongs to a release: the version, the tarball of `make dist`, where it is fetched from, its
# hash and the prefix of an installation.
#     [URL=FOLDER] [PREFIX=FOLDER] fill.sh TARBALL RECIPE > FILE
set -eu
tarball=$(realpath "$1")
version=${tarball##*/tilerun-}
exec sed -e "s|@VERSION@|${version%.tar.gz}|g" -e "s|@SHA256@|$(sha256sum "$tarball" | cut -d ' ' -f 1)|g" \
    -e "s|@URL@|${URL:-file://${tarball%/*}}|g" -e "s|@TARBALL@|$tarball|g" -e "s|@PREFIX@|${PREFIX:-/usr/local}|g" "$2"
