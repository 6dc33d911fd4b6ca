/* Files of prompts for reinforcement learning, of any content: refused with a message that names the file, or each
 * prompt has tokens, and no more than may be. */
#include "data/prompt_source.h"
#include "fuzz_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { LONGEST = 12 };

static tri_tokenizer *bytes_tokenizer(void) {
  static tri_tokenizer *tokenizer;
  if (tokenizer == NULL && tri_tokenizer_create("bytes", &tokenizer) != TRI_OK) abort();
  return tokenizer;
}

static tri_status read_prompts(const char *path, bool skip_long) {
  const tri_prompt_source_options options = {.tokenizer = bytes_tokenizer(),
                                             .tokenizer_file = "/nowhere/tokenizer.json",
                                             .longest = LONGEST,
                                             .skip_long = skip_long};
  tri_prompt_source source;
  const tri_status status = tri_prompt_source_open(path, &options, &source);
  if (status == TRI_OK && source.count == 0) abort();
  for (int64_t i = 0; i < source.count && status == TRI_OK; i++) {
    const tri_rollout_prompt *prompt = &source.list[tri_prompt_source_at(&source, 7, i)];
    if (prompt->count < 1 || prompt->count > LONGEST || prompt->text[prompt->text_bytes] != '\0') abort();
    if (prompt->answer != NULL && prompt->answer[prompt->answer_bytes] != '\0') abort();
  }
  tri_prompt_source_release(&source);
  return status;
}

static tri_status read_all(const char *path) { return read_prompts(path, false); }
static tri_status read_short(const char *path) { return read_prompts(path, true); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  (void)bytes_tokenizer(); /* allocated before memory is counted */
  fuzz_with_file(data, bytes, read_all);
  fuzz_with_file(data, bytes, read_short);
  return 0;
}
