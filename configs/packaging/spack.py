# Spack: `mkdir -p REPO/packages/tilerun`, write this there as package.py by fill.sh, and `spack install tilerun +cuda
# cuda_arch=90`. The compilers that Spack wraps find the dependencies.
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Tilerun(MakefilePackage, CudaPackage):
    """Batch jobs of matrix operations on GPUs: a YAML job file to verified and timed results in HDF5."""

    homepage = "@URL@"
    url = "@URL@/tilerun-@VERSION@.tar.gz"

    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake@4.3:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hdf5@1.10: ~mpi")
    depends_on("libyaml")
    depends_on("xxhash@0.8:")
    depends_on("openssl@1.1.1:")
    depends_on("libdeflate")
    depends_on("zlib-api")
    depends_on("liblzf")
    depends_on("cuda@12:", when="+cuda")

    conflicts("cuda_arch=none", when="+cuda", msg="say cuda_arch=80 or that of your GPUs")
    for arch in "10 11 12 13 20 21 30 32 35 37 50 52 53 60 61 62 70 72 75".split():
        conflicts(f"cuda_arch={arch}", msg="the kernels need compute capability 8.0 or later")

    @property
    def words(self):
        words = [f"{name}_DIR={self.spec[of].prefix}" for name, of in (("HDF5", "hdf5"), ("YAML", "libyaml"))]
        words += ["DEFLATE=1", "LZF=1"]
        if not self.spec.satisfies("+cuda"):
            return words + ["CUDA=0"]
        archs = " ".join(self.spec.variants["cuda_arch"].value)
        return words + [f"CUDA_HOME={self.spec['cuda'].prefix}", f"CUDA_ARCHS={archs}"]

    def build(self, spec, prefix):
        make(*self.words)

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")
