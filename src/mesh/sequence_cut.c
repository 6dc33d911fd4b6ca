#include "mesh/sequence_cut.h"

#include "base/memory.h"
#include "mesh/parts.h"

#include <stdlib.h>

tri_token_range tri_zigzag_chunk(int64_t tokens, int64_t parts, int64_t i) {
  return (tri_token_range){tri_part_begin(tokens, 2 * parts, i), tri_part_begin(tokens, 2 * parts, i + 1)};
}

int64_t tri_zigzag_rows(int64_t tokens, int64_t parts, int64_t part) {
  tri_token_range a = tri_zigzag_chunk(tokens, parts, part);
  tri_token_range b = tri_zigzag_chunk(tokens, parts, 2 * parts - 1 - part);
  return a.end - a.first + b.end - b.first;
}

tri_status tri_sequence_cut_create(int64_t parts, int64_t room, tri_sequence_cut *out) {
  tri_sequence_cut cut = {.parts = parts, .room = room};
  tri_status status = tri_alloc("parts of a sequence", (size_t)room, sizeof *cut.ranges, &cut.ranges);
  if (status == TRI_OK) status = tri_alloc("parts of a sequence", (size_t)room, sizeof *cut.before, &cut.before);
  if (status == TRI_OK) status = tri_alloc("parts of a sequence", (size_t)parts + 1, sizeof *cut.begins, &cut.begins);
  if (status == TRI_OK) *out = cut;
  if (status != TRI_OK) tri_sequence_cut_destroy(&cut);
  return status;
}

void tri_sequence_cut_destroy(tri_sequence_cut *cut) {
  tri_free(cut->ranges);
  tri_free(cut->before);
  tri_free(cut->begins);
  *cut = (tri_sequence_cut){0};
}

void tri_sequence_cut_clear(tri_sequence_cut *cut) {
  for (int64_t p = 0; p <= cut->parts; p++) cut->begins[p] = 0;
}

void tri_sequence_cut_append(tri_sequence_cut *cut, int64_t part, tri_token_range range) {
  const int64_t end = cut->begins[part + 1];
  int64_t before = 0;
  if (range.first >= range.end) return;
  if (end > cut->begins[part]) {
    tri_token_range *last = &cut->ranges[end - 1];
    if (last->end >= range.first) {
      if (range.end > last->end) last->end = range.end;
      return;
    }
    before = cut->before[end - 1] + last->end - last->first;
  }
  cut->before[end] = before;
  cut->ranges[end] = range;
  for (int64_t p = part + 1; p <= cut->parts; p++) cut->begins[p] = end + 1;
}

tri_status tri_sequence_cut_zigzag(int64_t tokens, int64_t parts, tri_sequence_cut *out) {
  TRI_TRY(tri_sequence_cut_create(parts, 2 * parts, out));
  for (int64_t p = 0; p < parts; p++) {
    tri_sequence_cut_append(out, p, tri_zigzag_chunk(tokens, parts, p));
    tri_sequence_cut_append(out, p, tri_zigzag_chunk(tokens, parts, 2 * parts - 1 - p));
  }
  return TRI_OK;
}

static int by_first(const void *a, const void *b) {
  const tri_token_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

tri_status tri_sequence_cut_join(const tri_sequence_cut *cut, int64_t together, tri_sequence_cut *out) {
  tri_token_range *sorted = NULL;
  TRI_TRY(tri_alloc("parts of a sequence", (size_t)cut->room, sizeof *sorted, &sorted));
  tri_status status = tri_sequence_cut_create(cut->parts / together, cut->room, out);
  for (int64_t p = 0; status == TRI_OK && p < out->parts; p++) {
    int64_t first = cut->begins[p * together], end = cut->begins[(p + 1) * together];
    for (int64_t i = first; i < end; i++) sorted[i] = cut->ranges[i];
    qsort(sorted + first, (size_t)(end - first), sizeof *sorted, by_first);
    for (int64_t i = first; i < end; i++) tri_sequence_cut_append(out, p, sorted[i]);
  }
  tri_free(sorted);
  return status;
}

void tri_sequence_cut_divide(const tri_sequence_cut *cut, const int64_t *rows, tri_sequence_cut *out) {
  int64_t together = out->parts / cut->parts;
  tri_sequence_cut_clear(out);
  for (int64_t p = 0; p < cut->parts; p++) {
    int64_t to = p * together, left = rows[to];
    for (int64_t i = cut->begins[p]; i < cut->begins[p + 1]; i++) {
      tri_token_range range = cut->ranges[i];
      while (range.first < range.end) {
        while (left == 0) left = rows[++to];
        int64_t count = range.end - range.first < left ? range.end - range.first : left;
        tri_sequence_cut_append(out, to, (tri_token_range){range.first, range.first + count});
        range.first += count;
        left -= count;
      }
    }
  }
}

int64_t tri_sequence_cut_before(const tri_sequence_cut *cut, int64_t part, int64_t token) {
  int64_t low = cut->begins[part], high = cut->begins[part + 1];
  while (low < high) { /* the first range that begins at the token or after it */
    int64_t middle = (low + high) / 2;
    if (cut->ranges[middle].first < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == cut->begins[part]) return 0;
  const tri_token_range *range = &cut->ranges[low - 1];
  return cut->before[low - 1] + (token < range->end ? token : range->end) - range->first;
}

int64_t tri_sequence_cut_rows(const tri_sequence_cut *cut, int64_t part) {
  return tri_sequence_cut_before(cut, part, INT64_MAX);
}

int64_t tri_sequence_cut_find(const tri_sequence_cut *cut, int64_t part, int64_t token) {
  int64_t low = cut->begins[part], high = cut->begins[part + 1];
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (cut->ranges[middle].end <= token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
