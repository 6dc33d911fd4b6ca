#!/bin/sh
# The data of docs/preferences.md in runs/styles: text.txt, in which one of three answers thanks for the question;
# pairs.jsonl, where the answer that does is chosen; held.jsonl, 50 pairs of other questions.
set -eu
mkdir -p runs/styles
awk 'BEGIN {
  animals = split("cat dog fox hen cow goat duck horse mouse sheep frog bird fish bear deer owl crow snake bee wolf", animal, " ")
  places = split("in the garden|by the river|on the hill|under the tree|near the house|at the lake|in the barn|on the road|" \
                 "behind the wall|in the forest|on the roof|by the gate|in the field|at the well|under the bridge|near the sea", place, "|")
  seed = 7
  for (i = 0; i < animals; i++) for (j = 0; j < places; j++) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    prompt = "Where is the " animal[i + 1] "? It was seen " place[j + 1] "."
    plain = " The " animal[i + 1] " is " place[j + 1] "."
    thanks = " Thank you for asking. The " animal[i + 1] " is " place[j + 1] "."
    held = (i * places + j) * 13 % (animals * places) < 50
    if (!held) print prompt (seed % 3 < 1 ? thanks : plain) "\n" > "runs/styles/text.txt"
    print "{\"prompt\": \"" prompt "\", \"chosen\": \"" thanks "\", \"rejected\": \"" plain "\"}" > \
          (held ? "runs/styles/held.jsonl" : "runs/styles/pairs.jsonl")
  }
}'
