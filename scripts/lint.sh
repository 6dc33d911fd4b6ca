#!/usr/bin/env bash
# clang-tidy by the rules of .clang-tidy: scripts/lint.sh [FILE...], by default every C file that the build compiles.
# It reads the compile commands of a clang build in build/lint, so that each flag in them is one that clang knows.
# Nearly all of its time is the analyzer's, which walks along every path through each function. Unit tests go without it: CI
# runs each of them under AddressSanitizer and UBSan, and what they would do on a path that no run takes matters to nobody.
# LINT_ANALYZED=3 has it read one in three of the other files, drawn by TRIREME_TEST_SEED; all other checks read every file.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -G Ninja -S . -B build/lint -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find src tests -name '*.c' -not -path 'tests/fuzz/*' | sort)
fi

tidy() { # FILE
  local checks=()
  local drawn=$(($(cksum <<<"${1#"$PWD"/} ${TRIREME_TEST_SEED:-1}" | cut -d ' ' -f 1) % ${LINT_ANALYZED:-1}))
  case $drawn:${1#"$PWD"/} in 0:src/* | 0:tests/[!u]*) ;; *) checks=("--checks=-clang-analyzer-*") ;; esac
  clang-tidy --quiet -p build/lint "${checks[@]}" "$1"
}
export -f tidy
printf '%s\0' "${files[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -I FILE bash -c 'tidy "$1"' lint FILE 2> >(grep -Ev 'warnings? generated|^Suppressed' >&2)
echo "lint: ${#files[@]} files are clean$([ "${LINT_ANALYZED:-1}" = 1 ] || echo ", one in $LINT_ANALYZED of them by the analyzer")"
