#!/usr/bin/env bash
# Makes the Python environment of the tests, once, and says SKIPPED loudly where it cannot be had (the tests then skip).
#
#   scripts/python-env.sh          build/venv       Debian's PyTorch and pytest, and tests/requirements.txt from PyPI
#   scripts/python-env.sh --full   build/venv-full  tests/full/requirements.txt from PyPI alone (gigabytes)
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/venv
requirements=tests/requirements.txt
options=(--system-site-packages)
if [ "${1:-}" = --full ]; then
  folder=build/venv-full
  requirements=tests/full/requirements.txt
  options=()
fi

stamp=$folder/.installed
if [ -f "$stamp" ] && cmp -s "$requirements" "$stamp"; then exit 0; fi

# Debian's own Python is the one that Debian's PyTorch was built for.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

skipped() {
  echo "python-env: SKIPPED: $1; Python tests that need $(grep -v '^#' "$requirements" | tr '\n' ' ')will say SKIPPED" >&2
  exit 0
}

"$python" -m venv "${options[@]}" "$folder" >&2 || skipped "cannot make $folder with $python -m venv"
echo "python-env: installing $requirements into $folder" >&2
"$folder/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --retries 2 --timeout 30 \
  --requirement "$requirements" </dev/null >&2 || skipped "pip cannot install $requirements"
cp "$requirements" "$stamp"
