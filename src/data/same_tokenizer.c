#include "data/same_tokenizer.h"

#include "base/log.h"
#include "data/fingerprint.h"
#include "files/file.h"

#include <inttypes.h>
#include <string.h>

static tri_status same_tokenizer_compare(const char *given, const tri_tokenizer *tokenizer, const char *path,
                                         const tri_tokenizer *own) {
  char of_given[TRI_FINGERPRINT_BYTES], of_own[TRI_FINGERPRINT_BYTES];
  TRI_TRY(tri_tokenizer_fingerprint(tokenizer, of_given));
  TRI_TRY(tri_tokenizer_fingerprint(own, of_own));
  if (strcmp(of_given, of_own) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "--tokenizer %s (%" PRId64
                  " tokens, fingerprint %.8s) is another tokenizer than the model was trained "
                  "with, %s (%" PRId64 " tokens, fingerprint %.8s); omit --tokenizer to use the model's own",
                  given, tri_tokenizer_vocab_size(tokenizer), of_given, path, tri_tokenizer_vocab_size(own), of_own);
}

tri_status tri_same_tokenizer(const char *folder, const char *given, const tri_tokenizer *tokenizer) {
  char path[TRI_PATH_BYTES];
  tri_tokenizer *own = NULL;
  bool found = false;
  if (given == NULL) return TRI_OK;
  TRI_TRY(tri_tokenizer_of_folder(folder, path, &found));
  if (!found) return TRI_OK;
  if (tri_tokenizer_create(path, &own) != TRI_OK) {
    tri_log("the model's own tokenizer cannot be compared with --tokenizer %s: %s", given, tri_status_message());
    return TRI_OK;
  }
  tri_status status = same_tokenizer_compare(given, tokenizer, path, own);
  tri_tokenizer_destroy(own);
  return status;
}

tri_status tri_tokenizer_fits_model(const tri_tokenizer *tokenizer, int64_t vocab_size) {
  const int64_t tokens = tri_tokenizer_vocab_size(tokenizer);
  if (tokens <= vocab_size) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the tokenizer has %ld tokens and the model's vocabulary %ld: they do not belong together; name the "
                  "model's with --tokenizer",
                  (long)tokens, (long)vocab_size);
}
