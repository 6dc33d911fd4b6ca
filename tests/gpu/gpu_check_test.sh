#!/usr/bin/env bash
# scripts/gpu-check.sh, tried on the emulator: gpu_check_test.sh SOURCE TRIREME TOOLS. What it runs at full size on a GPU runs
# here small; the report must say so of each step, and be JSON.
set -euo pipefail
source=$1 folder=$(mktemp -d)
export TRIREME=$2 TRIREME_TOOLS=$3
trap 'rm -rf "$folder"' EXIT
steps=versions,data,bits,speeds,training,facts,sanitizer
"$source/scripts/gpu-check.sh" "$folder/out" --device emulated --quick --only $steps
python3 - "$folder/out/report.json" $steps <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
states = {step["step"]: step["state"] for step in report["steps"]}
wanted = {name: "SKIPPED" if name in ("facts", "sanitizer") else "ok" for name in sys.argv[2].split(",")}
assert states == wanted, f"{states}, wanted {wanted}"
rates = {row["what"]: row["rate"] for row in report["speeds"]}
assert rates["add"] > 0 and any(what.startswith("attention_backward") for what in rates), sorted(rates)
PYTHON
grep -q 'equal losses, weights and moments' "$folder/out/report.txt"
# A step that fails is said, the next ones run, and the status tells.
if "$source/scripts/gpu-check.sh" "$folder/none" --device gpu:77 --quick --only data,bits >"$folder/said" 2>&1; then exit 1; fi
grep -q '^bits *FAILED .*GPU' "$folder/said"
