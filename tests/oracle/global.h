/* Collects the global tensors of a mesh on its first rank, for comparisons. */
#ifndef TRI_TESTS_GLOBAL_H
#define TRI_TESTS_GLOBAL_H

#include "engine/engine.h"

typedef enum tri_array { TRI_ARRAY_VALUES, TRI_ARRAY_GRADIENTS } tri_array;

/* COLLECTIVE over the mesh. Sets out to the global tensor of entry `index` of the table in one of the arrays, wide and
 * dense, on the first rank of the mesh; other ranks do not use `out` (it may be NULL). A stack gives its tensors one
 * after the other; a parameter without gradient gives zeros. Gradients are complete after a step's program has run.
 * Tied twins have no tensor of their own. */
tri_status tri_global_collect(tri_engine *engine, tri_array array, int64_t index, void *out);

/* LOCAL. Sets this rank's part of the values of entry `index` from the global tensor. For a tied twin, `global` is the
 * tensor that it is tied to. */
tri_status tri_global_place(tri_engine *engine, int64_t index, void *global);

#endif
