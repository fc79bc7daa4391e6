#!/bin/bash
# From sources to `tilerun run` by `pip install` of a wheel: built with its libraries, checked by auditwheel, installed
# into a new environment beside h5py of the package index, which brings another HDF5; then the environment is moved.
#     tests/packages/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
for need in pip3 objdump; do
    command -v $need > /dev/null || { echo "wheel: SKIPPED: it needs $need"; exit 77; }
done
begin=$SECONDS
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

make -s BUILD=build-bundle CUDA="${CUDA:-0}" BUNDLE=1
make -s BUILD=build-bundle CUDA="${CUDA:-0}" BUNDLE=1 install PREFIX="$scratch/tree"
wheel=$(python3 configs/packaging/wheel.py "$scratch/tree" "$scratch")
python3 -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install -q auditwheel
"$scratch/tools/bin/auditwheel" show "$wheel" > "$scratch/audit"
grep -q 'external versioned symbols\|consistent with' "$scratch/audit" || { cat "$scratch/audit"; exit 1; }

python3 -m venv "$scratch/made"
"$scratch/made/bin/pip" install -q --only-binary :all: "$wheel" h5py
mv "$scratch/made" "$scratch/venv"
rm -rf "$scratch/tree" "$scratch/tools"
cd "$scratch"
# Nothing but the C library may come from the system.
own='venv/bin/../lib/tilerun/|/lib(c|m|dl|rt|pthread)\.so\.'
if ldd venv/bin/tilerun | grep ' => /' | grep -vE "$own"; then exit 1; fi
PATH=$scratch/venv/bin:$PATH venv/bin/python3 - << 'END'
import json, subprocess, sys
import h5py, numpy
x = numpy.arange(12, dtype="f4").reshape(3, 4)
with h5py.File("x.h5", "w") as file:
    file.create_dataset("x", data=x, compression="gzip", shuffle=True, chunks=(2, 2))
    file.flush()
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if "hdf5" in line}
job = {"version": 1, "inputs": {"x": {"file": "x.h5", "dataset": "/x"}},
       "operations": [{"id": "y", "op": "matmul", "inputs": ["x", "x"], "transpose_b": True}]}
open("job.yaml", "w").write(json.dumps(job))
subprocess.run(["tilerun", "run", "job.yaml", "-o", "y.h5"], check=True)
with h5py.File("y.h5") as file:
    assert (file["outputs/y"][:] == x @ x.T).all()
print("h5py's HDF5", h5py.version.hdf5_version, *loaded)
END
venv/bin/tilerun run venv/share/tilerun/configs/quickstart.yaml
echo "wheel: $(basename "$wheel"), $(stat -c %s "$wheel") bytes, built, installed and run in $((SECONDS - begin)) s"
