/* A line of metrics of any content, as the board reads it: what jansson reads is read, with the same numbers. */
#include "board/metrics_line.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const json_t *object, const tri_board_line *found) {
  if (json_integer_value(json_object_get(object, "step")) != found->step) abort();
  for (int c = 0; c < TRI_BOARD_OWN_COLUMNS; c++) {
    const json_t *value = json_object_get(object, tri_board_column_name((tri_board_column)c));
    double wanted = json_is_number(value) ? json_number_value(value) : NAN, got = found->values[c];
    bool same = (isnan(wanted) && isnan(got)) || fabs(got - wanted) <= 1e-13 * fabs(wanted) + 1e-300;
    if (!same) abort();
  }
  if (found->num_named < 0 || found->num_named > TRI_MOST_NAMED_METRICS) abort();
  for (int64_t i = 0; i < found->num_named; i++) {
    const tri_board_named *number = &found->named[i];
    char name[TRI_METRIC_NAME_BYTES] = "";
    memcpy(name, number->name, number->bytes);
    const json_t *value = json_object_get(object, name);
    if (!tri_metric_name_is_valid(name, number->bytes) || !json_is_number(value)) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tri_board_line found;
  char *line = malloc(size > 0 ? size : 1);
  if (line == NULL) return 0;
  memcpy(line, data, size);
  bool taken = tri_board_line_read(line, size, &found);
  if (taken && found.step < 1) abort();
  /* A key may be spelt with escapes, which no writer of metrics does; a line has no newline, and jansson passes
   * over a NUL behind a number. */
  bool plain = size > 0 && memchr(line, '\\', size) == NULL && memchr(line, '\n', size) == NULL &&
               memchr(line, '\0', size) == NULL;
  json_t *object = plain ? json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL) : NULL,
         *step = json_object_get(object, "step");
  if (json_is_integer(step) && json_integer_value(step) > 0) {
    if (!taken) abort();
    compare(object, &found);
  }
  json_decref(object);
  free(line);
  return 0;
}
