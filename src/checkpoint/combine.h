/* Merging several models: the methods of `trireme merge`, on one tensor of each model in fp32. Every operation is
 * rounded to fp32 separately, in the order written in combine.c, so that the same operations in any library give the
 * same bits. The sums over a whole tensor that slerp and the trimming of TIES need are fp64. */
#ifndef TRI_CHECKPOINT_COMBINE_H
#define TRI_CHECKPOINT_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_COMBINE_MODELS = 64 };

typedef struct tri_combine_settings {
  double weights[TRI_COMBINE_MODELS]; /* weight of each model */
  double scale;                       /* factor of the differences that are added to the base */
  double density;                     /* TIES: the share of each model's differences that it keeps, in (0, 1] */
  double t;                           /* slerp: 0 is the first model, 1 the second */
} tri_combine_settings;

/* values[i] are the `count` elements of model i, which may be overwritten; base is NULL if the method does not need
 * one. */
typedef void tri_combine(const tri_combine_settings *settings, int models, int64_t count, float *const *values,
                         const float *base, float *out);

typedef struct tri_combine_method {
  const char *name;
  tri_combine *combine;
  int models;                      /* number of models that it merges; 0: any number */
  bool base;                       /* it needs a base */
  bool weights, scale, density, t; /* which settings it uses */
} tri_combine_method;

/* Returns the method with that name; NULL if there is no such method. */
const tri_combine_method *tri_combine_find(const char *name);

#endif
