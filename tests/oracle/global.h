/* The global tensors of what many ranks hold, on the first of them: for comparisons. */
#ifndef TRI_TESTS_GLOBAL_H
#define TRI_TESTS_GLOBAL_H

#include "engine/engine.h"

typedef enum tri_array { TRI_ARRAY_VALUES, TRI_ARRAY_GRADIENTS, TRI_ARRAY_MOMENT1, TRI_ARRAY_MOMENT2 } tri_array;

/* COLLECTIVE over the mesh. The global tensor of entry `index` of the table in one of the arrays, wide and dense, on
 * the first rank of the mesh; `out` has room for it there and is not touched elsewhere (NULL is fine). A tied twin has
 * no tensor of its own. Gradients are whole after a step's program has run. */
tri_status tri_global_collect(tri_engine *engine, tri_array array, int64_t index, void *out);

#endif
