#include "engine/first_factors.h"

#include "base/memory.h"
#include "checkpoint/base_matrix.h"
#include "checkpoint/principal.h"
#include "comm/agreement.h"
#include "engine/engine_internal.h"

#include <string.h>

/* ---- computing a matrix's values --------------------------------------------------------------------------------- */

/* Context for computing the values of one kind from a base. */
typedef struct making {
  tri_engine *engine;
  const tri_checkpoint *base;
  /* Device that quantises each matrix first, for magnitudes of a base in 4 bits; NULL: matrices are not quantised. */
  tri_device *quantiser;
  const struct kind *kind;
} making;

/* A kind of values, such as factors. The values of a matrix are computed in host memory from the whole matrix of the
 * base, and all ranks get the same values. */
typedef struct kind {
  bool (*is_of)(const tri_parameter *entry);
  size_t (*bytes)(const making *m, const tri_parameter *whole);
  tri_status (*make)(const making *m, const tri_parameter *whole, void *out);
  /* Sets the values of entry number `part` of the table, which is a part of the matrix, on this rank. */
  tri_status (*take)(const making *m, int64_t part, const void *from);
} kind;

static tri_adapter_pair pair_of(const making *m, const tri_parameter *whole) {
  return tri_adapter_pair_of(&m->engine->options.model->tuning.adapter, whole->name);
}

static int64_t inputs_of(const tri_parameter *whole) { return whole->shape[whole->in_out ? 0 : 1]; }
static int64_t outputs_of(const tri_parameter *whole) { return whole->shape[whole->in_out ? 1 : 0]; }

/* ---- factors: A, then B ------------------------------------------------------------------------------------------ */

static bool has_firsts(const tri_parameter *entry) { return entry->firsts[0] >= 0; }

static size_t bytes_of_factors(const making *m, const tri_parameter *whole) {
  const size_t sides = (size_t)inputs_of(whole) + (size_t)outputs_of(whole);
  return sides * (size_t)pair_of(m, whole).rank * sizeof(float);
}

static tri_status make_factors(const making *m, const tri_parameter *whole, void *out) {
  const tri_adapter_pair pair = pair_of(m, whole);
  const size_t a = (size_t)pair.rank * (size_t)inputs_of(whole), b = (size_t)pair.rank * (size_t)outputs_of(whole);
  tri_principal made = {0};
  TRI_TRY(tri_principal_create(m->base, whole, &pair, &made));
  memcpy(out, made.a, a * sizeof(float));
  memcpy((float *)out + a, made.b, b * sizeof(float));
  tri_principal_release(&made);
  return TRI_OK;
}

/* Sets the factors of one part of a matrix. All parts share A, which is set with the first one. */
static tri_status set_factors(const making *m, int64_t part, const void *from) {
  const tri_parameter *entry = &m->engine->parts.table->entries[part];
  const tri_parameter whole = tri_parameter_on_disk(entry);
  const float *a = from, *b = a + pair_of(m, &whole).rank * inputs_of(&whole);
  if (!tri_parameter_continues(entry)) {
    TRI_TRY(tri_weights_set(m->engine->weights, entry->factors[0], TRI_FP32, a));
    TRI_TRY(tri_weights_set(m->engine->weights, entry->firsts[0], TRI_FP32, a));
  }
  TRI_TRY(tri_weights_set(m->engine->weights, entry->factors[1], TRI_FP32, b));
  return tri_weights_set(m->engine->weights, entry->firsts[1], TRI_FP32, b);
}

static const kind principal_factors = {has_firsts, bytes_of_factors, make_factors, set_factors};

/* ---- magnitudes -------------------------------------------------------------------------------------------------- */

static bool has_magnitudes(const tri_parameter *entry) { return entry->magnitude >= 0; }

static size_t bytes_of_norms(const making *m, const tri_parameter *whole) {
  (void)m;
  return (size_t)outputs_of(whole) * sizeof(double);
}

static tri_status make_norms(const making *m, const tri_parameter *whole, void *out) {
  double *matrix = NULL;
  TRI_TRY(tri_base_matrix_read(m->base, whole, m->quantiser, &matrix));
  tri_base_matrix_norms(whole, matrix, out);
  tri_free(matrix);
  return TRI_OK;
}

static tri_status set_norms(const making *m, int64_t part, const void *from) {
  return tri_weights_set(m->engine->weights, m->engine->parts.table->entries[part].magnitude, TRI_FP64, from);
}

static const kind norms = {has_magnitudes, bytes_of_norms, make_norms, set_norms};

/* ---- sharing the work over all ranks ----------------------------------------------------------------------------- */

/* Returns the first entry from `from` on that is the first part of a matrix of this kind; num_entries if none is
 * left. */
static int64_t next_matrix(const making *m, int64_t from) {
  const tri_parameter_table *table = m->engine->parts.table;
  int64_t i = from;
  while (i < table->num_entries && (table->entries[i].factor || tri_parameter_continues(&table->entries[i]) ||
                                    !m->kind->is_of(&table->entries[i])))
    i++;
  return i;
}

/* Sets the values computed from a matrix on this rank, for all parts that it holds. */
static tri_status set_all(const making *m, int64_t first, const void *from) {
  const tri_parameter_table *table = m->engine->parts.table;
  for (int64_t i = first; i < table->num_entries; i++) {
    if (i > first && !tri_parameter_continues(&table->entries[i])) break;
    if (table->entries[i].count > 0) TRI_TRY(m->kind->take(m, i, from));
  }
  return TRI_OK;
}

static size_t most_bytes(const making *m) {
  const tri_parameter_table *table = m->engine->parts.table;
  size_t most = 0;
  for (int64_t i = next_matrix(m, 0); i < table->num_entries; i = next_matrix(m, i + 1)) {
    const tri_parameter whole = tri_parameter_on_disk(&table->entries[i]);
    const size_t bytes = m->kind->bytes(m, &whole);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Computes the values of the next matrices from entry `first` on, one matrix on each rank, and broadcasts and sets
 * them. Sets *next to the first matrix after these. */
static tri_status make_round(const making *m, int64_t first, void *own, void *sent, int64_t *next) {
  const tri_group *world = &m->engine->options.mesh->world;
  const tri_parameter_table *table = m->engine->parts.table;
  tri_status status = TRI_OK;
  int64_t i = first;
  for (int rank = 0; rank < world->size && i < table->num_entries; rank++, i = next_matrix(m, i + 1)) {
    const tri_parameter whole = tri_parameter_on_disk(&table->entries[i]);
    if (rank == world->rank) status = m->kind->make(m, &whole, own);
  }
  TRI_TRY(tri_common_status(world, status));
  i = first;
  for (int rank = 0; rank < world->size && i < table->num_entries; rank++, i = next_matrix(m, i + 1)) {
    const tri_parameter whole = tri_parameter_on_disk(&table->entries[i]);
    void *values = rank == world->rank ? own : sent;
    TRI_TRY(tri_broadcast(world, rank, m->kind->bytes(m, &whole), values));
    if (status == TRI_OK) status = set_all(m, i, values);
  }
  *next = i;
  return tri_common_status(world, status);
}

/* Computes and sets the values of all matrices. All ranks list the matrices in the same order. */
static tri_status make_all(const making *m) {
  const tri_group *world = &m->engine->options.mesh->world;
  const size_t bytes = most_bytes(m);
  void *own = NULL, *sent = NULL;
  tri_status status = tri_alloc("what factors begin with", bytes, 1, &own);
  if (status == TRI_OK) status = tri_alloc("what factors begin with", bytes, 1, &sent);
  status = tri_common_status(world, status);
  for (int64_t i = next_matrix(m, 0); i < m->engine->parts.table->num_entries && status == TRI_OK;)
    status = make_round(m, i, own, sent, &i);
  tri_free(own);
  tri_free(sent);
  return status;
}

tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base) {
  return make_all(&(making){engine, base, NULL, &principal_factors});
}

tri_status tri_engine_begin_magnitudes(tri_engine *engine, const tri_checkpoint *base) {
  making m = {engine, base, NULL, &norms};
  tri_status status = tri_base_matrix_quantiser(engine->options.model->tuning.adapter.quantise, &m.quantiser);
  status = tri_common_status(&engine->options.mesh->world, status);
  if (status == TRI_OK) status = make_all(&m);
  tri_device_destroy(m.quantiser);
  return status;
}
