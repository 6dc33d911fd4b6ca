#include "run/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A member in a checkpoint's state, in the order of the file. */
typedef struct progress_row {
  const char *key;
  size_t offset;
  bool is_real; /* whether the member is a double; if not, it is an int64_t */
} progress_row;

#define INTEGER(MEMBER)                                                                                                \
  { #MEMBER, offsetof(tri_progress, MEMBER), false }
#define REAL(MEMBER)                                                                                                   \
  { #MEMBER, offsetof(tri_progress, MEMBER), true }
static const progress_row rows[] = {
    INTEGER(updates),      INTEGER(bad_steps),  REAL(seconds),      REAL(highest_lr),
    REAL(average_weights), INTEGER(averaged),   INTEGER(best_step), REAL(best_loss),
    REAL(best_accuracy),   INTEGER(not_better), INTEGER(batches),   INTEGER(groups),
};
enum { NUM_ROWS = sizeof rows / sizeof rows[0] };

json_t *tri_progress_print(const tri_progress *progress) {
  json_t *out = json_object();
  for (int i = 0; out != NULL && i < NUM_ROWS; i++) {
    const char *at = (const char *)progress + rows[i].offset;
    int64_t whole = 0;
    double real = 0;
    if (rows[i].is_real) memcpy(&real, at, sizeof real);
    if (!rows[i].is_real) memcpy(&whole, at, sizeof whole);
    json_t *value = rows[i].is_real ? json_real(real) : json_integer((json_int_t)whole);
    if (json_object_set_new(out, rows[i].key, value) == 0) continue;
    json_decref(out);
    return NULL;
  }
  return out;
}

void tri_progress_read(const json_t *from, tri_progress *progress) {
  for (int i = 0; i < NUM_ROWS; i++) {
    const json_t *value = json_object_get(from, rows[i].key);
    char *at = (char *)progress + rows[i].offset;
    const int64_t whole = (int64_t)json_integer_value(value);
    const double real = json_number_value(value);
    if (rows[i].is_real) memcpy(at, &real, sizeof real);
    if (!rows[i].is_real) memcpy(at, &whole, sizeof whole);
  }
}
