#!/bin/bash
# Installs what the build and the tests need and this machine lacks: with apt, as root or by sudo. Elsewhere it prints
# the names for dnf, conda and environment modules. Silent when nothing is missing.
#
# HDF5_DIR, YAML_DIR and PYTHON count as they do in the Makefile: what they lead to is not missing.
# shellcheck disable=SC2317 # the table calls the functions
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
python=${PYTHON:-python3}

# Can C include it?
header() {
    local flags
    flags=$(pkg-config --cflags hdf5 2> /dev/null || pkg-config --cflags hdf5-serial 2> /dev/null || true)
    # shellcheck disable=SC2086 # several words
    printf '#include <%s>\n' setjmp.h stdarg.h stddef.h stdint.h "$1" |
        cc -E -I"${HDF5_DIR:-.}/include" -I"${YAML_DIR:-.}/include" $flags - > /dev/null 2>&1
}
program() { command -v "$1" > /dev/null; }
# apt's modules are seen by Debian's Python alone.
module() { "$python" -c "import $1" 2> /dev/null || /usr/bin/python3 -c "import $1" 2> /dev/null; }

# apt | dnf | conda-forge | how to tell that it is there
table='
gcc                | gcc                | c-compiler  | program cc
libc6-dev          | glibc-devel        | c-compiler  | header stdio.h
make               | make               | make        | program make
pkg-config         | pkgconf-pkg-config | pkg-config  | program pkg-config
libhdf5-dev        | hdf5-devel         | hdf5        | header hdf5.h
libyaml-dev        | libyaml-devel      | yaml        | header yaml.h
libxxhash-dev      | xxhash-devel       | xxhash      | header xxhash.h
libdeflate-dev     | libdeflate-devel   | libdeflate  | header libdeflate.h
libssl-dev         | openssl-devel      | openssl     | header openssl/sha.h
libcmocka-dev      | libcmocka-devel    | cmocka      | header cmocka.h
hdf5-tools         | hdf5               | hdf5        | program h5dump
python3            | python3            | python      | program python3
python3-h5py       | python3-h5py       | h5py        | module h5py
python3-numpy      | python3-numpy      | numpy       | module numpy
python3-pytest     | python3-pytest     | pytest      | module pytest
python3-pytest-xdist | python3-pytest-xdist | pytest-xdist | module xdist
python3-xxhash     | python3-xxhash     | python-xxhash | module xxhash
python3-jsonschema | python3-jsonschema | jsonschema  | module jsonschema
valgrind           | valgrind           | valgrind    | program valgrind
'
apt='' dnf='' conda=''
while IFS='|' read -r apt_name dnf_name conda_name test; do
    # shellcheck disable=SC2086 # several words
    [ -z "$apt_name" ] || $test || {
        apt+=" ${apt_name// /}" dnf+=" ${dnf_name// /}" conda+=" ${conda_name// /}"
    }
done <<< "$table"
[ -n "$apt" ] || exit 0

root=''
[ "$(id -u)" = 0 ] || root=sudo
if program apt-get && { [ -z "$root" ] || program "$root"; }; then
    echo "installing:$apt"
    # shellcheck disable=SC2086 # several words
    if $root apt-get update -qq && $root apt-get install -y -qq --no-install-recommends $apt > /dev/null; then
        exit 0
    fi
fi
cat >&2 << END
These are missing and could not be installed here:
  apt        $apt
  dnf        $dnf
  conda      $conda
  modules     module load hdf5 python        (then HDF5_DIR=, and YAML_DIR= for a prefix with the others)
END
exit 1
