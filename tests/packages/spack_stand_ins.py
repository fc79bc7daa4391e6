"""Runs a Spack recipe without Spack, in a tree to build: `spack_stand_ins.py package.py TARBALL HDF5 PREFIX`."""

import hashlib
import subprocess
import sys
import types
from pathlib import Path

DIRECTIVES = ("license", "version", "depends_on", "conflicts", "variant", "maintainers")
declared = []


def make(*words):
    subprocess.run(["make", "-s", *words], check=True)


class MakefilePackage:
    pass


class CudaPackage:
    pass


class Spec(dict):
    """A package's own spec: every dependency is the system's."""

    def __init__(self, hdf5, *settings):
        super().__init__(hdf5=types.SimpleNamespace(prefix=hdf5))
        self.settings = settings
        self.variants = {"cuda_arch": types.SimpleNamespace(value=("80", "90"))}

    def __missing__(self, name):
        return types.SimpleNamespace(prefix="/usr")

    def satisfies(self, setting):
        return setting in self.settings


def load(path):
    """The recipe's class; what it declares is noted."""
    for name in DIRECTIVES:
        globals()[name] = lambda *values, name=name, **keys: declared.append((name, values, keys))
    here = {name: globals()[name] for name in (*DIRECTIVES, "make")}
    package = types.ModuleType("spack.package")
    vars(package).update(here)
    systems = "spack_repo.builtin.build_systems"
    modules = {"spack": types.ModuleType("spack"), "spack.package": package}
    for name in ("spack_repo", "spack_repo.builtin", systems, f"{systems}.cuda", f"{systems}.makefile"):
        modules[name] = types.ModuleType(name)
    modules[f"{systems}.cuda"].CudaPackage = CudaPackage
    modules[f"{systems}.makefile"].MakefilePackage = MakefilePackage
    sys.modules.update(modules)
    space = {}
    exec(compile(Path(path).read_text(), path, "exec"), space)
    return space["Tilerun"]


def main(path, tarball, hdf5, prefix):
    recipe = load(path)()
    version = next((values, keys) for name, values, keys in declared if name == "version")
    assert recipe.url.endswith(Path(tarball).name) and version[0][0] in recipe.url
    assert version[1]["sha256"] == hashlib.sha256(Path(tarball).read_bytes()).hexdigest()
    recipe.spec = Spec(hdf5, "+cuda")
    assert "CUDA_ARCHS=80 90" in recipe.words and "CUDA=0" not in recipe.words
    recipe.spec = Spec(hdf5)
    assert "CUDA=0" in recipe.words
    recipe.build(recipe.spec, prefix)
    recipe.install(recipe.spec, prefix)


if __name__ == "__main__":
    main(*sys.argv[1:])
