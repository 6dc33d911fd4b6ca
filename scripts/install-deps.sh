#!/usr/bin/env bash
# Installs what building Trireme needs and this machine lacks.
#
#   scripts/install-deps.sh [--demo] [--tests] [--lint] [--fuzz] [--bench] [--soak] [--bundle] [--docs] [--slurm] [--full] [--both-mpis]
#
# Without a flag: what the program itself needs. Each flag adds the needs of `make demo`, `make test`, `make lint` and
# `make format`, `make fuzz`, `make bench`, `make soak`, `make bundle`, `make docs`, `make test-slurm`, `make test-full`; --both-mpis those of
# testing with Open MPI and with MPICH. On Debian and Ubuntu the missing packages come from apt; elsewhere they are listed and
# the script stops with status 1. A need counts as met when it is there, however it was installed; with nothing missing neither
# apt nor the network is touched.
set -euo pipefail

# need KIND PROBE DEBIAN_PACKAGE WHAT: one row of what we look for. KIND is command, header, library, file, python (a
# module of the system's Python) or include (one of that Python's headers). Optional needs are of kinds ending in `?`:
# where they cannot be had, what wants them says SKIPPED.
needs=()
need() { needs+=("$1|$2|$3|$4"); }

for flag in "" "$@"; do
  case "$flag" in
    "")
      need command cc                gcc            "a C17 compiler"
      need command cmake             cmake          "CMake 3.22 or newer"
      need command ninja             ninja-build    "Ninja"
      need command pkg-config        pkg-config     "pkg-config"
      need header  dnnl.h            libdnnl-dev    "oneDNN, with headers"
      need header  yaml.h            libyaml-dev    "libyaml, with headers"
      need header  jansson.h         libjansson-dev "jansson, with headers"
      need header  zstd.h            libzstd-dev    "zstd, with headers"
      need header  xxhash.h          libxxhash-dev  "xxHash, with headers"
      need header  utf8proc.h        libutf8proc-dev "utf8proc, with headers"
      need header  pcre2.h           libpcre2-dev   "PCRE2 (8 bit), with headers"
      need header  sqlite3.h         libsqlite3-dev "SQLite, with headers"
      need header  lapacke.h         liblapacke-dev "LAPACKE, with headers"
      need header? microhttpd.h      libmicrohttpd-dev "libmicrohttpd, with headers (trireme board)"
      # Any MPI will do; if there is none, Open MPI.
      need command mpicc             libopenmpi-dev "an MPI, with headers"
      need command mpiexec           openmpi-bin    "MPI's launcher"
      ;;
    --both-mpis)
      need command mpicc.openmpi     libopenmpi-dev "Open MPI, with headers"
      need command mpiexec.openmpi   openmpi-bin    "Open MPI's launcher"
      need command mpicc.mpich       libmpich-dev   "MPICH, with headers"
      need command mpiexec.mpich     mpich          "MPICH's launcher"
      need command? ccache           ccache         "ccache (what both builds have in common is compiled once)"
      ;;
    --demo)
      need file    /usr/share/wordnet/data.noun wordnet-base "WordNet's dictionary files"
      ;;
    --tests)
      need header  cmocka.h          libcmocka-dev   "cmocka, with headers"
      need command python3           python3         "Python 3"
      need command ip                iproute2        "ip, for a test with two hosts"
      need command? chromium         chromium        "Chromium, which shows pages without a screen"
      need command? man              man-db          "man, for the manual pages"
      need command? groff            groff-base      "groff, which man sets them with"
      need command? shellcheck       shellcheck      "shellcheck, which reads the batch scripts"
      need command? mandoc           mandoc          "mandoc, which checks them"
      need command? g++              g++             "a C++ compiler, for the library's headers"
      need command? lua5.4           lua5.4          "Lua, for a module file"
      need command? tclsh            tcl             "Tcl, for a module file"
      need command? zsh              zsh             "zsh, for its completion"
      need command? fish             fish            "fish, for its completion"
      need python? ensurepip         python3-venv    "Python's venv"
      need python? pytest            python3-pytest  "pytest"
      need python? numpy             python3-numpy   "NumPy"
      need python? torch             python3-torch   "PyTorch"
      # Compiles GPU kernels for AMD's chips; a ROCm of AMD's own serves as well.
      [ -e /opt/rocm ] || need file? /usr/include/hip/hiprtc.h libamdhip64-dev "AMD's run-time compiler (hipRTC), with headers"
      ;;
    --lint)
      need command clang-format      clang-format    "clang-format"
      need command clang-tidy        clang-tidy      "clang-tidy"
      need command clang             clang           "clang"
      ;;
    --fuzz)
      need command clang             clang           "clang with libFuzzer"
      need omp     clang             libomp-dev      "OpenMP for clang"
      need command llvm-symbolizer   llvm            "LLVM's symbolizer"
      ;;
    --bench)
      need command  python3          python3         "Python 3"
      need python?  ensurepip        python3-venv    "Python's venv"
      need include? Python.h         python3-dev     "Python's headers (torch.compile)"
      need command? g++              g++             "a C++ compiler (torch.compile)"
      need library? tcmalloc_minimal libgoogle-perftools-dev "tcmalloc (PyTorch, tuned)"
      need file?    /usr/share/wordnet/data.noun wordnet-base "WordNet's dictionary files (real text)"
      ;;
    --bundle)
      need command  patchelf         patchelf        "patchelf (libraries that find each other in a folder)"
      need command  strip            binutils        "binutils"
      need command  mpicc.mpich      libmpich-dev    "MPICH, with headers"
      need command  mpiexec.hydra    mpich           "MPICH's launcher"
      ;;
    --docs)
      need command  python3          python3         "Python 3"
      need python   sphinx           python3-sphinx  "Sphinx"
      need python   myst_parser      python3-myst-parser "MyST, Sphinx's reader of Markdown"
      need python   breathe          python3-breathe "Breathe, Sphinx's reader of what Doxygen writes"
      need python   sphinx_rtd_theme python3-sphinx-rtd-theme "the site's theme"
      need command  doxygen          doxygen         "Doxygen"
      ;;
    --slurm)
      need command? slurmctld        slurm-wlm       "Slurm: controller, node daemon, commands"
      need command? munged           munge           "MUNGE, by which its daemons know one another"
      ;;
    --full)
      need command? promtool         prometheus      "Prometheus, which reads the board's metrics"
      ;;
    --soak)
      need command  python3          python3         "Python 3"
      need file?    "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" libfaketime "libfaketime (clocks that jump)"
      ;;
    *)
      echo "install-deps: \`$flag\` is not a flag; there are --demo, --tests, --lint, --fuzz, --bench, --soak, --bundle, --docs, --slurm and --both-mpis" >&2
      exit 2
      ;;
  esac
done

# System's Python and not one that a user has in front of it: apt's modules belong to it.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

met() {
  case "$1" in
    command*) command -v "$2" >/dev/null ;;
    # PCRE2's header refuses to be read before its width is chosen.
    header*) echo "#include <$2>" | cc -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1 ;;
    library*) cc -shared -o /dev/null "-l$2" >/dev/null 2>&1 ;;
    omp) echo '#include <omp.h>' | clang -fopenmp -E - >/dev/null 2>&1 ;;
    file*) [ -e "$2" ] ;;
    include*) [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/$2" ] ;; # of Python
    python*) "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$2') is None)" >/dev/null 2>&1 ;;
  esac
}

missing=() optional=() described=()
for row in "${needs[@]}"; do
  IFS='|' read -r kind probe package what <<<"$row"
  met "$kind" "$probe" && continue
  described+=("$what (Debian: $package)")
  if [ "${kind%\?}" = "$kind" ]; then missing+=("$package"); else optional+=("$package"); fi
done
[ ${#described[@]} -gt 0 ] || exit 0

list_and_stop() {
  { echo "install-deps: $1 Please install:"; printf '  %s\n' "${described[@]}"; } >&2
  [ ${#missing[@]} -gt 0 ] || exit 0 # what is optional does not stop the script
  exit 1
}

command -v apt-get >/dev/null || list_and_stop "this system has no apt, so its packages are yours to install."
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || list_and_stop "not run as root, and there is no sudo."
  as_root=(sudo)
fi

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

echo "install-deps: installing ${missing[*]:-} ${optional[*]:-}" >&2
apt_get update >&2 || echo "install-deps: apt-get update failed; trying with the lists that are here" >&2
if [ ${#missing[@]} -gt 0 ]; then
  apt_get install -y --no-install-recommends "${missing[@]}" >&2 || list_and_stop "apt-get could not install everything."
fi
# One at a time: an Ubuntu without python3-torch still gets pytest.
for package in "${optional[@]}"; do
  apt_get install -y --no-install-recommends "$package" >&2 ||
    echo "install-deps: SKIPPED: $package cannot be had; what needs it will say SKIPPED" >&2
done
