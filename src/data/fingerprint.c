#include "data/fingerprint.h"

#include "base/log.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- hashing ----------------------------------------------------------------------------------------------------- */

/* Begins a hash with `kind`, so that fingerprints of different kinds, or by different rules, are different. */
static tri_status fingerprint_begin(const char *kind, XXH3_state_t **out) {
  XXH3_state_t *hash = XXH3_createState();
  if (hash == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot compute a fingerprint");
  XXH3_128bits_reset(hash);
  XXH3_128bits_update(hash, kind, strlen(kind) + 1);
  *out = hash;
  return TRI_OK;
}

static void add_int(XXH3_state_t *hash, int64_t value) { XXH3_128bits_update(hash, &value, sizeof value); }

/* Adds a text with its length, so that "ab", "c" differs from "a", "bc". */
static void add_text(XXH3_state_t *hash, const char *text, size_t bytes) {
  add_int(hash, (int64_t)bytes);
  if (bytes > 0) XXH3_128bits_update(hash, text, bytes);
}

static void fingerprint_end(XXH3_state_t *hash, char out[TRI_FINGERPRINT_BYTES]) {
  XXH128_hash_t sum = XXH3_128bits_digest(hash);
  XXH3_freeState(hash);
  snprintf(out, TRI_FINGERPRINT_BYTES, "%016" PRIx64 "%016" PRIx64, (uint64_t)sum.high64, (uint64_t)sum.low64);
}

bool tri_fingerprint_is_valid(const char *text) {
  return strlen(text) == TRI_FINGERPRINT_BYTES - 1 && strspn(text, "0123456789abcdef") == TRI_FINGERPRINT_BYTES - 1;
}

tri_status tri_fingerprint_join(const char *const *fingerprints, int count, char out[TRI_FINGERPRINT_BYTES]) {
  XXH3_state_t *hash = NULL;
  TRI_TRY(fingerprint_begin("trireme join 1", &hash));
  for (int i = 0; i < count; i++) add_text(hash, fingerprints[i], strlen(fingerprints[i]));
  fingerprint_end(hash, out);
  return TRI_OK;
}

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/* Adds the vocabulary. The hash includes `learnt`, because with ignore_merges words that are learnt tokens are not
 * merged. */
static void add_vocabulary(XXH3_state_t *hash, const tri_tokenizer *tokenizer) {
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  add_int(hash, vocabulary->size);
  for (int64_t id = 0; id < vocabulary->size; id++) {
    const tri_token *token = &vocabulary->tokens[id];
    add_text(hash, vocabulary->pool + token->offset, token->bytes);
    if (tokenizer->ignore_merges) add_int(hash, token->learnt);
  }
  XXH3_128bits_update(hash, vocabulary->byte_ids, sizeof vocabulary->byte_ids);
}

/* Adds the merges in order. A repeated pair counts at its last position. */
static void add_merges(XXH3_state_t *hash, const tri_vocabulary *vocabulary) {
  int64_t count = 0;
  for (int64_t rank = 0; rank < vocabulary->merge_count; rank++) {
    const tri_merge *merge = &vocabulary->merges[rank];
    const tri_merge_slot *slot = tri_vocabulary_merge(vocabulary, merge->left, merge->right);
    if (slot == NULL || slot->rank != rank) continue;
    const int32_t ids[3] = {merge->left, merge->right, merge->result};
    XXH3_128bits_update(hash, ids, sizeof ids);
    count++;
  }
  add_int(hash, count);
}

/* Patterns of Digits and Punctuation, now and in versions that used the machine's PCRE2 for classes of characters. */
static const struct {
  const char *now, *before;
} once[] = {
    {TRI_PATTERN_DIGIT, "\\p{N}"},
    {TRI_PATTERN_DIGIT "+", "\\p{N}+"},
    {TRI_PATTERN_PUNCTUATION, "[\\p{P}$+<=>^`|~]"},
    {TRI_PATTERN_PUNCTUATION "+", "[\\p{P}$+<=>^`|~]+"},
};

/* Adds a pattern. GPT-2's pattern can be written in several ways: all have one scanner, so one text stands for them. A
 * pattern with Unicode categories depends on the version of Unicode. `before`: whether to use the rules of older
 * versions, which omit it and have the older patterns in `once`. */
static void add_pattern(XXH3_state_t *hash, const tri_stage *stage, bool before) {
  const bool gpt2 = stage->scanner == TRI_SCAN_GPT2;
  const char *text = gpt2 ? tri_pattern_gpt2 : stage->text;
  size_t bytes = gpt2 ? strlen(tri_pattern_gpt2) : stage->text_bytes;
  for (size_t i = 0; before && i < sizeof once / sizeof once[0]; i++) {
    if (strcmp(once[i].now, text) != 0) continue;
    text = once[i].before;
    bytes = strlen(text);
  }
  add_text(hash, text, bytes);
  add_int(hash, stage->literal);
  add_int(hash, stage->drop_unmatched);
  if (!before && stage->compiled.asks_categories) add_text(hash, tri_unicode_version, strlen(tri_unicode_version));
}

static void add_stages(XXH3_state_t *hash, const tri_pretokenizer *pretokenizer, bool before) {
  add_int(hash, pretokenizer->count);
  for (int i = 0; i < pretokenizer->count; i++) {
    const tri_stage *stage = &pretokenizer->stages[i];
    add_int(hash, stage->compiled.code != NULL);
    if (stage->kind != TRI_STAGE_CUT && stage->kind != TRI_STAGE_SPACE) add_int(hash, stage->kind);
    if (stage->compiled.code != NULL) add_pattern(hash, stage, before);
  }
}

/* Adds normalization steps: 0 for no step; 1 for NFC alone, as in versions that had no other step; else 1 + the number
 * of steps, and the steps. */
static void add_steps(XXH3_state_t *hash, const tri_text_steps *steps) {
  bool alone = steps->count == 1 && steps->steps[0].kind == TRI_TEXT_NFC;
  add_int(hash, steps->count == 0 ? 0 : alone ? 1 : 1 + steps->count);
  for (int i = 0; i < steps->count && !alone; i++) {
    const tri_text_step *step = &steps->steps[i];
    const int32_t facts[] = {(int32_t)step->kind, step->only_first, step->unless_there};
    XXH3_128bits_update(hash, facts, sizeof facts);
    add_text(hash, step->find, step->find_bytes);
    add_text(hash, step->put, step->put_bytes);
  }
}

/* Adds a tokenizer of characters. The decoder is left out, because it does not affect ids. */
static void add_characters(XXH3_state_t *hash, const tri_tokenizer *tokenizer) {
  add_text(hash, "characters", sizeof "characters" - 1);
  XXH3_128bits_update(hash, tokenizer->vocabulary.fallback, sizeof tokenizer->vocabulary.fallback);
  add_steps(hash, &tokenizer->spaces);
}

static int compare_added(const void *a, const void *b) {
  const tri_added_token *left = *(const tri_added_token *const *)a, *right = *(const tri_added_token *const *)b;
  size_t shorter = left->bytes < right->bytes ? left->bytes : right->bytes;
  int order = memcmp(left->content, right->content, shorter);
  if (order != 0) return order;
  if (left->bytes != right->bytes) return left->bytes < right->bytes ? -1 : 1;
  return left < right ? -1 : left > right; /* equal after normalization: in the order of the list */
}

/* Adds the added tokens, in an order that does not depend on their order in the file. The hash includes whether a token
 * is searched before or after normalization only if this matters: if the tokenizer normalizes, or if the tokens differ
 * in it. */
static tri_status add_added(XXH3_state_t *hash, const tri_tokenizer *tokenizer) {
  int64_t count = tokenizer->added_count, late = 0;
  const tri_added_token **sorted = NULL;
  TRI_TRY(tri_alloc("the added tokens", (size_t)count, sizeof(const tri_added_token *), (void *)&sorted));
  for (int64_t i = 0; i < count; i++) {
    sorted[i] = &tokenizer->added[i];
    late += tokenizer->added[i].normalized;
  }
  qsort((void *)sorted, (size_t)count, sizeof(const tri_added_token *), compare_added);
  bool two_passes = tokenizer->normalizer.count > 0 || (late > 0 && late < count);
  add_int(hash, count);
  for (int64_t i = 0; i < count; i++) {
    const tri_added_token *token = sorted[i];
    add_text(hash, token->content, token->bytes);
    const int32_t facts[] = {token->id,     token->special, token->single_word,
                             token->lstrip, token->rstrip,  two_passes && token->normalized};
    XXH3_128bits_update(hash, facts, sizeof facts);
  }
  tri_free((void *)sorted);
  return TRI_OK;
}

static tri_status fingerprint_tokenizer(const tri_tokenizer *tokenizer, bool before, char out[TRI_FINGERPRINT_BYTES]) {
  XXH3_state_t *hash = NULL;
  TRI_TRY(fingerprint_begin("trireme tokenizer 1", &hash));
  add_vocabulary(hash, tokenizer);
  add_merges(hash, &tokenizer->vocabulary);
  add_stages(hash, &tokenizer->pretokenizer, before);
  add_steps(hash, &tokenizer->normalizer);
  if (tokenizer->vocabulary.characters) add_characters(hash, tokenizer);
  add_int(hash, tokenizer->ignore_merges);
  add_int(hash, tokenizer->unknown);
  add_int(hash, tokenizer->unknown >= 0 && tokenizer->fuse_unknown);
  add_int(hash, tokenizer->named_end); /* the end-of-text token that its usual name shows, so that the hash does not
                                          depend on other files of the folder */
  tri_status status = add_added(hash, tokenizer);
  if (status == TRI_OK) {
    fingerprint_end(hash, out);
  } else {
    XXH3_freeState(hash);
  }
  return status;
}

tri_status tri_tokenizer_fingerprint(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]) {
  return fingerprint_tokenizer(tokenizer, false, out);
}

tri_status tri_tokenizer_fingerprint_before(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]) {
  return fingerprint_tokenizer(tokenizer, true, out);
}

bool tri_fingerprint_fits(const char *what, const char *recorded, const char *now, const char *before) {
  if (strcmp(recorded, now) == 0) return true;
  if (before[0] == '\0' || strcmp(recorded, before) != 0) return false;
  if (what == NULL) return true;
  tri_log(
      "%s was made by a version that took letters, digits and punctuation from the machine's PCRE2; it is used, but "
      "rare characters may have other ids by Unicode %s",
      what, tri_unicode_version);
  return true;
}

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

static void add_samples(XXH3_state_t *hash, const char *data, size_t bytes) {
  if (bytes <= TRI_FINGERPRINT_WHOLE_BYTES) {
    if (bytes > 0) XXH3_128bits_update(hash, data, bytes);
    return;
  }
  XXH3_128bits_update(hash, data, TRI_FINGERPRINT_END_BYTES);
  size_t distance = bytes / (TRI_FINGERPRINT_PIECES + 1);
  for (size_t i = 1; i <= TRI_FINGERPRINT_PIECES; i++) {
    /* Offsets are multiples of a page, so that each piece reads one page of the file if `data` begins at a page. */
    size_t at = i * distance / TRI_FINGERPRINT_PIECE_BYTES * TRI_FINGERPRINT_PIECE_BYTES;
    XXH3_128bits_update(hash, data + at, TRI_FINGERPRINT_PIECE_BYTES);
  }
  XXH3_128bits_update(hash, data + bytes - TRI_FINGERPRINT_END_BYTES, TRI_FINGERPRINT_END_BYTES);
}

tri_status tri_fingerprint_corpus(const tri_corpus_index *index, const char *idx, size_t idx_bytes, const char *bin,
                                  size_t bin_bytes, char out[TRI_FINGERPRINT_BYTES]) {
  XXH3_state_t *hash = NULL;
  TRI_TRY(fingerprint_begin("trireme corpus 1", &hash));
  add_int(hash, index->num_tokens);
  add_int(hash, index->num_documents);
  add_text(hash, idx, idx_bytes);
  /* Several indexes may share a .bin: if this index is contiguous, only its range counts. */
  if (index->contiguous) {
    bin += index->first_byte;
    bin_bytes = (size_t)(index->num_tokens * index->id_bytes);
  }
  add_int(hash, (int64_t)bin_bytes);
  add_samples(hash, bin, bin_bytes);
  fingerprint_end(hash, out);
  return TRI_OK;
}

tri_status tri_fingerprint_mask(const char *mask, size_t bytes, char out[TRI_FINGERPRINT_BYTES]) {
  XXH3_state_t *hash = NULL;
  TRI_TRY(fingerprint_begin("trireme mask 1", &hash));
  add_int(hash, (int64_t)bytes);
  add_samples(hash, mask, bytes);
  fingerprint_end(hash, out);
  return TRI_OK;
}
