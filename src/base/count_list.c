#include "base/count_list.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const tri_count_list *kept; /* the newest list; `next` leads to the others; guarded by the lock */

static const tri_count_list *find(const int64_t *numbers, int64_t count) {
  const tri_count_list *at = kept;
  while (at != NULL && (at->count != count || memcmp(at->numbers, numbers, (size_t)count * sizeof *numbers) != 0)) {
    at = at->next;
  }
  return at;
}

/* The memory is not counted by tri_alloc, because it is never released. */
static tri_status add(const int64_t *numbers, int64_t count, const tri_count_list **out) {
  tri_count_list *made = malloc(sizeof *made + (size_t)count * sizeof *numbers);
  if (made == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory for a list of %" PRId64 " numbers", count);
  made->next = kept;
  made->count = count;
  memcpy(made->numbers, numbers, (size_t)count * sizeof *numbers);
  *out = kept = made;
  return TRI_OK;
}

tri_status tri_count_list_keep(const int64_t *numbers, int64_t count, const tri_count_list **out) {
  tri_status status = TRI_OK;
  *out = NULL;
  if (count == 0) return TRI_OK;
  pthread_mutex_lock(&lock);
  *out = find(numbers, count);
  if (*out == NULL) status = add(numbers, count, out);
  pthread_mutex_unlock(&lock);
  return status;
}

int64_t tri_count_list_sum(const tri_count_list *list) {
  int64_t sum = 0;
  for (int64_t i = 0; list != NULL && i < list->count; i++) sum += list->numbers[i];
  return sum;
}

char *tri_count_list_text(const tri_count_list *list, char *buffer, size_t bytes) {
  size_t held = (size_t)snprintf(buffer, bytes, "[");
  for (int64_t i = 0; list != NULL && i < list->count && held < bytes; i++) {
    held += (size_t)snprintf(buffer + held, bytes - held, "%s%" PRId64, i == 0 ? "" : ",", list->numbers[i]);
  }
  if (held < bytes) snprintf(buffer + held, bytes - held, "]");
  return buffer;
}
