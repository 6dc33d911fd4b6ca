/* Reads any bytes as an answer of a reward's program: the line is refused with a message, or has a reward that is
 * finite or null, which is the sum of its parts if there are any. */
#include "base/memory.h"
#include "reward/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parts(const tri_reward_answer *a) {
  double sum = 0;
  if (a->num_parts < 1 || a->num_parts > TRI_REWARD_PARTS) abort();
  for (int64_t i = 0; i < a->num_parts; i++) {
    const char *name = a->parts[i].name;
    if (memchr(name, '\0', TRI_REWARD_PART_BYTES) == NULL || name[0] == '\0' || strpbrk(name, "\n\r\t\x1b") != NULL)
      abort();
    sum += a->parts[i].value;
  }
  if (!isfinite(sum) || sum != a->reward) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tri_reward_answer answer;
  const size_t held = tri_memory_bytes();
  char *line = malloc(size > 0 ? size : 1);
  if (line == NULL) return 0;
  if (size > 0) memcpy(line, data, size);
  const tri_status status = tri_reward_answer_read(line, size, &answer);
  if (status == TRI_OK) {
    if (isinf(answer.reward)) abort();
    if (answer.parts != NULL) check_parts(&answer);
  } else {
    const char *message = tri_status_message();
    if (status != TRI_BAD_FILE || message[0] == '\0' || answer.parts != NULL || strchr(message, '\n') != NULL) abort();
  }
  tri_free(answer.parts);
  free(line);
  if (tri_memory_bytes() != held) abort();
  return 0;
}
