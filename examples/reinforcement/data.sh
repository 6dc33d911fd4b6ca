#!/bin/sh
# The data of docs/reinforcement.md in runs/addition: sums of two numbers below 100, as "12+34=" with the digits of the
# sum from the last on ("640"). sft.jsonl and train.jsonl have the same 9,000 pairs, with completions for fine-tuning and
# with answers for rewards; kept.jsonl has 1,000 other pairs. symbols.txt has every character.
set -eu
mkdir -p runs/addition
printf '0123456789+=\n' > runs/addition/symbols.txt
awk 'BEGIN {
  for (i = 0; i < 10000; i++) order[i] = i
  seed = 7
  for (i = 9999; i > 0; i--) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    j = int(seed / 65536) % (i + 1)
    kept = order[i]; order[i] = order[j]; order[j] = kept
  }
  for (i = 0; i < 10000; i++) {
    a = int(order[i] / 100); b = order[i] % 100; sum = a + b
    prompt = sprintf("%02d+%02d=", a, b)
    digits = sprintf("%d%d%d", sum % 10, int(sum / 10) % 10, int(sum / 100))
    answer = "{\"prompt\": \"" prompt "\", \"answer\": \"" digits "\"}"
    if (i < 1000) { print answer > "runs/addition/kept.jsonl"; continue }
    print answer > "runs/addition/train.jsonl"
    print "{\"prompt\": \"" prompt "\", \"completion\": \"" digits "\"}" > "runs/addition/sft.jsonl"
  }
}'
