/* Shared by the tests of prepare: a job that reads one input in the test's folder, and writes a corpus to its folder
 * "out". */
#ifndef TRI_TESTS_PREPARE_TEST_H
#define TRI_TESTS_PREPARE_TEST_H

#include "corpus_test.h"
#include "data/prepare.h"

typedef struct job {
  tri_prepare_options options;
  char out[TRI_PATH_BYTES];
  char input[TRI_PATH_BYTES];
  const char *inputs[1];
} job;

static inline job *new_job(void **state, const char *input) {
  job *j = calloc(1, sizeof *j);
  assert_non_null(j);
  in_folder(state, "out", j->out);
  in_folder(state, input, j->input);
  j->inputs[0] = j->input;
  j->options = (tri_prepare_options){
      .tokenizer = "bytes",
      .out = j->out,
      .inputs = j->inputs,
      .num_inputs = 1,
      .key = "text",
      .documents = TRI_DOCUMENT_LINE,
      .validation = 0.1,
      .threads = 2,
      .train_bytes = 1 << 30,
  };
  return j;
}

static inline tri_status prepare_it(const job *j) {
  tri_prepare_report report;
  return tri_prepare(&j->options, &report);
}

#endif
