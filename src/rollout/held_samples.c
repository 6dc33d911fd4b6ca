#include "rollout/held_samples.h"

#include "base/count.h"
#include "base/memory.h"

#include <string.h>

enum { TAG = 1 };

static int readers_of(const tri_held_samples *s) { return tri_mesh_group(s->mesh, TRI_DOMAIN_BATCH)->size; }

tri_status tri_held_samples_create(unsigned columns, int64_t sequence, int64_t most, int64_t micro_batch,
                                   const tri_mesh *mesh, tri_held_samples *out) {
  *out = (tri_held_samples){.columns = columns, .sequence = sequence, .mesh = mesh, .micro_batch = micro_batch};
  out->room = mesh->world.rank == 0 ? most : most / readers_of(out);
  return tri_sample_alloc(columns, out->room * sequence, &out->rows);
}

void tri_held_samples_release(tri_held_samples *samples) { tri_sample_free(&samples->rows); }

static size_t sample_bytes(const tri_held_samples *s) {
  size_t bytes = 0;
  for (int c = 0; c < TRI_NUM_BATCH_COLUMNS; c++) {
    if ((s->columns & (1u << c)) != 0) bytes += tri_columns[c].element;
  }
  return bytes * (size_t)s->sequence;
}

/* Copies a sample to a message or from it. Returns the end of the sample in the message. */
static char *pass_sample(const tri_sample *rows, int64_t sequence, bool to_message, char *message) {
#define PASS(NAME, TYPE, ...)                                                                                          \
  if (rows->NAME != NULL) {                                                                                            \
    const size_t bytes = (size_t)sequence * sizeof(TYPE);                                                              \
    memcpy(to_message ? (void *)message : (void *)rows->NAME, to_message ? (void *)rows->NAME : (void *)message,       \
           bytes);                                                                                                     \
    message += bytes;                                                                                                  \
  }
  TRI_SAMPLE_COLUMNS(PASS)
#undef PASS
  return message;
}

/* Returns the number of samples of the batch that reader `reader` reads. Micro-batches go to the readers in turn. */
static int64_t samples_of(const tri_held_samples *s, int64_t reader) {
  int64_t count = 0;
  for (int64_t first = reader * s->micro_batch; first < s->count; first += readers_of(s) * s->micro_batch)
    count += tri_smaller(s->micro_batch, s->count - first);
  return count;
}

/* Returns the index in the batch of the sample with index `own` among those of reader `reader`. */
static int64_t sample_at(const tri_held_samples *s, int64_t reader, int64_t own) {
  return (own / s->micro_batch * readers_of(s) + reader) * s->micro_batch + own % s->micro_batch;
}

static tri_status send_samples(const tri_held_samples *s, int rank, int64_t reader) {
  const int64_t count = samples_of(s, reader);
  char *message = NULL;
  tri_request *request = NULL;
  if (count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("a message of samples", (size_t)count, sample_bytes(s), &message));
  char *at = message;
  for (int64_t i = 0; i < count; i++) {
    const tri_sample row = tri_sample_from(&s->rows, sample_at(s, reader, i) * s->sequence);
    at = pass_sample(&row, s->sequence, true, at);
  }
  tri_status status = tri_send_start(&s->mesh->world, rank, TAG, (size_t)count * sample_bytes(s), message, &request);
  if (status == TRI_OK) status = tri_request_wait(&request);
  tri_free(message);
  return status;
}

static tri_status receive_samples(const tri_held_samples *s, int64_t reader) {
  const int64_t count = samples_of(s, reader);
  char *message = NULL;
  tri_request *request = NULL;
  if (count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("a message of samples", (size_t)count, sample_bytes(s), &message));
  tri_status status = tri_receive_start(&s->mesh->world, 0, TAG, (size_t)count * sample_bytes(s), message, &request);
  if (status == TRI_OK) status = tri_request_wait(&request);
  char *at = message;
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    const tri_sample row = tri_sample_from(&s->rows, i * s->sequence);
    at = pass_sample(&row, s->sequence, false, at);
  }
  tri_free(message);
  return status;
}

tri_status tri_held_samples_share(tri_held_samples *s) {
  const tri_group *world = &s->mesh->world;
  const int32_t reader = tri_mesh_group(s->mesh, TRI_DOMAIN_BATCH)->rank;
  int32_t *all = NULL;
  if (world->size == 1) return TRI_OK;
  TRI_TRY(tri_broadcast(world, 0, sizeof s->count, &s->count));
  TRI_TRY(tri_alloc("the readers of samples", (size_t)world->size, sizeof *all, &all));
  tri_status status = tri_gather_bytes(world, sizeof reader, &reader, all);
  for (int rank = 1; rank < world->size && status == TRI_OK && world->rank == 0; rank++)
    status = send_samples(s, rank, all[rank]);
  if (status == TRI_OK && world->rank > 0) status = receive_samples(s, reader);
  tri_free(all);
  return status;
}

static tri_status read_held(const void *from, int64_t index, const tri_sample *out) {
  const tri_held_samples *s = from;
  const int64_t reader = tri_mesh_group(s->mesh, TRI_DOMAIN_BATCH)->rank, batch = index / s->micro_batch;
  const bool whole = s->mesh->world.rank == 0;
  const int64_t own = batch / readers_of(s) * s->micro_batch + index % s->micro_batch;
  if (index >= s->count || (!whole && batch % readers_of(s) != reader)) {
    return tri_fail_internal("sample %ld of %ld is not one that this rank reads", (long)index, (long)s->count);
  }
  const tri_sample row = tri_sample_from(&s->rows, (whole ? index : own) * s->sequence);
#define COPY(NAME, TYPE, ...)                                                                                          \
  if (out->NAME != NULL) memcpy(out->NAME, row.NAME, (size_t)s->sequence * sizeof(TYPE));
  TRI_SAMPLE_COLUMNS(COPY)
#undef COPY
  return TRI_OK;
}

tri_feed tri_held_samples_feed(const tri_held_samples *samples) { return (tri_feed){read_held, samples}; }
