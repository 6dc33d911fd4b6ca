/* Questions with choices, and questions with answers, of any content: refused with words that name a line, or each has
 * what is asked. */
#include "fuzz_file.h"
#include "judge/answers.h"
#include "judge/questions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static tri_status read_choices(const char *path) {
  tri_questions questions = {0};
  const tri_status status = tri_questions_read(path, 0, &questions);
  tri_questions_release(&questions);
  return status;
}

static tri_status read_asked(const char *path) {
  tri_asked_list asked = {0};
  const tri_status status = tri_asked_read(path, 0, &asked);
  tri_asked_release(&asked);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_with_file(data, bytes, read_choices);
  fuzz_with_file(data, bytes, read_asked);
  return 0;
}
