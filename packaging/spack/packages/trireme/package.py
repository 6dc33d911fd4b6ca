# Not tried where it was written, which has no Spack: its keywords were compared with Spack's documentation, and its Python was
# compiled. Use: spack repo add packaging/spack; spack install trireme
from spack.package import *


class Trireme(CMakePackage):
    """Trains large language models over MPI, and says beforehand how fast and whether it fits."""

    homepage = "https://trireme.invalid"
    # The source that this file lies in: `spack dev-build trireme@main` or, with a place of your own, `git`.
    git = "https://trireme.invalid/trireme.git"

    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("mpi", default=True, description="Train; without it plan, simulate, validate and inspect alone")
    variant("library", default=True, description="libtrireme for other programs")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libyaml")
    depends_on("jansson@2.12:")
    depends_on("xxhash@0.8:")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("onednn", when="+mpi")
    depends_on("sqlite", when="+mpi")
    depends_on("libmicrohttpd@0.9.71:", when="+mpi")
    depends_on("netlib-lapack+lapacke", when="+mpi")
    for parts in ("+mpi", "+library"):
        depends_on("pcre2", when=parts)
        depends_on("utf8proc", when=parts)
        depends_on("zstd", when=parts)

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("TRIREME_WITHOUT_RUNNING", self.spec.satisfies("~mpi")),
            self.define_from_variant("TRIREME_LIBRARY", "library"),
            self.define("TRIREME_CONFIG_DIR", self.prefix.share.trireme.configs),
            self.define("BUILD_TESTING", False),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        trireme = Executable(self.prefix.bin.trireme)
        trireme("--version")
        trireme("plan", "--model", "gpt2-1.5b", "--cluster", "a100-node", "--devices", "4", "--global-batch", "64")
