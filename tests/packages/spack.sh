#!/bin/bash
# From a release's tarball to `tilerun run` by the words of Spack's recipe. Spack itself is not in a package registry,
# so the recipe runs against stand-ins for Spack's classes: its directives are read, and make gets its words with the
# system's libraries. What Spack makes of the dependencies is not tested.
#     tests/packages/spack.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
begin=$SECONDS
stand_ins=$PWD/tests/packages/spack_stand_ins.py
NO_BUILD=y
. tests/packages/source.sh
configs/packaging/fill.sh "$tarball" configs/packaging/spack.py > "$scratch/package.py"
system_prefix "$scratch/system"
python3 "$stand_ins" "$scratch/package.py" "$tarball" "$scratch/system" "$scratch/prefix"
"$scratch/prefix/bin/tilerun" run "$scratch/prefix/share/tilerun/configs/quickstart.yaml" -o "$scratch/out.h5"
echo "spack: recipe read, built by its words with the system's libraries, run in $((SECONDS - begin)) s"
