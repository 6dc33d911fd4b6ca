/* The parameter table: the one place that knows a parameter. Initialisation, the optimizer's decay groups, checkpoints,
 * memory planning and `inspect` all read it.
 *
 * Values, gradients and the optimizer's moments are each one flat array; `offset` is a parameter's place in all of
 * them. */
#ifndef TRI_MODEL_PARAMETERS_H
#define TRI_MODEL_PARAMETERS_H

#include "model/model.h"

#include <stddef.h>

typedef enum tri_init { TRI_INIT_ZERO, TRI_INIT_ONE, TRI_INIT_NORMAL } tri_init;

typedef enum tri_part { TRI_PART_EMBEDDING, TRI_PART_ATTENTION, TRI_PART_MLP, TRI_PART_NORM, TRI_PART_HEAD } tri_part;
enum { TRI_NUM_PARTS = 5 };

typedef struct tri_parameter {
  char name[80]; /* Hugging Face's */
  int num_dims;
  int64_t shape[2]; /* global */
  int split_dim;    /* dimension that tensor parallelism splits, or -1: every rank holds the whole */
  int64_t layer;    /* -1 before the first, num_layers behind the last */
  tri_part part;
  tri_init init;
  double std;     /* TRI_INIT_NORMAL */
  bool decay;     /* weight decay applies: matrices, not biases and norms */
  bool joined;    /* lies directly behind the one before it: together they are one matrix of a product */
  int64_t count;  /* elements */
  int64_t offset; /* first element in the flat arrays */
} tri_parameter;

typedef struct tri_parameter_table {
  tri_parameter *entries;
  int64_t num_entries;
  int64_t num_elements; /* of a flat array, padding included */
  int64_t num_values;   /* of the model */
} tri_parameter_table;

/* The table of a complete model. Release with tri_parameter_table_destroy. */
tri_status tri_parameter_table_create(const tri_model *model, tri_parameter_table **out);
void tri_parameter_table_destroy(tri_parameter_table *table);

const char *tri_part_name(tri_part part);

/* ---- for the families ------------------------------------------------------------------------------------------ */

/* A vector of a norm; a bias; a matrix with normal initial values; the same lying directly behind the one before. */
tri_parameter tri_parameter_norm(int64_t width, tri_init init);
tri_parameter tri_parameter_bias(tri_part part, int64_t width, int split_dim);
tri_parameter tri_parameter_matrix(tri_part part, int64_t rows, int64_t columns, int split_dim, double std);
tri_parameter tri_parameter_joined(tri_parameter parameter);

/* Appends one entry: fills name, layer, count, offset and decay, and gives back its index (out may be NULL). A `name`
 * with %ld in it gets the layer's number. */
tri_status tri_parameter_table_add(tri_parameter_table *table, const char *name, int64_t layer, tri_parameter parameter,
                                   int32_t *out);

#endif
