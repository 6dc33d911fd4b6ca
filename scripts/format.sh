#!/usr/bin/env bash
# Lays out every C source with clang-format; --check only says what would change and fails if anything would.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run -Werror); fi
find src tests include examples -name '*.[ch]' -print0 | xargs -0 -r clang-format "${mode[@]}"
