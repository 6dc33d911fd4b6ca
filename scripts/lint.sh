#!/usr/bin/env bash
# clang-tidy by the rules of .clang-tidy: scripts/lint.sh [FILE...], by default every C file that the build compiles.
# It reads the compile commands of a clang build in build/lint, so that each flag in them is one that clang knows.
# All of its time is the analyzer's, which walks through the paths of each function. What is in src it follows into the
# functions that are called; in tests, which the sanitizers see run, it stays in the function: a sixth of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -G Ninja -S . -B build/lint -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find src tests -name '*.c' -not -path 'tests/fuzz/*' | sort)
fi

tidy() { # FILE
  local depth=deep
  case $1 in tests/* | "$PWD"/tests/*) depth=shallow ;; esac
  clang-tidy --quiet -p build/lint --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg="mode=$depth" "$1"
}
export -f tidy
printf '%s\0' "${files[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -I FILE bash -c 'tidy "$1"' lint FILE 2> >(grep -Ev 'warnings? generated|^Suppressed' >&2)
echo "lint: ${#files[@]} files are clean"
