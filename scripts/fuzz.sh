#!/usr/bin/env bash
# Runs each fuzzer (tests/fuzz/fuzz_NAME.c) for SECONDS: scripts/fuzz.sh [SECONDS] [NAME...].
# Inputs that reached new code are kept in build/fuzz/corpus/NAME for the next run and start from tests/fuzz/corpus/NAME
# where there is one; an input that breaks something is left in build/fuzz/ under the name that libFuzzer prints.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
shift || true
cmake --preset fuzz -DTRIREME_WERROR=ON >/dev/null
cmake --build --preset fuzz --parallel "${JOBS:-$(nproc)}"

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    [ -e "$source" ] || { echo "fuzz: SKIPPED: there are no fuzzers in tests/fuzz"; exit 0; }
    name=$(basename "$source" .c)
    names+=("${name#fuzz_}")
  done
fi

failed=()
for name in "${names[@]}"; do
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=()
  if [ -d "tests/fuzz/corpus/$name" ]; then seeds=("tests/fuzz/corpus/$name"); fi
  echo "fuzz: $name for $seconds s"
  # A fuzzer's log is long and dull unless it found something.
  if build/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -close_fd_mask=3 \
    -artifact_prefix="build/fuzz/$name-" -print_final_stats=1 "$corpus" "${seeds[@]}" \
    </dev/null >"build/fuzz/$name.log" 2>&1; then
    grep -E 'number_of_executed_units|new_units_added' "build/fuzz/$name.log" || true
  else
    failed+=("$name")
    tail -n 60 "build/fuzz/$name.log"
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: FAILED: ${failed[*]} (logs in build/fuzz/NAME.log)" >&2
  exit 1
fi
