#!/usr/bin/env bash
# Runs the tests of build/ through CTest, and says at the end what was skipped, also inside tests that passed:
# scripts/test.sh [CTest options]. BUILD names another build folder.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
# Idle OpenMP threads that spin would starve the tests beside them.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

ctest --test-dir "$build" --output-on-failure --parallel "${JOBS:-$(nproc)}" "$@"
status=$?
# cmocka and tests/run_pytest.py write such a line for each test that could not run here.
log=$build/Testing/Temporary/LastTest.log
if [ -e "$log" ] && grep -qE '^(\[ +)?SKIPPED' "$log"; then
  echo
  echo "Some tests could not run on this machine:"
  grep -E '^(\[ +)?SKIPPED' "$log" | sort -u | sed 's/^/  /'
fi
exit $status
