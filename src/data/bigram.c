#include "data/bigram.h"

#include "base/memory.h"

#include <stdbool.h>
#include <stdlib.h>

struct tri_bigram {
  int64_t vocab_size, num_tokens, num_kinds; /* V, N and T of the formula in bigram.h */
  uint64_t *pairs;                           /* pairs, as previous << 32 | next; after counting, sorted and each once */
  int64_t *counts;                           /* number of times that each pair occurs [num_pairs] */
  int64_t num_pairs;
  int64_t *token_counts;      /* c(w) of each token [vocab_size] */
  int64_t *context_counts;    /* c(h) of each token [vocab_size]: number of pairs that it begins */
  int64_t *context_followers; /* T(h) of each token [vocab_size] */
};

enum { READ_TOKENS = 65536 };

static int bigram_compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Collects all pairs, and counts each token. Reads the stream in pieces; each piece begins with the last token of the
 * piece before. */
static tri_status read_pairs(tri_bigram *bigram, const tri_corpus *corpus, int32_t *piece) {
  int64_t total = tri_corpus_num_tokens(corpus);
  for (int64_t first = 0; first < total; first += READ_TOKENS) {
    int64_t count = total - first < READ_TOKENS + 1 ? total - first : READ_TOKENS + 1;
    TRI_TRY(tri_corpus_read(corpus, first, count, bigram->vocab_size, piece));
    for (int64_t i = 0; i < count && i < READ_TOKENS; i++) bigram->token_counts[piece[i]]++;
    for (int64_t i = 0; i + 1 < count; i++) {
      bigram->pairs[bigram->num_pairs++] = (uint64_t)(uint32_t)piece[i] << 32 | (uint32_t)piece[i + 1];
    }
  }
  return TRI_OK;
}

/* Sorts the pairs and joins equal ones. Sets all counts except token_counts, which read_pairs has set. */
static void count_pairs(tri_bigram *bigram) {
  qsort(bigram->pairs, (size_t)bigram->num_pairs, sizeof *bigram->pairs, bigram_compare);
  int64_t kept = 0;
  for (int64_t i = 0; i < bigram->num_pairs; i++) {
    bool same = kept > 0 && bigram->pairs[kept - 1] == bigram->pairs[i];
    if (!same) bigram->pairs[kept++] = bigram->pairs[i];
    bigram->counts[kept - 1] += 1;
    int64_t context = (int64_t)(bigram->pairs[i] >> 32);
    bigram->context_counts[context]++;
    if (!same) bigram->context_followers[context]++;
  }
  bigram->num_pairs = kept;
  for (int64_t w = 0; w < bigram->vocab_size; w++) {
    bigram->num_tokens += bigram->token_counts[w];
    bigram->num_kinds += bigram->token_counts[w] > 0;
  }
}

static tri_status count(tri_bigram *bigram, const tri_corpus *corpus) {
  size_t tokens = (size_t)tri_corpus_num_tokens(corpus), kinds = (size_t)bigram->vocab_size;
  TRI_TRY(tri_alloc("bigram counts", tokens, sizeof *bigram->pairs, &bigram->pairs));
  TRI_TRY(tri_alloc("bigram counts", tokens, sizeof *bigram->counts, &bigram->counts));
  TRI_TRY(tri_alloc("bigram counts", kinds, sizeof *bigram->token_counts, &bigram->token_counts));
  TRI_TRY(tri_alloc("bigram counts", kinds, sizeof *bigram->context_counts, &bigram->context_counts));
  TRI_TRY(tri_alloc("bigram counts", kinds, sizeof *bigram->context_followers, &bigram->context_followers));
  int32_t *piece = NULL;
  TRI_TRY(tri_alloc("bigram counts", READ_TOKENS + 1, sizeof *piece, &piece));
  tri_status status = read_pairs(bigram, corpus, piece);
  tri_free(piece);
  if (status == TRI_OK) count_pairs(bigram);
  return status;
}

tri_status tri_bigram_create(const tri_corpus *corpus, int64_t vocab_size, tri_bigram **out) {
  tri_bigram *bigram = NULL;
  TRI_TRY(tri_alloc("a bigram model", 1, sizeof *bigram, &bigram));
  bigram->vocab_size = vocab_size;
  tri_status status = count(bigram, corpus);
  if (status == TRI_OK) *out = bigram;
  if (status != TRI_OK) tri_bigram_destroy(bigram);
  return status;
}

void tri_bigram_destroy(tri_bigram *bigram) {
  if (bigram == NULL) return;
  tri_free(bigram->context_followers);
  tri_free(bigram->context_counts);
  tri_free(bigram->token_counts);
  tri_free(bigram->counts);
  tri_free(bigram->pairs);
  tri_free(bigram);
}

double tri_bigram_probability(const tri_bigram *bigram, int32_t previous, int32_t next) {
  uint64_t pair = (uint64_t)(uint32_t)previous << 32 | (uint32_t)next;
  const uint64_t *found = bsearch(&pair, bigram->pairs, (size_t)bigram->num_pairs, sizeof pair, bigram_compare);
  double joint = found == NULL ? 0.0 : (double)bigram->counts[found - bigram->pairs];
  double kinds = (double)bigram->num_kinds;
  double single =
      ((double)bigram->token_counts[next] + kinds / (double)bigram->vocab_size) / ((double)bigram->num_tokens + kinds);
  double context = (double)bigram->context_counts[previous], followers = (double)bigram->context_followers[previous];
  if (context == 0) return single;
  return (joint + followers * single) / (context + followers);
}
