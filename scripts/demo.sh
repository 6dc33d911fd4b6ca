#!/usr/bin/env bash
# The demo: from WordNet's glosses to a small GPT that writes definitions. Everything it makes is under build/demo (or
# the folder given), and a second run starts over but for the text, which is made once.
#
#   scripts/demo.sh [--out FOLDER] [--steps N]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
trireme=${TRIREME:-$root/build/trireme}
out=$root/build/demo
steps=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --steps) steps=$2; shift 2 ;;
    *) echo "demo: $1 is not an option; there are --out FOLDER and --steps N" >&2; exit 2 ;;
  esac
done

begin=$SECONDS
say() { printf '\n\033[1m== %s\033[0m  (%d s)\n' "$*" $((SECONDS - begin)); }
[ -t 1 ] || say() { printf '\n== %s  (%d s)\n' "$*" $((SECONDS - begin)); }

find_wordnet() {
  for folder in "${WNSEARCHDIR:-}" /usr/share/wordnet /usr/share/wordnet/dict /usr/local/share/wordnet; do
    [ -n "$folder" ] && [ -e "$folder/data.noun" ] && echo "$folder" && return
  done
  echo "demo: there is no WordNet here; install the package wordnet-base (apt-get install wordnet-base), or set" \
    "WNSEARCHDIR to the folder of data.noun" >&2
  exit 1
}

# One line a synset: its words, and what stands behind the bar. A line of data.* is
#   offset file type count(hex) word id word id ... | definition; "example"
definitions() {
  cat "$1"/data.noun "$1"/data.verb "$1"/data.adj "$1"/data.adv | awk '
    /^  / { next }  # the licence
    {
      bar = index($0, "| ")
      count = 16 * (index("0123456789abcdef", substr($4, 1, 1)) - 1) + index("0123456789abcdef", substr($4, 2, 1)) - 1
      words = ""
      for (i = 0; i < count; i++) {
        word = $(5 + 2 * i)
        sub(/\([a-z]+\)$/, "", word)  # where an adjective may stand
        gsub(/_/, " ", word)
        words = words (i > 0 ? ", " : "") word
      }
      gloss = substr($0, bar + 2)
      sub(/[ \t]+$/, "", gloss)
      print words ": " gloss
    }'
}

mkdir -p "$out"
cd "$out"
wordnet=$(find_wordnet)
if [ ! -e wordnet.txt ]; then
  definitions "$wordnet" > wordnet.txt.partial
  mv wordnet.txt.partial wordnet.txt
fi
say "text: $(wc -l < wordnet.txt) definitions, $(($(wc -c < wordnet.txt) / 1000)) kB from $wordnet"
head -n 2 wordnet.txt | cut -c1-110

say "a vocabulary of 4096 tokens, and the corpus"
"$trireme" prepare --tokenizer train:4096 --documents line --validation 0.02 --out corpus --force wordnet.txt

say "training (one to three minutes on two cores; the line below says how long)"
"$trireme" train "$root/configs/runs/demo.yaml" --resume never ${steps:+--set "optimizer.steps=$steps"}

say "what it has learnt: its loss on text it has not seen, and that of a bigram model on the same tokens"
"$trireme" eval run corpus/validation --bigram corpus/train

say "definitions by the model"
for prompt in "small boat:" "angry person:" "to walk slowly:"; do
  "$trireme" generate run --prompt "$prompt" --tokens 40 --temperature 0.6 --top-k 40 --seed 2 2>/dev/null
done

say "done"
cat <<TEXT
the run       $out/run
metrics       $out/run/metrics.jsonl   (one line a step), summary.json, TensorBoard event files
loss curve    $out/run/loss.svg
checkpoint    $(ls -d "$out"/run/checkpoints/step-* | tail -n 1)   (transformers loads it as it is)
try           $trireme generate $out/run --prompt "large house:" --temperature 0.8
TEXT
