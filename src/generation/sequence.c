#include "generation/sequence.h"

#include "base/count.h"
#include "base/memory.h"

#include <string.h>

const char *tri_finish_name(tri_finish finish) {
  switch (finish) {
    case TRI_FINISH_NONE: return "none";
    case TRI_FINISH_READ: return "read";
    case TRI_FINISH_LENGTH: return "length";
    case TRI_FINISH_END: return "end";
    case TRI_FINISH_STOP: return "stop";
    case TRI_FINISH_CANCELLED: return "cancelled";
    case TRI_FINISH_FAILED: return "failed";
  }
  return "?";
}

const int32_t *tri_sequence_ids(const tri_sequence *sequence, int64_t *count) {
  *count = sequence->count;
  return sequence->ids;
}

int64_t tri_sequence_sampled(const tri_sequence *sequence) { return sequence->sampled; }
tri_finish tri_sequence_finish(const tri_sequence *sequence) { return sequence->finish; }
bool tri_sequence_has_slid(const tri_sequence *sequence) { return sequence->slid; }

static tri_status reserve(tri_sequence *s, int64_t more) {
  const int64_t room = 2 * s->capacity + more + 64;
  if (s->count + more <= s->capacity) return TRI_OK;
  TRI_TRY(tri_realloc("tokens", (size_t)room, sizeof *s->ids, &s->ids));
  s->capacity = room;
  return TRI_OK;
}

tri_status tri_sequence_append(tri_sequence *s, const int32_t *ids, int64_t count) {
  TRI_TRY(reserve(s, count));
  if (count > 0) memcpy(s->ids + s->count, ids, (size_t)count * sizeof *ids);
  s->count += count;
  return TRI_OK;
}

tri_status tri_sequence_lay_guesses(tri_sequence *s, int64_t count) {
  TRI_TRY(reserve(s, count));
  memcpy(s->ids + s->count, s->guesses, (size_t)count * sizeof *s->ids);
  return TRI_OK;
}

tri_status tri_sequence_add_page(tri_sequence *s, int32_t page) {
  TRI_TRY(tri_grow("pages", sizeof *s->pages, s->num_pages, &s->pages_room, &s->pages));
  s->pages[s->num_pages++] = page;
  return TRI_OK;
}

void tri_sequence_trim_pages(tri_sequence *s, tri_pages *pages) {
  while (s->num_pages * TRI_PAGE_ROWS >= s->held + TRI_PAGE_ROWS) tri_pages_release(pages, s->pages[--s->num_pages]);
}

void tri_sequence_give_back_pages(tri_sequence *s, tri_pages *pages, int64_t window) {
  if (window == 0) return;
  while (s->gone < s->num_pages && (s->gone + 1) * TRI_PAGE_ROWS + window <= s->held + 1)
    tri_pages_release(pages, s->pages[s->gone++]);
}

void tri_sequence_keep_positions(tri_sequence *s, tri_pages *pages, int64_t held, int64_t window) {
  if (s->held <= held) return;
  s->held = held;
  if (s->gone > 0 && s->gone * TRI_PAGE_ROWS + window > held + 1) tri_sequence_drop_pages(s, pages);
  tri_sequence_trim_pages(s, pages);
}

/* Releases the last page first: the earliest cached pages are the most useful ones. */
void tri_sequence_drop_pages(tri_sequence *s, tri_pages *pages) {
  while (s->num_pages > s->gone) tri_pages_release(pages, s->pages[--s->num_pages]);
  if (s->copied >= 0) tri_pages_release(pages, s->copied);
  s->copied = -1;
  s->num_pages = s->gone = s->held = s->kept = 0;
  s->prefix = s->root;
}

void tri_sequence_set_root(tri_sequence *s, tri_pages *pages, tri_prefix root) {
  s->root = root;
  tri_sequence_drop_pages(s, pages);
}

void tri_sequence_slide(tri_sequence *s, tri_pages *pages, int64_t positions) {
  const bool read = s->held > 0 || s->offset > 0;
  if (s->target - s->offset <= positions) return;
  s->offset = s->target - (read ? (positions + 1) / 2 : positions);
  s->slid = true;
  tri_sequence_drop_pages(s, pages);
}

bool tri_sequence_has_started(const tri_sequence *s) { return s->has_place || s->sampled > 0; }

/* A score of a given token comes from the logits of the token before it. */
int64_t tri_sequence_wants_logits(const tri_sequence *s) {
  const int64_t samples = s->options.wanted > 0 ? 1 : 0;
  return s->sampled == 0 ? s->options.scored + samples : samples;
}

int64_t tri_sequence_must_read(const tri_sequence *s) { return tri_larger(1, tri_sequence_wants_logits(s)); }

bool tri_sequence_ends_with(const tri_sequence *s, int32_t id) {
  for (int i = 0; i < s->options.num_ends; i++) {
    if (s->options.ends[i] == id) return true;
  }
  return false;
}

void tri_sequence_destroy(tri_sequence *s, tri_pages *pages) {
  tri_sequence_drop_pages(s, pages);
  tri_free(s->pages);
  tri_free(s->ids);
  tri_free(s);
}
