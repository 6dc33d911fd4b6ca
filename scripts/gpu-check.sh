#!/usr/bin/env bash
# Everything that only a GPU can prove, in under eight minutes on one machine.
#
#   scripts/gpu-check.sh FOLDER [--device gpu] [--quick] [--only STEP,STEP...]
#
# Runs from a bundle (scripts/bundle.sh) or from the source tree. FOLDER gets report.txt, a page to read, report.json, and
# what each step printed in STEP.log. A step that fails is said and the next one begins; the status is 1 if one failed. Each
# has its own time; nothing is waited for longer. --device emulated with --quick tries the script itself, without a GPU, by
# the programs that have this device (make build-tests).
#
#   versions   the machine, its GPUs, driver, libraries               doctor
#   kernels    every kernel beside the reference device               kernel_check
#   losses     20 steps of GPT-2 and Llama beside the CPU's           train, fp64, fp32 and bf16
#   ranks      two ranks on one GPU: the losses of one                train -n 2, four layouts
#   bits       two runs of the same file: equal losses and weights    train, twice
#   sanitizer  out-of-bounds accesses, races, uninitialised reads     compute-sanitizer, where it works
#   speeds     products, attention, kernels over elements and rows    kernel_speed
#   training   tokens a second of GPT-2 124M and 1.5B                 train; beside torch.compile where PyTorch is
#   facts      the chip as lines of a cluster file
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

folder= device=gpu quick= only=
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=$2; shift 2 ;;
    --quick) quick=--quick; shift ;;
    --only) only=,$2,; shift 2 ;;
    -*) echo "gpu-check: $1 is not an option; there are --device, --quick and --only" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done
[ -n "$folder" ] || { echo "gpu-check: say which folder gets the report: scripts/gpu-check.sh FOLDER" >&2; exit 2; }

for_tests= # what the programs with the devices for tests are called by
case $device in emulated* | guarded*) for_tests=-test ;; esac
if [ -x "$here/libexec/trireme" ]; then # a bundle
  trireme=$here/bin/trireme tools=$here/bin text=$here/scripts/text.txt
else
  trireme=${TRIREME:-$here/build/trireme$for_tests} tools=${TRIREME_TOOLS:-$here/build/tools} text=
fi
[ -x "$trireme" ] || { echo "gpu-check: there is no program at $trireme; build it, or set TRIREME" >&2; exit 2; }
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
rm -rf "${folder:?}"/{*.log,*.json,report.txt,runs,data}
mkdir -p "$folder/runs" "$folder/data"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# ---- steps ---------------------------------------------------------------------------------------------------------------

results=() failed=0 began=$SECONDS
note() { printf '%s\n' "$*" | tee -a "$folder/report.txt"; }
result() { results+=("$1|$2|$3|$4"); } # STEP STATE SECONDS WORDS

# step NAME SECONDS FUNCTION: the function's output is the step's log; its last line is what the report says of it.
step() {
  local name=$1 most=$2 begin=$SECONDS state=ok words
  if [ -n "$only" ] && [[ $only != *,$name,* ]]; then return; fi
  export -f "$3"
  timeout -k 10 "$most" bash -c "set -uo pipefail; $3" >"$folder/$name.log" 2>&1 </dev/null
  local status=$?
  words=$(tail -n 1 "$folder/$name.log")
  case $status in
    0) ;;
    77) state=SKIPPED ;;
    124 | 137) state=FAILED words="not done in $most s" failed=1 ;;
    *) state=FAILED failed=1 ;;
  esac
  result "$name" "$state" $((SECONDS - begin)) "$words"
  note "$(printf '%-10s %-8s %4d s  %s' "$name" "$state" $((SECONDS - begin)) "$words")"
}

# ---- what runs are made of -----------------------------------------------------------------------------------------------

# run NAME MODEL DEVICE PRECISION STEPS SETTINGS...: trains in runs/NAME; further words go to the command line.
run() {
  local name=$1 model=$2 on=$3 precision=$4 steps=$5
  shift 5
  rm -rf "$folder/runs/$name"
  {
    echo "output: $folder/runs/$name"
    echo "precision: $precision"
    echo "device: $on"
    echo "data: {train: $folder/data/text/train}"
    echo "model: $model"
    echo "optimizer: {steps: $steps, warmup: 2, lr: 0.001, global_batch: 4}"
  } >"$folder/runs/$name.yaml"
  "$trireme" train "$folder/runs/$name.yaml" "$@"
}

losses() { sed -n 's/.*"loss": *\([^,}]*\).*/\1/p' "$folder/runs/$1/metrics.jsonl"; }

# near NAME NAME TOLERANCE: the largest relative difference of two runs' losses; fails above the tolerance.
near() {
  paste <(losses "$1") <(losses "$2") | awk -v tolerance="$3" -v a="$1" -v b="$2" '
    NF != 2 { bad = 1 }
    { d = $1 - $2; if (d < 0) d = -d; m = $2 < 0 ? -$2 : $2; if (m > 0) d /= m; if (!(d <= most)) most = d; n++ }
    END {
      printf "%s beside %s: %d steps, losses differ by %.2g at most (%s allowed)\n", a, b, n, most, tolerance
      exit n == 0 || bad || !(most <= tolerance)
    }'
}
export -f run losses near
export folder device quick trireme tools for_tests here text

gpt2='{family: gpt2, num_layers: 2, hidden_size: 64, num_heads: 4, vocab_size: 512, max_sequence: 32, dropout: 0.1}'
llama='{family: llama, num_layers: 2, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 96, vocab_size: 512, max_sequence: 32}'
steps=20
[ -z "$quick" ] || steps=3
export gpt2 llama steps

# ---- the steps -----------------------------------------------------------------------------------------------------------

versions() {
  date -u +%FT%TZ; uname -srm; (ldd --version 2>&1 | sed -n 1p); nproc
  command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit,ecc.mode.current --format=csv
  command -v rocm-smi >/dev/null && rocm-smi --showproductname --showdriverversion
  "$trireme" --version
  "$trireme" doctor
  local status=$?
  "$trireme" --version
  return $status
}

data() {
  if [ -z "$text" ]; then
    text=$folder/data/text.txt
    cat "$here"/docs/*.md "$here"/README.md >"$text"
  fi
  "$trireme" prepare "$text" --tokenizer train:512 --out "$folder/data/text" --validation 0.01 && echo "corpus made of $(wc -c <"$text") bytes"
}

kernels() {
  if [ -n "$quick" ]; then set -- --quick; else set --; fi
  "$tools/kernel_check$for_tests" "$device" "$@" --json "$folder/kernels.json"
}

compare_losses() {
  local bad=0 model precision other
  for model in gpt2 llama; do
    for precision in fp64 fp32 bf16; do
      other=cpu
      [ $precision = fp64 ] && other=reference
      run $model-$precision "${!model}" "$device" $precision "$steps" &&
        run $model-$precision-$other "${!model}" $other $precision "$steps" || { bad=1; continue; }
      case $precision in
        fp64) near $model-$precision $model-$precision-$other 1e-10 || bad=1 ;;
        fp32) near $model-$precision $model-$precision-$other 1e-4 || bad=1 ;;
        bf16) near $model-$precision $model-$precision-$other 1e-2 || bad=1 ;;
      esac
    done
  done
  [ $bad = 0 ] && echo "2 models x 3 precisions, $steps steps each: the CPU's losses"
}

two_ranks() {
  local bad=0 layout number=0
  run one "$gpt2" "$device" fp64 "$steps" || return 1
  for layout in "layout.data=2" "layout.tensor=2" "layout.pipeline=2" "layout.zero=2 layout.data=2"; do
    number=$((number + 1))
    local settings=()
    for key in $layout; do settings+=(--set "$key"); done
    run two-$number "$gpt2" "$device" fp64 "$steps" -n 2 "${settings[@]}" && near two-$number one 1e-10 || { echo "failed: $layout"; bad=1; }
  done
  [ $bad = 0 ] && echo "two ranks on one GPU in 4 layouts: the losses of one"
}

same_bits() {
  run first "$gpt2" "$device" bf16 "$steps" && run second "$gpt2" "$device" bf16 "$steps" || return 1
  diff <(losses first) <(losses second) || { echo "two runs of the same file have different losses"; return 1; }
  local file different=0
  while read -r file; do
    cmp "$folder/runs/first/$file" "$folder/runs/second/$file" || different=1
  done < <(cd "$folder/runs/first" && find . -name '*.safetensors' | sort)
  [ $different = 0 ] && echo "two runs in bf16: equal losses, weights and moments, to the bit"
}

sanitizer() {
  local found tool bad=0
  found=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer 2>/dev/null | head -n 1)
  [ -n "$found" ] || { echo "there is no compute-sanitizer"; exit 77; }
  local program=$tools/kernel_check$for_tests
  [ -x "$here/libexec/kernel_check" ] && program=$here/libexec/kernel_check
  for tool in memcheck racecheck initcheck; do
    timeout -k 5 50 "$found" --tool $tool --error-exitcode 9 "$program" "$device" --quick --types bf16
    case $? in
      0) echo "$tool: nothing found" ;;
      9) bad=1 ;;
      124 | 137) echo "$tool: found nothing in the 50 s that it had" ;;
      *) echo "compute-sanitizer does not work here ($tool)"; exit 77 ;;
    esac
  done
  [ $bad = 0 ] && echo "memcheck, racecheck and initcheck found nothing"
}

speeds() {
  "$tools/kernel_speed$for_tests" "$device" $quick --type bf16 --json "$folder/speeds.json" || return 1
  [ -n "$quick" ] || "$tools/kernel_speed$for_tests" "$device" --type fp32 --json "$folder/speeds-fp32.json" | grep -E '^(gpt2-124m|copy)'
  echo "products, attention and kernels: speeds.json"
}

# PyTorch's tokens/s of the same model, compiled, where it is and sees a GPU. NAME LAYERS WIDTH HEADS VOCAB BATCH SEQUENCE
torch() {
  local name=$1 worker=$here/scripts/torch_worker.py
  [ -e "$worker" ] || worker=$here/tests/bench/torch_worker.py
  shift
  python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null || { echo "no PyTorch that sees a GPU"; return; }
  printf '8\n20\n' | timeout 100 python3 "$worker" "$@" bf16 compiled cuda 2>/dev/null | tail -n 1 |
    python3 -c 'import json, statistics, sys
told = json.load(sys.stdin)
print("%s: %.0f tokens/s by PyTorch %s, torch.compile (median of %d steps)" % (sys.argv[1], int(sys.argv[2]) * int(sys.argv[3]) / statistics.median(told["seconds"]), told["torch"], len(told["seconds"])))' "$name" "$5" "$6" ||
    echo "$name: PyTorch did not answer"
}
export -f torch

training() {
  if [ -n "$quick" ]; then
    run speed "$gpt2" "$device" bf16 "$steps" || return 1
  else
    run gpt2-124m gpt2-124m "$device" bf16 30 --set optimizer.global_batch=64 --set layout.micro_batch=64 --set model.dropout=0
    run gpt2-1.5b gpt2-1.5b "$device" bf16 12 --set optimizer.global_batch=16 --set layout.micro_batch=16 --set model.dropout=0
    torch gpt2-124m 12 768 12 50257 64 1024
    torch gpt2-1.5b 48 1600 25 50257 16 1024
  fi
  local name
  for name in $(cd "$folder/runs" && ls -d gpt2-124m gpt2-1.5b speed 2>/dev/null); do
    sed -n 's/.*"tokens_per_s": *\([0-9.]*\).*/\1/p' "$folder/runs/$name/metrics.jsonl" | sort -n |
      awk -v name="$name" '{ all[NR] = $1 } END { printf "%s: %.0f tokens/s (median of %d steps)\n", name, all[int((NR + 1) / 2)], NR }'
  done
}

facts() {
  [ -z "$quick" ] || { echo "measured at full size only"; exit 77; }
  "$trireme" calibrate "$folder/cluster.yaml" --device "$device" --precision bf16 || return 1
  cat "$folder/cluster.yaml"
  grep '^# Device' "$folder/cluster.yaml"
}

# ---- all of them ---------------------------------------------------------------------------------------------------------

note "gpu-check of $("$trireme" --version 2>/dev/null | head -n 1) on $device, $(date -u +%FT%TZ)"
step versions 40 versions
step data 40 data
step kernels 100 kernels
step losses 90 compare_losses
step ranks 60 two_ranks
step bits 30 same_bits
step speeds 120 speeds
step training 120 training
step facts 40 facts
step sanitizer 160 sanitizer

# The logs of what was measured, below the table.
for name in versions kernels speeds training facts; do
  if [ -s "$folder/$name.log" ]; then printf '\n---- %s\n' "$name"; cat "$folder/$name.log"; fi
done >>"$folder/report.txt"
{
  printf '{"device": "%s", "seconds": %d, "steps": [' "$device" $((SECONDS - began))
  separator=
  for row in "${results[@]}"; do
    IFS='|' read -r name state seconds words <<<"$row"
    words=${words//\\/\\\\} words=${words//\"/\\\"}
    printf '%s\n  {"step": "%s", "state": "%s", "seconds": %d, "words": "%s"}' "$separator" "$name" "$state" "$seconds" "$words"
    separator=,
  done
  printf '\n]'
  for part in kernels speeds; do
    [ -s "$folder/$part.json" ] && printf ',\n"%s": %s' "$part" "$(cat "$folder/$part.json")"
  done
  printf '}\n'
} >"$folder/report.json"
note "$((SECONDS - began)) s in all; $folder/report.txt, $folder/report.json"
exit $failed
