#!/usr/bin/env bash
# clang-tidy by the rules of .clang-tidy: scripts/lint.sh [FILE...], by default every C file that the build compiles.
# It reads the compile commands of a clang build in build/lint, so that each flag in them is one that clang knows.
# All of its time is the analyzer's, which walks along the paths through each function, 225000 states of it at most. In
# tests, which the sanitizers see run, it stops at a tenth of that: a fifth of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -G Ninja -S . -B build/lint -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find src tests -name '*.c' -not -path 'tests/fuzz/*' | sort)
fi

tidy() { # FILE
  local most=225000
  case $1 in tests/* | "$PWD"/tests/*) most=20000 ;; esac
  clang-tidy --quiet -p build/lint --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg="max-nodes=$most" "$1"
}
export -f tidy
printf '%s\0' "${files[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -I FILE bash -c 'tidy "$1"' lint FILE 2> >(grep -Ev 'warnings? generated|^Suppressed' >&2)
echo "lint: ${#files[@]} files are clean"
