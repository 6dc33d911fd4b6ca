/* Opens a corpus with any bytes as its index. The first byte of the input is the length of the .bin in units of 8
 * bytes, the others are the index. Reading the tokens of an accepted corpus must not read outside the files. */
#include "base/memory.h"
#include "data/corpus.h"
#include "data/corpus_index.h"
#include "files/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void read_all(const tri_corpus *corpus) {
  int64_t tokens = tri_corpus_num_tokens(corpus);
  /* The same byte may be named by many sequences, so the number of tokens is not bounded by the .bin. */
  if (tokens < 1 || tri_corpus_num_documents(corpus) < 0 || tokens > 1 << 20) return;
  int32_t *ids = NULL;
  if (tri_alloc("ids", (size_t)tokens, sizeof *ids, &ids) != TRI_OK) abort();
  (void)tri_corpus_read(corpus, 0, tokens, INT32_MAX, ids);
  (void)tri_corpus_read(corpus, tokens - 1, 1, 1000, ids);
  (void)tri_corpus_read(corpus, tokens / 2, tokens - tokens / 2, INT32_MAX, ids);
  tri_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const uint8_t bin[255 * 8];
  if (bytes < 1) return 0;
  char prefix[64], idx_path[80], bin_path[80];
  snprintf(prefix, sizeof prefix, "/tmp/trireme-fuzz-idx-%ld", (long)getpid());
  snprintf(idx_path, sizeof idx_path, "%s.idx", prefix);
  snprintf(bin_path, sizeof bin_path, "%s.bin", prefix);
  write_file(idx_path, data + 1, bytes - 1);
  write_file(bin_path, bin, (size_t)data[0] * 8);
  tri_corpus *corpus = NULL;
  if (tri_corpus_open(prefix, &corpus) == TRI_OK) {
    read_all(corpus);
    tri_corpus_close(corpus);
  }
  unlink(idx_path);
  unlink(bin_path);
  return 0;
}
