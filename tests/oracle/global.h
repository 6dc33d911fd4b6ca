/* The global tensors of what many ranks hold, on the first of them: for comparisons. */
#ifndef TRI_TESTS_GLOBAL_H
#define TRI_TESTS_GLOBAL_H

#include "engine/engine.h"

typedef enum tri_array { TRI_ARRAY_VALUES, TRI_ARRAY_GRADIENTS } tri_array;

/* COLLECTIVE over the mesh. The global tensor of entry `index` of the table in one of the arrays, wide and dense, on
 * the first rank of the mesh; `out` has room for it there and is not touched elsewhere (NULL is fine). A tied twin has
 * no tensor of its own. Gradients are whole after a step's program has run. A stack
 * is its tensors one behind the other; of what has no gradient, zeros. */
tri_status tri_global_collect(tri_engine *engine, tri_array array, int64_t index, void *out);

/* LOCAL. The other way round: what this rank holds of the values becomes that of a global tensor. A tied twin takes the
 * tensor that it is. */
tri_status tri_global_place(tri_engine *engine, int64_t index, void *global);

#endif
