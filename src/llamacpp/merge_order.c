#include "llamacpp/merge_order.h"

#include "tokenizer/utf8.h"

#include <math.h>
#include <string.h>

/* ---- the merges of the file -------------------------------------------------------------------------------------- */

/* Finds the left and the right token of a merge, "left right" or ["left", "right"]. */
static void find_sides(const tri_vocabulary *vocabulary, const json_t *entry, int32_t ids[2]) {
  if (json_is_string(entry)) {
    const char *line = json_string_value(entry), *blank = strchr(line, ' ');
    if (blank == NULL) return;
    ids[0] = tri_vocabulary_find(vocabulary, line, (size_t)(blank - line));
    ids[1] = tri_vocabulary_find(vocabulary, blank + 1, strlen(blank + 1));
    return;
  }
  for (size_t side = 0; side < 2; side++) {
    const json_t *token = json_array_get(entry, side);
    if (json_is_string(token)) {
      ids[side] = tri_vocabulary_find(vocabulary, json_string_value(token), json_string_length(token));
    }
  }
}

static tri_status read_merges(const json_t *list, tri_vocabulary *out) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    int32_t ids[2] = {-1, -1};
    find_sides(out, json_array_get(list, i), ids);
    if (ids[0] < 0 || ids[1] < 0) return tri_fail_internal("merge %zu names no tokens", i);
    TRI_TRY(tri_vocabulary_add_merge(out, ids[0], ids[1], 0));
  }
  return TRI_OK;
}

tri_status tri_llamacpp_read_merges(const json_t *model, int64_t size, tri_vocabulary *out) {
  const char *token = NULL;
  json_t *id = NULL;
  TRI_TRY(tri_vocabulary_create(out, size));
  out->characters = true;
  json_object_foreach(json_object_get(model, "vocab"), token, id) {
    TRI_TRY(tri_vocabulary_add(out, (int32_t)json_integer_value(id), token, strlen(token), true));
  }
  TRI_TRY(read_merges(json_object_get(model, "merges"), out));
  return tri_vocabulary_index(out);
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

enum { MOST_CHARACTERS = 1024 };

typedef struct merger {
  const tri_vocabulary *file;        /* NULL: llama.cpp's order */
  const tri_llamacpp_scored *scored; /* NULL: the order of the file */
  const char *text;
  size_t begins[MOST_CHARACTERS + 1]; /* offset of each part, then the end of the text */
  float scores[MOST_CHARACTERS];      /* of part i with the one after it; -INFINITY: they do not merge */
  int count;                          /* number of parts */
} merger;

static tri_status begin(merger *m, const char *text, size_t bytes) {
  m->text = text;
  m->count = 0;
  for (size_t at = 0; at < bytes;) {
    uint32_t code = 0;
    const size_t step = tri_utf8_decode(text + at, bytes - at, &code);
    if (m->count == MOST_CHARACTERS) {
      return tri_fail(TRI_UNSUPPORTED, "the tokenizer has a token of more than %d characters, \"%.40s...\"",
                      MOST_CHARACTERS, text);
    }
    m->begins[m->count++] = at;
    at += step > 0 ? step : 1;
  }
  m->begins[m->count] = bytes;
  return TRI_OK;
}

/* Returns the score of merging part i with the next one; -INFINITY if they do not merge. */
static float score_of(const merger *m, int i) {
  const char *left = m->text + m->begins[i], *right = m->text + m->begins[i + 1];
  const size_t left_bytes = m->begins[i + 1] - m->begins[i], right_bytes = m->begins[i + 2] - m->begins[i + 1];
  if (m->file == NULL) {
    const int32_t id = tri_vocabulary_find(&m->scored->texts, left, left_bytes + right_bytes);
    return id < 0 ? -INFINITY : m->scored->scores[id];
  }
  const int32_t first = tri_vocabulary_find(m->file, left, left_bytes);
  const int32_t second = tri_vocabulary_find(m->file, right, right_bytes);
  if (first < 0 || second < 0) return -INFINITY;
  const tri_merge_slot *slot = tri_vocabulary_merge(m->file, first, second);
  return slot == NULL ? -INFINITY : -1.0F - (float)slot->rank;
}

static void update(merger *m, int i) {
  if (i >= 0 && i + 1 < m->count) m->scores[i] = score_of(m, i);
}

static int best(const merger *m) {
  int found = 0;
  for (int i = 1; i + 1 < m->count; i++) {
    if (m->scores[i] > m->scores[found]) found = i;
  }
  return found;
}

/* Merges part i with the next one. */
static void merge(merger *m, int i) {
  memmove(&m->begins[i + 1], &m->begins[i + 2], (size_t)(m->count - i - 1) * sizeof m->begins[0]);
  memmove(&m->scores[i], &m->scores[i + 1], (size_t)(m->count - i - 2) * sizeof m->scores[0]);
  m->count--;
  update(m, i - 1);
  update(m, i);
}

static tri_status merge_all(merger *m, const char *text, size_t bytes, tri_llamacpp_merging *out) {
  *out = (tri_llamacpp_merging){0};
  TRI_TRY(begin(m, text, bytes));
  for (int i = 0; i + 1 < m->count; i++) m->scores[i] = score_of(m, i);
  while (m->count > 1) {
    const int at = best(m);
    if (m->scores[at] == -INFINITY) break;
    out->score = m->scores[at];
    out->left_bytes = m->begins[at + 1] - m->begins[at];
    merge(m, at);
  }
  out->made = m->count == 1;
  return TRI_OK;
}

tri_status tri_llamacpp_merge_by_list(const tri_vocabulary *file, const char *text, size_t bytes,
                                      tri_llamacpp_merging *out) {
  merger m;
  m.file = file;
  m.scored = NULL;
  return merge_all(&m, text, bytes, out);
}

tri_status tri_llamacpp_merge_by_score(const tri_llamacpp_scored *scored, const char *text, size_t bytes,
                                       tri_llamacpp_merging *out) {
  merger m;
  m.file = NULL;
  m.scored = scored;
  return merge_all(&m, text, bytes, out);
}
