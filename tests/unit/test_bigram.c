/* The bigram baseline, compared with counts by brute force; its probabilities add up to one. */
#include "check.h"
#include "data/bigram.h"
#include "data/corpus_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { VOCAB = 11, TOKENS = 70001 }; /* more tokens than one read */

static void test_against_brute_force(void **state) {
  (void)state;
  static int32_t stream[TOKENS];
  unsigned seed = 5;
  for (int i = 0; i < TOKENS; i++) {
    seed = seed * 1103515245u + 12345u;
    stream[i] = (int32_t)((seed >> 16) % 7 * ((seed >> 20) % 2)) + (i % 3 == 0); /* 8, 9 and 10 do not occur */
  }
  char folder[] = "/tmp/trireme-bigram-XXXXXX", prefix[64];
  assert_non_null(mkdtemp(folder));
  snprintf(prefix, sizeof prefix, "%s/train", folder);
  tri_corpus_writer *writer = NULL;
  CHECK_OK(tri_corpus_writer_create(prefix, VOCAB, &writer));
  CHECK_OK(tri_corpus_writer_add(writer, stream, TOKENS));
  CHECK_OK(tri_corpus_writer_end_document(writer));
  CHECK_OK(tri_corpus_writer_finish(writer));
  CHECK_OK(tri_corpus_writer_commit(writer));
  tri_corpus_writer_destroy(writer);

  tri_corpus *corpus = NULL;
  tri_bigram *bigram = NULL;
  CHECK_OK(tri_corpus_open(prefix, &corpus));
  CHECK_OK(tri_bigram_create(corpus, VOCAB, &bigram));
  double pairs[VOCAB][VOCAB] = {{0}}, singles[VOCAB] = {0}, kinds = 0;
  for (int i = 0; i < TOKENS; i++) singles[stream[i]]++;
  for (int i = 0; i + 1 < TOKENS; i++) pairs[stream[i]][stream[i + 1]]++;
  for (int w = 0; w < VOCAB; w++) kinds += singles[w] > 0;
  for (int h = 0; h < VOCAB; h++) {
    double context = 0, followers = 0, total = 0;
    for (int w = 0; w < VOCAB; w++) {
      context += pairs[h][w];
      followers += pairs[h][w] > 0;
    }
    for (int w = 0; w < VOCAB; w++) {
      double single = (singles[w] + kinds / VOCAB) / (TOKENS + kinds);
      double expected = context == 0 ? single : (pairs[h][w] + followers * single) / (context + followers);
      double got = tri_bigram_probability(bigram, h, w);
      assert_true(got > 0 && fabs(got - expected) < 1e-15);
      total += got;
    }
    assert_true(fabs(total - 1.0) < 1e-12);
  }
  tri_bigram_destroy(bigram);
  tri_corpus_close(corpus);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_brute_force)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
