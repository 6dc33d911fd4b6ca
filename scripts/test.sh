#!/usr/bin/env bash
# Runs the tests of build/ through CTest, and says at the end what was skipped, also inside tests that passed:
# scripts/test.sh [CTest options]. BUILD names another build folder. Of long lists of cases a share is run, drawn by
# TRIREME_TEST_SEED (another one each time, which is printed); TRIREME_LAYOUTS=all has them all.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
# Idle OpenMP threads that spin would starve the tests beside them.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

export TRIREME_TEST_SEED="${TRIREME_TEST_SEED:-$RANDOM}"
say_seed() { echo "tests: cases drawn by TRIREME_TEST_SEED=$TRIREME_TEST_SEED; TRIREME_LAYOUTS=all runs all of them"; }
if [ "${TRIREME_LAYOUTS:-}" = all ]; then say_seed() { echo "tests: all cases"; }; fi

# Many tests wait for most of their time, for jobs that start and die: half as many again as there are cores keep these busy.
cores=${JOBS:-$(nproc)}
say_seed
ctest --test-dir "$build" --output-on-failure --parallel $((cores + (cores + 1) / 2)) "$@"
status=$?
say_seed
# cmocka and tests/run_pytest.py write such a line for each test that could not run here.
log=$build/Testing/Temporary/LastTest.log
if [ -e "$log" ] && grep -qE '^(\[ +)?SKIPPED' "$log"; then
  echo
  echo "Some tests could not run on this machine:"
  grep -E '^(\[ +)?SKIPPED' "$log" | sort -u | sed 's/^/  /'
fi
exit $status
