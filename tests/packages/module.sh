#!/bin/bash
# From a release's tarball to `tilerun run` by a module, as a cluster has it: built, installed into a folder of its
# version, loaded by Lmod or Environment Modules, whichever is there (Debian's exclude each other), run and unloaded.
#     tests/packages/module.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$(command -v /usr/share/lmod/lmod/libexec/lmod || command -v modulecmd || true)
[ -n "$tool" ] || { echo "module: SKIPPED: it needs environment-modules or lmod"; exit 77; }
begin=$SECONDS
. tests/packages/source.sh

place=$scratch/apps/tilerun/$version
make -s CUDA=0 install PREFIX="$place"
mkdir -p "$scratch/modules/tilerun"
PREFIX=$place configs/packaging/fill.sh "$tarball" configs/packaging/modulefile > "$scratch/modules/tilerun/$version"
cd "$scratch"
export MODULEPATH=$scratch/modules
eval "$("$tool" bash load tilerun)"
[ "$(command -v tilerun)" = "$place/bin/tilerun" ]
tilerun run "$TILERUN_SHARE/configs/quickstart.yaml"
eval "$("$tool" bash unload tilerun)"
[ -z "${TILERUN_SHARE:-}" ] && [ "$(command -v tilerun || true)" != "$place/bin/tilerun" ]
echo "module: built, installed, loaded by $tool, run and unloaded in $((SECONDS - begin)) s"
