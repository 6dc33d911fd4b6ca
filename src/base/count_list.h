/* Lists of whole numbers that are never released. Equal lists exist once, so lists are compared by their pointers, and
 * a struct that is copied often can have a pointer to a list. */
#ifndef TRI_BASE_COUNT_LIST_H
#define TRI_BASE_COUNT_LIST_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_count_list {
  const struct tri_count_list *next; /* list that was made before this one; NULL: none */
  int64_t count;
  int64_t numbers[]; /* [count] */
} tri_count_list;

/* Sets *out to the list of numbers[count]; NULL if count is 0. Any thread may call this function. */
tri_status tri_count_list_keep(const int64_t *numbers, int64_t count, const tri_count_list **out);

/* Returns the sum of a list; 0 for NULL. */
int64_t tri_count_list_sum(const tri_count_list *list);

/* Writes "[3,4,4,3]", "[]" for NULL; truncated to `bytes`. Returns buffer. */
char *tri_count_list_text(const tri_count_list *list, char *buffer, size_t bytes);

#endif
