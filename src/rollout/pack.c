#include "rollout/pack.h"

#include "base/memory.h"
#include "data/packing.h"
#include "mesh/label.h"

/* ---- normalisers ------------------------------------------------------------------------------------------------- */

void tri_rollout_normalisers(const tri_rollout_batch *batch, tri_loss_type type, int64_t max_completion_length,
                             int64_t parts, double *out) {
  const int64_t count = tri_rollout_batch_count(batch);
  int64_t labels = 0;
  for (int64_t i = 0; i < count; i++) labels += batch->list[i].counts ? batch->list[i].count : 0;
  for (int64_t i = 0; i < count; i++) {
    const double own = (double)batch->list[i].count, all = (double)count / (double)parts;
    switch (type) {
      case TRI_LOSS_TYPE_DAPO:
      case TRI_LOSS_TYPE_CISPO: out[i] = labels == 0 ? 0 : (double)parts / (double)labels; break;
      case TRI_LOSS_TYPE_GRPO: out[i] = own == 0 ? 0 : 1 / (all * own); break;
      case TRI_LOSS_TYPE_DR_GRPO: out[i] = 1 / (all * (double)max_completion_length); break;
    }
  }
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Fills tokens [first, tokens) of a sample with padding. The padding is divided into short documents, which keeps
 * attention's work on it small. */
static void fill_padding(const tri_sample *row, int64_t first, int64_t tokens) {
  const tri_sample rest = tri_sample_from(row, first);
  tri_sample_fill_padding(tokens - first, &rest);
  for (int64_t i = 0; i < tokens - first; i++) rest.positions[i] = (int32_t)(i % TRI_PACKING_FILLING);
}

/* Sets a value of a column; NULL: the samples do not have the column. */
static void set_value(double *column, int64_t i, double value) {
  if (column != NULL) column[i] = value;
}

/* Writes a completion and its prompt from token `first` of a sample on, as completion `number` of the sample. */
static void write_document(const tri_rollout_completion *c, double normaliser, int64_t number, int64_t first,
                           const tri_sample *row) {
  const tri_sample to = tri_sample_from(row, first);
  const int64_t prompt = c->prompt->count, tokens = tri_packed_tokens(c);
  const tri_tokens blanks = {0};
  tri_sample_fill(&blanks, 0, tokens, &to);
  for (int64_t i = 0; i < tokens; i++) {
    const int64_t label = i + 1 - prompt; /* index of the label in the completion */
    to.ids[i] = i < prompt ? c->prompt->ids[i] : c->ids[i - prompt];
    to.labels[i] = label < 0 ? TRI_LABEL_NONE : c->ids[label];
    if (label < 0 || to.segments == NULL) continue;
    to.segments[i] = (int32_t)number;
    set_value(to.advantage, i, c->advantage);
    set_value(to.normaliser, i, normaliser);
    set_value(to.behaviour, i, c->behaviour[label]);
    if (c->old != NULL) set_value(to.old, i, c->old[label]);
    if (c->reference != NULL) set_value(to.reference, i, c->reference[label]);
  }
}

/* The completions with `counts` set, sorted by their number of tokens (tri_packed_tokens). `sequence`: tokens of a
 * sample. */
typedef struct by_length {
  int64_t *counts; /* [sequence + 1], number of completions with each number of tokens */
  int64_t *begins; /* [sequence + 2], first index in `order` for each number of tokens */
  int64_t *order;  /* [count], indices of completions, by number of tokens and then in the order of the request */
} by_length;

static void release_order(by_length *order) {
  tri_free(order->counts);
  tri_free(order->begins);
  tri_free(order->order);
}

static tri_status sort_by_length(const tri_pack_request *request, int64_t sequence, by_length *out) {
  TRI_TRY(tri_alloc("lengths of completions", (size_t)sequence + 1, sizeof *out->counts, &out->counts));
  TRI_TRY(tri_alloc("lengths of completions", (size_t)sequence + 2, sizeof *out->begins, &out->begins));
  TRI_TRY(tri_alloc("lengths of completions", (size_t)request->count + 1, sizeof *out->order, &out->order));
  for (int64_t i = 0; i < request->count; i++) {
    const int64_t tokens = tri_packed_tokens(request->list[i]);
    if (!request->list[i]->counts) continue;
    if (tokens > sequence) return tri_fail_internal("a completion has %ld tokens", (long)tokens);
    out->counts[tokens]++;
  }
  for (int64_t l = 0; l <= sequence; l++) out->begins[l + 1] = out->begins[l] + out->counts[l];
  for (int64_t i = 0; i < request->count; i++) {
    const int64_t tokens = tri_packed_tokens(request->list[i]);
    if (request->list[i]->counts) out->order[out->begins[tokens]++] = i;
  }
  for (int64_t l = sequence; l >= 0; l--) out->begins[l + 1] = out->begins[l];
  out->begins[0] = 0;
  return TRI_OK;
}

static void write_sample(const tri_pack_request *request, const tri_packing *packing, const by_length *order,
                         int64_t sample, const tri_sample *row, int64_t tokens, tri_packed *packed) {
  tri_packing_cursor cursor = tri_packing_at(packing, sample);
  int64_t length = 0, which = 0, at = 0;
  for (int64_t number = 0; tri_packing_next(&cursor, &length, &which); number++) {
    const int64_t i = order->order[order->begins[length] + which];
    write_document(request->list[i], request->normalisers[i], number, at, row);
    packed[i] = (tri_packed){sample, at + request->list[i]->prompt->count - 1};
    at += length;
  }
  fill_padding(row, at, tokens);
}

tri_status tri_rollout_pack(const tri_pack_request *request, tri_held_samples *to, tri_packed *packed) {
  by_length order = {0};
  tri_packing *packing = NULL;
  for (int64_t i = 0; i < request->count; i++) packed[i] = (tri_packed){-1, 0};
  tri_status status = sort_by_length(request, to->sequence, &order);
  if (status == TRI_OK && order.begins[to->sequence + 1] == 0) { /* no completion counts */
    to->count = 1;
    fill_padding(&to->rows, 0, to->sequence);
    release_order(&order);
    return TRI_OK;
  }
  if (status == TRI_OK) status = tri_packing_create(to->sequence, order.counts, &packing);
  if (status == TRI_OK) to->count = tri_packing_sequences(packing);
  if (status == TRI_OK && to->count > to->room) status = tri_fail_internal("%ld samples", (long)to->count);
  for (int64_t s = 0; status == TRI_OK && s < to->count; s++) {
    const tri_sample row = tri_sample_from(&to->rows, s * to->sequence);
    write_sample(request, packing, &order, s, &row, to->sequence, packed);
  }
  tri_packing_destroy(packing);
  release_order(&order);
  return status;
}
