#!/usr/bin/env bash
# Runs tests of build/: scripts/test.sh [options and names of tests/run.py]. BUILD names another build
# folder, absolute or in this one.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian's own Python starts faster than a version manager's.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
command -v "$python" >/dev/null || { echo "test: there is no Python 3; scripts/install-deps.sh --tests installs it" >&2; exit 1; }
exec "$python" tests/run.py --build "${BUILD:-build}" "$@"
