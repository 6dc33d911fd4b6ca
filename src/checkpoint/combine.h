/* What several models' tensors are put together to: the methods of `trireme merge`, on one tensor of each in fp32.
 * Every operation is rounded to fp32 by itself, in the order that is written here, so that the same operations in any
 * library give the same bits; what slerp and the trimming of TIES need of a whole tensor is summed in fp64. */
#ifndef TRI_CHECKPOINT_COMBINE_H
#define TRI_CHECKPOINT_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_COMBINE_MODELS = 64 };

typedef struct tri_combine_settings {
  double weights[TRI_COMBINE_MODELS];
  double scale;   /* of what is added to the base */
  double density; /* of each model's differences, those that TIES keeps: in (0, 1] */
  double t;       /* slerp: 0 is the first model, 1 the second */
} tri_combine_settings;

/* values[i] are the models' `count` elements, which may be overwritten; base is NULL if the method needs none. */
typedef void tri_combine(const tri_combine_settings *settings, int models, int64_t count, float *const *values,
                         const float *base, float *out);

typedef struct tri_combine_method {
  const char *name;
  tri_combine *combine;
  int models;                      /* how many it takes; 0: any number */
  bool base;                       /* it needs one */
  bool weights, scale, density, t; /* which of the settings it takes */
} tri_combine_method;

/* NULL if there is none of that name. */
const tri_combine_method *tri_combine_find(const char *name);

#endif
