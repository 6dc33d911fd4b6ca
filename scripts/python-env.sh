#!/usr/bin/env bash
# Makes the Python environment of the tests, once, and says SKIPPED loudly where it cannot be had (the tests then skip).
#
#   scripts/python-env.sh          build/venv       Debian's PyTorch and pytest, and tests/requirements.txt from PyPI; NVIDIA's
#                                  run-time compiler too, where the machine has none: tests compile the GPUs' kernels with it
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

# A compiler that comes with no toolkit; where it cannot be had, the tests that compile say SKIPPED.
get_compiler() {
  local folders=("${CUDA_HOME:-/usr/local/cuda}"/lib64 "$folder"/lib/python3*/site-packages/nvidia/*/lib)
  if [ "$folder" != build/venv ] || { ldconfig -p 2>/dev/null || true; } | grep -q 'libnvrtc\.so\.1[23]'; then return; fi
  if compgen -G "${folders[0]}/libnvrtc.so.1[23]" >/dev/null || compgen -G "${folders[1]}/libnvrtc.so.1[23]" >/dev/null; then return; fi
  echo "python-env: installing nvidia-cuda-nvrtc into $folder" >&2
  "$folder/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --retries 2 --timeout 30 \
    nvidia-cuda-nvrtc </dev/null >&2 || echo "python-env: SKIPPED: pip cannot install nvidia-cuda-nvrtc" >&2
}

stamp=$folder/.installed
if [ -f "$stamp" ] && cmp -s "$requirements" "$stamp"; then get_compiler; exit 0; fi

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
get_compiler
