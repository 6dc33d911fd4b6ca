#!/usr/bin/env bash
# clang-tidy by the rules of .clang-tidy: scripts/lint.sh [FILE...], by default every C file that the build compiles.
# It reads the compile commands of a clang build in build/lint, so that each flag in them is one that clang knows.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -G Ninja -S . -B build/lint -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find src tests -name '*.c' -not -path 'tests/fuzz/*' | sort)
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy --quiet -p build/lint 2> >(grep -Ev 'warnings? generated|^Suppressed' >&2)
echo "lint: ${#files[@]} files are clean"
