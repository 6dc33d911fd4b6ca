#!/usr/bin/env bash
# Runs each fuzzer (tests/fuzz/fuzz_NAME.c) for SECONDS: scripts/fuzz.sh [SECONDS] [NAME...].
# Inputs that reached new code are kept in build/fuzz/corpus/NAME for the next run and start from tests/fuzz/corpus/NAME
# and tests/fuzz/seeds/NAME where there is one, with the words of tests/fuzz/fuzz_NAME.dict; an input that breaks
# something is left in build/fuzz/ under the name that libFuzzer prints.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
shift || true
cmake --preset asan -DTRIREME_WERROR=ON >/dev/null
cmake --build --preset asan --parallel "${JOBS:-$(nproc)}" --target fuzzers

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    [ -e "$source" ] || { echo "fuzz: SKIPPED: there are no fuzzers in tests/fuzz"; exit 0; }
    name=$(basename "$source" .c)
    names+=("${name#fuzz_}")
  done
fi

# fuzz_one SECONDS NAME: a fuzzer's log is long and dull unless it found something.
fuzz_one() {
  local seconds=$1 name=$2 seeds=()
  local corpus=build/fuzz/corpus/$name log=build/fuzz/$name.log
  mkdir -p "$corpus"
  for folder in corpus seeds; do
    if [ -d "tests/fuzz/$folder/$name" ]; then seeds+=("tests/fuzz/$folder/$name"); fi
  done
  local words=tests/fuzz/fuzz_$name.dict
  if [ -f "$words" ]; then seeds+=("-dict=$words"); fi
  if build/asan/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -close_fd_mask=3 \
    -artifact_prefix="build/fuzz/$name-" -print_final_stats=1 "$corpus" "${seeds[@]}" </dev/null >"$log" 2>&1; then
    printf 'fuzz: %s for %s s\n%s\n' "$name" "$seconds" "$(grep -E 'number_of_executed_units|new_units_added' "$log" || true)"
  else
    printf '%s\nfuzz: FAILED: %s (log in %s)\n' "$(tail -n 60 "$log")" "$name" "$log" >&2
    return 1
  fi
}
export -f fuzz_one

# One to a core.
printf '%s\n' "${names[@]}" | xargs -P "${JOBS:-$(nproc)}" -I NAME bash -c 'fuzz_one "$1" "$2"' fuzz "$seconds" NAME
