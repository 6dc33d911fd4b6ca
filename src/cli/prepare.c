#include "cli/cli.h"

static tri_status run(int count, char **arguments) {
  (void)count;
  return tri_fail(TRI_UNSUPPORTED, "%s is not built yet", arguments[0]);
}

const tri_command tri_command_prepare = {
    .name = "prepare",
    .summary = "turn text into a tokenized corpus",
    .help = "usage: trireme prepare --tokenizer gpt2:DIR|train:VOCAB|bytes|FILE.json --out DIR INPUT...\n",
    .run = run,
};
