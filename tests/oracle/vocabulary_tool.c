/* vocabulary_tool TOKENIZER FOLDER ROWS FILE: writes a GGUF file with the keys of a tokenizer.json alone
 * (src/llamacpp/vocabulary.h). FOLDER may be "-": none. ROWS may be 0: the number of tokens. */
#include "llamacpp/vocabulary.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status count_tokens(const char *path, int64_t *out) {
  tri_tokenizer *tokenizer = NULL;
  TRI_TRY(tri_tokenizer_create(path, &tokenizer));
  *out = tri_tokenizer_vocab_size(tokenizer);
  tri_tokenizer_destroy(tokenizer);
  return TRI_OK;
}

static tri_status write_file(const tri_gguf_header *header, const char *path) {
  tri_gguf_output *output = NULL;
  TRI_TRY(tri_gguf_output_create(header, path, &output));
  return tri_gguf_output_finish(output, TRI_OK);
}

int main(int argc, char **argv) {
  tri_gguf_header *header = NULL;
  if (argc != 5) return 2;
  int64_t rows = strtoll(argv[3], NULL, 10);
  const char *folder = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
  tri_status status = rows == 0 ? count_tokens(argv[1], &rows) : TRI_OK;
  if (status == TRI_OK) status = tri_gguf_header_create(&header);
  if (status == TRI_OK) status = tri_gguf_add_string(header, "general.architecture", "llama");
  if (status == TRI_OK) status = tri_llamacpp_add_vocabulary(header, argv[1], folder, rows);
  if (status == TRI_OK) status = tri_gguf_header_layout(header);
  if (status == TRI_OK) status = write_file(header, argv[4]);
  tri_gguf_header_destroy(header);
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  return (int)status;
}
