#!/bin/bash
# From a release's tarball to `tilerun run` by an Apptainer image, whose definition makes a bare Debian and builds in
# it.
#     tests/packages/apptainer.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
for need in apptainer debootstrap; do
    command -v $need > /dev/null || { echo "apptainer: SKIPPED: it needs $need (not in Debian 12 and 13)"; exit 77; }
done
begin=$SECONDS
NO_BUILD=y
. tests/packages/source.sh
configs/packaging/fill.sh "$tarball" configs/packaging/apptainer.def > "$scratch/tilerun.def"
cd "$scratch"
apptainer build --sandbox tilerun.box tilerun.def
apptainer test tilerun.box
apptainer run tilerun.box run tilerun.box/usr/local/share/tilerun/configs/quickstart.yaml -o out.h5
echo "apptainer: built, tested and run in $((SECONDS - begin)) s"
