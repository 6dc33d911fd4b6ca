/* Lists of whole numbers that are never released. Equal lists are the same one: a struct that is copied often holds one
 * as a pointer, and comparing pointers compares them. */
#ifndef TRI_BASE_COUNT_LIST_H
#define TRI_BASE_COUNT_LIST_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_count_list {
  const struct tri_count_list *next; /* list that was kept before */
  int64_t count;
  int64_t numbers[]; /* [count] */
} tri_count_list;

/* Returns the list of these numbers; NULL for none. Any thread may call it. */
tri_status tri_count_list_keep(const int64_t *numbers, int64_t count, const tri_count_list **out);

/* Returns the sum of a list; 0 for NULL. */
int64_t tri_count_list_sum(const tri_count_list *list);

/* Writes "[3,4,4,3]", "[]" for NULL; truncated to `bytes`. Returns buffer. */
char *tri_count_list_text(const tri_count_list *list, char *buffer, size_t bytes);

#endif
