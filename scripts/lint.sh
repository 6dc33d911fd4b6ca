#!/usr/bin/env bash
# clang-tidy by the rules of .clang-tidy: scripts/lint.sh [FILE...], by default every C file that the build compiles.
# It reads the compile commands of a clang build in build/lint, so that each flag in them is one that clang knows.
# Nearly all of its time is the analyzer's, which walks along every path through each function. Unit tests go without it: CI
# runs them under AddressSanitizer and UBSan, and what they would do on a path that no run takes does not matter.
# LINT_SHARE=N reads the files that have changed (tests/runner/changes.py) and one in N of the others: any N consecutive numbers
# in TRIREME_TEST_SEED read all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -G Ninja -S . -B build/lint -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >/dev/null
files=("$@")
share=${LINT_SHARE:-1}
if [ ${#files[@]} -eq 0 ]; then
  changed=$(python3 tests/runner/changes.py)
  while read -r file; do
    place=$(cksum <<<"$file" | cut -d ' ' -f 1)
    if [ $(((place + ${TRIREME_TEST_SEED:-0}) % share)) -eq 0 ] || grep -qxF "$file" <<<"$changed"; then files+=("$file"); fi
  done < <(find src tests -name '*.c' -not -path 'tests/fuzz/*' | sort)
fi

tidy() { # FILE
  local checks=()
  case ${1#"$PWD"/} in src/* | tests/[!u]*) ;; *) checks=("--checks=-clang-analyzer-*") ;; esac
  clang-tidy --quiet -p build/lint "${checks[@]}" "$1"
}
export -f tidy
printf '%s\0' "${files[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -I FILE bash -c 'tidy "$1"' lint FILE 2> >(grep -Ev 'warnings? generated|^Suppressed' >&2)
echo "lint: ${#files[@]} files are clean$([ "$share" = 1 ] || echo ", those that have changed and one in $share of the others")"
