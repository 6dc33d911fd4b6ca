#!/usr/bin/env bash
# What has threads, under ThreadSanitizer: scripts/tsan.sh [options of tests/run.py]. Built by clang with LLVM's OpenMP, whose tool
# Archer tells the sanitizer of OpenMP's barriers and tasks; of gcc's OpenMP it knows nothing, and each loop would be a
# report. Libraries that were built without the sanitizer (MPI's, oneDNN) are not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset tsan -DTRIREME_WERROR=ON >/dev/null
mapfile -t units < <(BUILD=build/tsan scripts/test.sh --list threads | sed -n 's,^unit/,,p')
cmake --build --preset tsan --parallel "${JOBS:-$(nproc)}" --target trireme "${units[@]}"

library=$(clang -print-resource-dir)/../../libarcher.so
[ -e "$library" ] || { echo "tsan: clang has no libarcher.so; scripts/install-deps.sh --fuzz installs libomp-dev" >&2; exit 1; }
export OMP_TOOL_LIBRARIES=$library OMP_NUM_THREADS=2
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 allocator_may_return_null=1 exitcode=66${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
BUILD=build/tsan scripts/test.sh "$@" threads
