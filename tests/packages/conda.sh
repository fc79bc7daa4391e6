#!/bin/bash
# From a release's tarball to `tilerun run` by the words of conda's recipe: rattler-build's parser, from the package
# index, renders it with and without CUDA, and the script for the CPU and the recipe's tests run with the system's
# libraries. What conda makes of the dependencies is not tested, since its channels are not to be had here.
#     tests/packages/conda.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
begin=$SECONDS
NO_BUILD=y
. tests/packages/source.sh
configs/packaging/fill.sh "$tarball" configs/packaging/conda.recipe > "$scratch/recipe.yaml"
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --only-binary :all: py-rattler-build
"$scratch/venv/bin/python" - "$scratch" << 'END'
import sys
from pathlib import Path
from rattler_build import Stage0Recipe, VariantConfig
scratch = Path(sys.argv[1])
compilers = {"c_compiler": ["gcc"], "cxx_compiler": ["gxx"], "cuda_compiler": ["cuda-nvcc"]}
made = {}
for cuda in ("None", "13.0"):
    variant = VariantConfig({"cuda_compiler_version": [cuda], **compilers})
    (rendered,) = Stage0Recipe.from_file(scratch / "recipe.yaml").render(variant)
    made[cuda] = rendered.recipe.to_dict()
assert "CUDA=0" in made["None"]["build"]["script"][0] and "CUDA=0" not in made["13.0"]["build"]["script"][0]
assert [name for name in made["13.0"]["requirements"]["build"] if name.startswith("cuda-nvcc")]
(scratch / "build").write_text("\n".join(made["None"]["build"]["script"]))
(scratch / "test").write_text("\n".join(made["None"]["tests"][0]["script"]))
END
export PREFIX=$scratch/prefix
system_prefix "$PREFIX"
sh -e "$scratch/build"
cd "$scratch"
PATH=$PREFIX/bin:$PATH sh -e "$scratch/test"
echo "conda: rendered, built by its words with the system's libraries, run in $((SECONDS - begin)) s"
