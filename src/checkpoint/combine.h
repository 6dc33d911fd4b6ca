/* Merging several models: the methods of `trireme merge`, on one tensor of each model in fp32. Every operation is
 * rounded to fp32 separately, in the order written in combine.c, so that the same operations in any library give the
 * same bits. Only slerp computes in fp64, and rounds each element once. */
#ifndef TRI_CHECKPOINT_COMBINE_H
#define TRI_CHECKPOINT_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_COMBINE_MODELS = 64 };

typedef struct tri_combine_settings {
  double weights[TRI_COMBINE_MODELS]; /* weight of each model */
  double scale;                       /* factor of the differences that are added to the base */
  double density; /* TIES: fraction of each model's differences from the base that is kept, in (0, 1] */
  double t;       /* slerp: 0 is the first model, 1 the second */
} tri_combine_settings;

/* Computes out[count] from values[i], the `count` elements of model i, which may be overwritten; base[count] is NULL if
 * the method does not need a base. */
typedef void tri_combine(const tri_combine_settings *settings, int models, int64_t count, float *const *values,
                         const float *base, float *out);

typedef struct tri_combine_method {
  const char *name;
  tri_combine *combine;
  int models;                      /* number of merged models; 0: any number */
  bool base;                       /* whether the method needs a base */
  bool weights, scale, density, t; /* whether the method uses the setting of this name */
} tri_combine_method;

/* Returns the method with that name; NULL if there is no such method. */
const tri_combine_method *tri_combine_find(const char *name);

#endif
