#!/bin/bash
# From a release's tarball to `tilerun run` by EasyBuild: the easyconfig is checked for style, then built and its module
# loaded. The toolchain and the dependencies, which would have to be compiled from sources that are not to be had here,
# are replaced by the system's.
#     tests/packages/easybuild.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$(command -v /usr/share/lmod/lmod/libexec/lmod || command -v modulecmd || true)
[ -n "$tool" ] || { echo "easybuild: SKIPPED: it needs environment-modules or lmod"; exit 77; }
begin=$SECONDS
NO_BUILD=y
. tests/packages/source.sh

recipe=$scratch/tilerun-$version-gompi-2023a.eb
configs/packaging/fill.sh "$tarball" configs/packaging/easybuild.eb > "$recipe"
cd "$scratch"
python3 -m venv venv
venv/bin/pip install -q easybuild-framework easybuild-easyblocks pycodestyle 2>&1
export EASYBUILD_PREFIX=$scratch/eb EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES=1
case $tool in
    *lmod) export LMOD_CMD=$tool EASYBUILD_MODULES_TOOL=Lmod ;;
    *) export EASYBUILD_MODULES_TOOL=EnvironmentModules EASYBUILD_MODULE_SYNTAX=Tcl ;;
esac
PATH=$scratch/venv/bin:${tool%/*}:$PATH
eb --check-style "$recipe"
sed 's/^toolchain = .*/toolchain = SYSTEM/' "$recipe" > "tilerun-$version.eb"
eb --filter-deps=HDF5,libyaml,xxHash,libdeflate,OpenSSL,pkgconf "tilerun-$version.eb"
export MODULEPATH=$scratch/eb/modules/all
eval "$("$tool" bash load "tilerun/$version")"
tilerun run "$EBROOTTILERUN/share/tilerun/configs/quickstart.yaml"
echo "easybuild: checked, built with the system's libraries, loaded and run in $((SECONDS - begin)) s"
