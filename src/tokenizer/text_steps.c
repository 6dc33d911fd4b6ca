#include "tokenizer/text_steps.h"

#include "base/memory.h"

#include <string.h>

static const char what[] = "changing text";

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static tri_status copy(const char *text, size_t bytes, char **out) {
  TRI_TRY(tri_alloc("a tokenizer", bytes + 1, 1, out));
  memcpy(*out, text, bytes);
  return TRI_OK;
}

static tri_status next_step(tri_text_steps *steps, const char *where, tri_text_step_kind kind, tri_text_step **out) {
  if (steps->count == TRI_MAX_TEXT_STEPS) {
    return tri_fail(TRI_UNSUPPORTED, "%s: more than %d changes of the text", where, TRI_MAX_TEXT_STEPS);
  }
  *out = &steps->steps[steps->count++];
  **out = (tri_text_step){.kind = kind};
  return TRI_OK;
}

tri_status tri_text_steps_add_nfc(tri_text_steps *steps, const char *where) {
  tri_text_step *step = NULL;
  if (steps->count > 0 && steps->steps[steps->count - 1].kind == TRI_TEXT_NFC) return TRI_OK; /* already in form C */
  return next_step(steps, where, TRI_TEXT_NFC, &step);
}

tri_status tri_text_steps_add_replace(tri_text_steps *steps, const char *where, const char *find, size_t find_bytes,
                                      const char *put, size_t put_bytes) {
  tri_text_step *step = NULL;
  TRI_TRY(next_step(steps, where, TRI_TEXT_REPLACE, &step));
  step->find_bytes = find_bytes;
  step->put_bytes = put_bytes;
  TRI_TRY(copy(find, find_bytes, &step->find));
  return copy(put, put_bytes, &step->put);
}

tri_status tri_text_steps_add_prepend(tri_text_steps *steps, const char *where, const char *put, size_t put_bytes,
                                      bool only_first, bool unless_there) {
  tri_text_step *step = NULL;
  TRI_TRY(next_step(steps, where, TRI_TEXT_PREPEND, &step));
  step->put_bytes = put_bytes;
  step->only_first = only_first;
  step->unless_there = unless_there;
  return copy(put, put_bytes, &step->put);
}

void tri_text_steps_release(tri_text_steps *steps) {
  for (int i = 0; i < steps->count; i++) {
    tri_free(steps->steps[i].find);
    tri_free(steps->steps[i].put);
  }
  steps->count = 0;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static tri_status keep_part(tri_normalizer *scratch, tri_normal_part part) {
  TRI_TRY(tri_reserve(what, sizeof *scratch->parts, scratch->num_parts + 1, &scratch->parts_room, &scratch->parts));
  scratch->parts[scratch->num_parts++] = part;
  return TRI_OK;
}

static const char *find(const tri_text_step *step, const char *text, size_t bytes) {
  const char *at = text, *end = text + bytes;
  while ((size_t)(end - at) >= step->find_bytes &&
         (at = memchr(at, step->find[0], (size_t)(end - at) - step->find_bytes + 1)) != NULL) {
    if (memcmp(at, step->find, step->find_bytes) == 0) return at;
    at++;
  }
  return NULL;
}

static size_t count_finds(const tri_text_step *step, const char *text, size_t bytes) {
  const char *end = text + bytes;
  size_t count = 0;
  if (step->find_bytes == 1) { /* a loop that compilers vectorize */
    for (size_t i = 0; i < bytes; i++) count += text[i] == step->find[0];
    return count;
  }
  for (const char *at = text; (at = find(step, at, (size_t)(end - at))) != NULL; at += step->find_bytes) count++;
  return count;
}

static tri_status replace(tri_stepper *stepper, const tri_text_step *step, tri_normalizer *scratch, const char **text,
                          size_t *bytes) {
  size_t count = count_finds(step, *text, *bytes);
  if (count == 0) return TRI_OK;
  size_t length = *bytes - count * step->find_bytes + count * step->put_bytes;
  TRI_TRY(tri_reserve(what, 1, length, &scratch->room, &scratch->text));
  const char *from = *text, *end = *text + *bytes;
  char *out = scratch->text;
  for (size_t i = 0; i < count; i++) {
    const char *found = find(step, from, (size_t)(end - from));
    memcpy(out, from, (size_t)(found - from));
    out += found - from;
    memcpy(out, step->put, step->put_bytes);
    from = found + step->find_bytes;
    out += step->put_bytes;
    if (!stepper->keep_parts) continue;
    size_t to = (size_t)(from - *text), stop = (size_t)(out - scratch->text);
    TRI_TRY(keep_part(scratch, (tri_normal_part){to - step->find_bytes, to, stop - step->put_bytes, stop}));
  }
  memcpy(out, from, (size_t)(end - from));
  *text = scratch->text;
  *bytes = length;
  return TRI_OK;
}

static tri_status prepend(const tri_text_step *step, tri_text_place place, tri_normalizer *scratch, const char **text,
                          size_t *bytes) {
  bool there = *bytes >= step->put_bytes && memcmp(*text, step->put, step->put_bytes) == 0;
  if ((place.first && place.continues) || (step->only_first && !place.first)) return TRI_OK;
  if (*bytes == 0 || step->put_bytes == 0 || (step->unless_there && there)) return TRI_OK;
  TRI_TRY(tri_reserve(what, 1, step->put_bytes + *bytes, &scratch->room, &scratch->text));
  memcpy(scratch->text, step->put, step->put_bytes);
  memcpy(scratch->text + step->put_bytes, *text, *bytes);
  TRI_TRY(keep_part(scratch, (tri_normal_part){0, 0, 0, step->put_bytes}));
  *text = scratch->text;
  *bytes += step->put_bytes;
  return TRI_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

tri_status tri_stepper_run(tri_stepper *stepper, const tri_text_steps *steps, tri_text_place place, const char *text,
                           size_t bytes, const char **out, size_t *out_bytes) {
  for (int i = 0; i < steps->count; i++) {
    const tri_text_step *step = &steps->steps[i];
    tri_normalizer *scratch = &stepper->scratch[i];
    const char *before = text;
    scratch->num_parts = 0;
    switch (step->kind) {
      case TRI_TEXT_NFC: TRI_TRY(tri_normalize(scratch, before, bytes, &text, &bytes)); break;
      case TRI_TEXT_REPLACE: TRI_TRY(replace(stepper, step, scratch, &text, &bytes)); break;
      case TRI_TEXT_PREPEND: TRI_TRY(prepend(step, place, scratch, &text, &bytes)); break;
    }
    stepper->changed[i] = text != before;
  }
  *out = text;
  *out_bytes = bytes;
  return TRI_OK;
}

static void undo_one(const tri_normalizer *scratch, size_t *ends, int64_t count) {
  size_t k = 0;
  for (int64_t i = 0; i < count; i++) {
    while (k < scratch->num_parts && scratch->parts[k].end <= ends[i]) k++;
    if (k < scratch->num_parts && scratch->parts[k].begin < ends[i]) {
      ends[i] = scratch->parts[k].to;
    } else if (k > 0) {
      ends[i] += scratch->parts[k - 1].to - scratch->parts[k - 1].end;
    }
  }
}

void tri_stepper_undo(const tri_stepper *stepper, const tri_text_steps *steps, size_t begin, size_t *ends,
                      int64_t count) {
  for (int i = steps->count - 1; i >= 0; i--) {
    if (stepper->changed[i]) undo_one(&stepper->scratch[i], ends, count);
  }
  for (int64_t i = 0; i < count; i++) ends[i] += begin;
}

static void follow_one(const tri_normalizer *scratch, tri_text_range *ranges, int64_t count) {
  const tri_normal_part *parts = scratch->parts;
  size_t first = 0,
         last = 0; /* first: number of parts before the beginning of a range; last: number of parts before its end */
  for (int64_t i = 0; i < count; i++) {
    tri_text_range *range = &ranges[i];
    while (first < scratch->num_parts && parts[first].to <= range->begin) first++;
    while (last < scratch->num_parts && parts[last].to <= range->end) last++;
    if (first < scratch->num_parts && parts[first].from < range->begin) {
      range->begin = parts[first].begin;
    } else if (first > 0) {
      range->begin += parts[first - 1].end - parts[first - 1].to;
    }
    if (last < scratch->num_parts && parts[last].from < range->end) {
      range->end = parts[last].end;
    } else if (last > 0) {
      range->end += parts[last - 1].end - parts[last - 1].to;
    }
  }
}

void tri_stepper_follow(const tri_stepper *stepper, const tri_text_steps *steps, tri_text_range *ranges,
                        int64_t count) {
  for (int i = 0; i < steps->count; i++) {
    if (stepper->changed[i]) follow_one(&stepper->scratch[i], ranges, count);
  }
}

void tri_stepper_release(tri_stepper *stepper) {
  for (int i = 0; i < TRI_MAX_TEXT_STEPS; i++) tri_normalizer_release(&stepper->scratch[i]);
}
