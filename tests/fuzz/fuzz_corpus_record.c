/* Reads any bytes as the record of a corpus (PREFIX.corpus.json). An accepted record has valid fingerprints and
 * possible counts. */
#include "data/corpus_record.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  tri_corpus_record record = {0};
  if (tri_corpus_record_parse("PREFIX.corpus.json", (const char *)data, bytes, &record) != TRI_OK) return 0;
  if (!tri_fingerprint_is_valid(record.corpus) || !tri_fingerprint_is_valid(record.tokenizer) ||
      !tri_fingerprint_is_valid(record.generation) || record.tokens < 1 || record.documents < 0 ||
      record.vocab_size < 1) {
    abort();
  }
  return 0;
}
