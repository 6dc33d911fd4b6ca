#include "engine/batch_cuts.h"

#include "base/memory.h"

int64_t tri_document_end(const int32_t *positions, int64_t first, int64_t end) {
  int64_t t = first + 1;
  while (t < end && positions[t] != 0) t++;
  return t;
}

/* The position may exceed the index, because a document may begin before the sequence; no rank has its earlier
 * tokens. */
int64_t tri_document_begin(const int32_t *positions, int64_t token) {
  return token > positions[token] ? token - positions[token] : 0;
}

/* Returns whether the cuts depend on the documents. If the context ranks only exchange heads (outer 1), each rank has
 * all tokens for its heads, and all ranks have equal work whatever the documents are. */
static bool follows_documents(const tri_op_context *context) { return context->masked && context->outer > 1; }

static tri_status create_documents(tri_batch_cuts *cuts) {
  const tri_op_context *context = &cuts->context;
  int64_t *joined = NULL;
  TRI_TRY(tri_alloc("parts of sequences", (size_t)context->outer, sizeof *cuts->load, &cuts->load));
  TRI_TRY(tri_alloc("parts of sequences", (size_t)context->outer, sizeof *joined, &joined));
  for (int64_t r = 0; r < context->outer; r++) joined[r] = tri_op_context_joined_rows(context, r);
  tri_status status =
      tri_document_cut_create(context->tokens, context->outer, joined, context->row_pairs, &cuts->documents);
  tri_free(joined);
  return status;
}

/* Creates empty cuts of a sequence, with room for the largest number of ranges that documents can lead to. */
static tri_status create_room(tri_batch_cuts *cuts, int64_t b) {
  const tri_op_context *context = &cuts->context;
  TRI_TRY(tri_sequence_cut_create(context->ranks, context->tokens, &cuts->own[b]));
  TRI_TRY(tri_sequence_cut_create(context->outer, context->tokens, &cuts->joined[b]));
  if (!tri_op_context_gathers(context)) return TRI_OK;
  return tri_sequence_cut_create(context->outer, context->outer * context->tokens, &cuts->keys[b]);
}

static tri_status create_one(tri_batch_cuts *cuts, int64_t b) {
  const tri_op_context *context = &cuts->context;
  if (follows_documents(context)) return create_room(cuts, b);
  TRI_TRY(tri_sequence_cut_zigzag(context->tokens, context->ranks, &cuts->own[b]));
  TRI_TRY(tri_sequence_cut_join(&cuts->own[b], context->inner, &cuts->joined[b]));
  TRI_TRY(tri_sequence_cut_create(context->outer, context->outer, &cuts->keys[b]));
  for (int64_t r = 0; r < context->outer; r++) {
    tri_sequence_cut_append(&cuts->keys[b], r, (tri_token_range){0, context->tokens});
  }
  return TRI_OK;
}

static tri_status fill_batch_cuts(tri_batch_cuts *cuts) {
  const tri_op_context *context = &cuts->context;
  size_t batch = (size_t)cuts->batch;
  TRI_TRY(tri_alloc("parts of sequences", batch, sizeof *cuts->own, &cuts->own));
  TRI_TRY(tri_alloc("parts of sequences", batch, sizeof *cuts->joined, &cuts->joined));
  TRI_TRY(tri_alloc("parts of sequences", batch, sizeof *cuts->keys, &cuts->keys));
  TRI_TRY(tri_alloc("parts of sequences", (size_t)context->ranks, sizeof *cuts->rows, &cuts->rows));
  for (int64_t r = 0; r < context->ranks; r++) cuts->rows[r] = tri_op_context_rows(context, r);
  if (follows_documents(context)) TRI_TRY(create_documents(cuts));
  for (int64_t b = 0; b < cuts->batch; b++) TRI_TRY(create_one(cuts, b));
  return TRI_OK;
}

tri_status tri_batch_cuts_create(const tri_op_context *context, int64_t batch, tri_batch_cuts *out) {
  *out = (tri_batch_cuts){.context = *context, .batch = batch};
  tri_status status = fill_batch_cuts(out);
  if (status != TRI_OK) tri_batch_cuts_destroy(out);
  return status;
}

static void destroy_cuts(tri_sequence_cut *cuts, int64_t count) {
  for (int64_t b = 0; b < count && cuts != NULL; b++) tri_sequence_cut_destroy(&cuts[b]);
  tri_free(cuts);
}

void tri_batch_cuts_destroy(tri_batch_cuts *cuts) {
  destroy_cuts(cuts->own, cuts->batch);
  destroy_cuts(cuts->joined, cuts->batch);
  destroy_cuts(cuts->keys, cuts->batch);
  tri_document_cut_destroy(cuts->documents);
  tri_free(cuts->rows);
  tri_free(cuts->load);
  *cuts = (tri_batch_cuts){0};
}

/* Finds the keys that each part needs: for each document with tokens in the part, the keys from the first token of the
 * document to its last token in the part. */
static void find_keys(const tri_sequence_cut *joined, const int32_t *positions, tri_sequence_cut *keys) {
  tri_sequence_cut_clear(keys);
  for (int64_t p = 0; p < joined->parts; p++) {
    for (int64_t i = joined->begins[p]; i < joined->begins[p + 1]; i++) {
      int64_t end = 0;
      for (int64_t t = joined->ranges[i].first; t < joined->ranges[i].end; t = end) {
        end = tri_document_end(positions, t, joined->ranges[i].end);
        tri_sequence_cut_append(keys, p, (tri_token_range){tri_document_begin(positions, t), end});
      }
    }
  }
}

void tri_batch_cuts_make(tri_batch_cuts *cuts, const int32_t *positions) {
  const tri_op_context *context = &cuts->context;
  if (cuts->documents == NULL) return;
  for (int64_t r = 0; r < context->outer; r++) cuts->load[r] = 0;
  for (int64_t b = 0; b < cuts->batch; b++) {
    const int32_t *at = positions + b * context->tokens;
    tri_document_cut_sequence(cuts->documents, at, cuts->load, &cuts->joined[b]);
    tri_sequence_cut_divide(&cuts->joined[b], cuts->rows, &cuts->own[b]);
    if (tri_op_context_gathers(context)) find_keys(&cuts->joined[b], at, &cuts->keys[b]);
  }
}
