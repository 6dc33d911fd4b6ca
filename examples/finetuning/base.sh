#!/bin/sh
# Makes models/tiny-base, the tiny base model of docs/finetuning.md: a tokenizer of 1,024 tokens and a Llama of a million
# parameters, trained on the text of this project's own pages. It can spell English words, and knows nothing.
# TRIREME names another program than build/trireme.
set -eu
cd "$(dirname "$0")/../.."
trireme=${TRIREME:-build/trireme}
"$trireme" prepare --tokenizer train:1024 --out runs/tiny-text --documents blank --validation 0 --force README.md docs/*.md
cp examples/finetuning/chat_template.jinja runs/tiny-text/
"$trireme" train examples/finetuning/base.yaml --resume never
rm -rf models/tiny-base
"$trireme" export runs/tiny-base models/tiny-base
