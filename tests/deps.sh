#!/bin/bash
# Installs what `make demo` or `make test` needs and this machine lacks, and names it first: with apt, as root or by
# sudo; if apt's modules cannot serve the tests' Python, with pip into BUILD/venv. DEPS=0 installs nothing and names
# what is missing. Without apt it prints the names for dnf, conda and environment modules. Silent if nothing is missing.
#     tests/deps.sh demo|test
# CC, HDF5_DIR and YAML_DIR mean what they mean in the Makefile: software found through them is not missing. The tests'
# Python is chosen here and nowhere else: PYTHON, else the first python3 in PATH that has all modules, else Debian's;
# BUILD/python runs it. BUILD/deps.mk is renewed when something was installed.
# shellcheck disable=SC2317 # the table calls the functions
set -euo pipefail
goal=${1:?usage: $0 demo|test}
build=${BUILD:-build}
mkdir -p "$build"
[ -e "$build/deps.mk" ] || touch "$build/deps.mk"

# ---- the tests' Python ----------------------------------------------------------------------------------------------

modules='h5py numpy pytest xxhash jsonschema' # pip's names as well
debian=/usr/bin/python3                       # the one that sees apt's modules
venv=$build/venv/bin/python

# Runs a Python without environment variables that were set for another Python.
alone() { env -u PYTHONHOME -u PYTHONPATH PYTHONNOUSERSITE=1 "$@" < /dev/null; }
tell() { alone "$1" -c "import sys; print($2, sys.version)" 2> /dev/null; }

if [ -z "${PYTHON:-}" ]; then
    mapfile -t candidates < <(type -ap python3 || true; echo "$debian"; echo "$venv")
else
    candidates=("$PYTHON")
    [ "$(tell "$PYTHON" sys.base_prefix)" != "$(tell "$venv" sys.base_prefix)" ] || candidates+=("$venv")
fi

# Sets `python` to the path of the first candidate that has all modules, as it is or alone, and writes BUILD/python.
choose_python() {
    local candidate way code="import sys, ${modules// /, }; print('\n' + sys.executable * (sys.version_info >= (3, 8)))"
    for candidate in "${candidates[@]}"; do
        for way in env alone; do
            python=$("$way" "$candidate" -c "$code" 2> /dev/null < /dev/null | tail -n 1) || python=''
            [ -n "$python" ] || continue
            {
                echo "#!/bin/sh"
                [ "$way" = env ] || echo "unset PYTHONHOME PYTHONPATH; export PYTHONNOUSERSITE=1"
                printf 'exec %q "$@"\n' "$python"
            } > "$build/python"
            chmod +x "$build/python"
            return
        done
    done
    rm -f "$build/python"
}

# Would apt's modules help? Not if PYTHON is set to, or choose_python has found, a Python other than Debian's.
apt_serves() {
    local one
    for one in "${PYTHON:-}" "$python"; do
        [ -z "$one" ] || [ "$(tell "$one" sys.prefix)" = "$(tell "$debian" sys.prefix)" ] || return 1
    done
}

# Makes BUILD/venv with the first candidate that is able to.
make_venv() {
    local candidate
    echo "installing with pip, into $build/venv (DEPS=0 prevents it): $modules pytest-xdist"
    for candidate in "${candidates[@]}"; do
        rm -rf "$build/venv"
        # shellcheck disable=SC2086 # several words
        alone "$candidate" -m venv "$build/venv" &&
            PIP_USER=0 alone "$venv" -m pip install -q --only-binary :all: $modules pytest-xdist && break
    done > "$build/venv.log" 2>&1 || cat "$build/venv.log" >&2
    candidates=("$venv")
}

# ---- what is missing ------------------------------------------------------------------------------------------------

# Can a C program include this header?
header() {
    local flags
    flags=$(pkg-config --cflags hdf5 2> /dev/null || pkg-config --cflags hdf5-serial 2> /dev/null || true)
    # shellcheck disable=SC2086 # several words
    printf '#include <%s>\n' setjmp.h stdarg.h stddef.h stdint.h "$1" |
        ${CC:-cc} -E -I"${HDF5_DIR:-.}/include" -I"${YAML_DIR:-.}/include" $flags - > /dev/null 2>&1
}
program() { command -v "$1" > /dev/null; }
compiler() { program "${CC:-cc}"; }
# A program with CUDA is linked by the C compiler, with the C++ library of that very compiler.
cuda_linker() {
    [ "${CUDA:-0}" != 1 ] || { compiler && echo 'int main;' | ${CC:-cc} -w -x c - -o /dev/null -lstdc++ 2> /dev/null; }
}
hdf5_finder() { program pkg-config || header hdf5.h; }
module() { ! apt_serves || alone "$debian" -c "import $1" 2> /dev/null; }

# needed by | without it there is no build, or less is done | apt | dnf | conda-forge | is it there?
table='
demo | build | gcc                  | gcc                  | c-compiler    | compiler
demo | build | g++                  | gcc-c++              | cxx-compiler  | cuda_linker
demo | build | libc6-dev            | glibc-devel          | c-compiler    | header stdio.h
demo | build | make                 | make                 | make          | program make
demo | build | pkg-config           | pkgconf-pkg-config   | pkg-config    | hdf5_finder
demo | build | libhdf5-dev          | hdf5-devel           | hdf5          | header hdf5.h
demo | build | libyaml-dev          | libyaml-devel        | yaml          | header yaml.h
demo | build | libxxhash-dev        | xxhash-devel         | xxhash        | header xxhash.h
demo | build | libssl-dev           | openssl-devel        | openssl       | header openssl/sha.h
demo | less  | libdeflate-dev       | libdeflate-devel     | libdeflate    | header libdeflate.h
demo | less  | liblzf-dev           | liblzf-devel         | liblzf        | header liblzf/lzf.h
demo | less  | hdf5-tools           | hdf5                 | hdf5          | program h5dump
test | build | libcmocka-dev        | libcmocka-devel      | cmocka        | header cmocka.h
test | less  | python3              | python3              | python        | module sys
test | less  | python3-h5py         | python3-h5py         | h5py          | module h5py
test | less  | python3-numpy        | python3-numpy        | numpy         | module numpy
test | less  | python3-pytest       | python3-pytest       | pytest        | module pytest
test | less  | python3-xxhash       | python3-xxhash       | python-xxhash | module xxhash
test | less  | python3-jsonschema   | python3-jsonschema   | jsonschema    | module jsonschema
test | less  | python3-pytest-xdist | python3-pytest-xdist | pytest-xdist  | module xdist
test | less  | valgrind             | valgrind             | valgrind      | program valgrind
'

# Sets `apt`, `dnf`, `conda` to the names of what is missing, and `buildable`; for the tests it sets `python` first.
look() {
    local by without apt_name dnf_name conda_name there
    python='' apt='' dnf='' conda='' buildable=y
    [ "$goal" = demo ] || choose_python
    while IFS='|' read -r by without apt_name dnf_name conda_name there; do
        [[ -n $there && (${by% } = demo || $goal = test) ]] || continue
        # shellcheck disable=SC2086 # several words
        $there && continue
        apt+=" ${apt_name// /}" dnf+=" ${dnf_name// /}" conda+=" ${conda_name// /}"
        [[ $without = *less* ]] || buildable=''
    done <<< "$table"
}

# ---- bringing it ----------------------------------------------------------------------------------------------------

# If nobody can be asked for a password, sudo must fail and not ask.
root=()
[ "$(id -u)" = 0 ] || if [ -t 0 ]; then root=(sudo); else root=(sudo -n); fi
can_apt() {
    program apt-get || return
    [ ${#root[@]} = 0 ] || { program sudo && { [ -t 0 ] || sudo -n true 2> /dev/null; }; }
}
apt_get() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" > /dev/null; }
apt_install() { apt_get install -y --no-install-recommends "$@"; }

look
if [ -n "$apt" ] && [ "${DEPS:-1}" != 0 ] && can_apt; then
    echo "installing with apt (DEPS=0 prevents it):$apt"
    apt_get update || true
    # shellcheck disable=SC2086 # several words
    apt_install $apt || for name in $apt; do apt_install "$name" || true; done # not every release has each
    touch "$build/deps.mk"
    look
fi
if [ "$goal" = test ] && [ -z "$python" ] && [ -n "$buildable" ] && [ "${DEPS:-1}" != 0 ]; then
    make_venv
    look
fi

# ---- what is still missing ------------------------------------------------------------------------------------------

status=0
if [ "$goal" = test ] && [ -z "$python" ]; then
    echo "The end-to-end tests want a Python of 3.8 or later with $modules:" \
        "${PYTHON:+PYTHON=}${PYTHON:-no python3 here} is none" >&2
    [ "${DEPS:-1}" = 0 ] || status=1
fi
[ -n "$buildable" ] || status=1
if [ "$status" = 1 ]; then
    cat >&2 << END
These are missing and were not installed here$([ "${DEPS:-1}" != 0 ] || echo " (DEPS=0)"):
  apt        $apt
  dnf        $dnf
  conda      $conda
  modules     module load hdf5 python        (then HDF5_DIR=, and YAML_DIR= for a prefix with the others)
END
elif [ -n "$apt" ]; then
    echo "left out, being missing here:$apt"
fi
exit "$status"
