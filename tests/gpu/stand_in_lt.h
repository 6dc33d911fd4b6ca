/* Shared by the stand-ins for cuBLASLt and hipBLASLt: descriptors, checks of a requested product, and the product
 * itself, on the memory of the stand-in device. Each of the two defines its numbers by STAND_IN_LT_...; they differ in
 * nothing else. The checks are those of the libraries' documents: layouts fit together and do not overlap, algorithms
 * are for this product and version, workspace and alignment are as declared. */
#ifndef TRI_TESTS_GPU_STAND_IN_LT_H
#define TRI_TESTS_GPU_STAND_IN_LT_H

#include "device/gpu/lt_calls.h"
#include "stand_in.h"

#include <stdbool.h>

typedef struct stand_in_lt_layout {
  int type;
  uint64_t rows, columns;
  int64_t ld;
} stand_in_lt_layout;

typedef struct stand_in_lt_description {
  int compute, scale;
  bool first_transposed, second_transposed, adds_bias;
  int bias_type; /* -1: that of the result */
  const void *bias;
} stand_in_lt_description;

typedef struct stand_in_lt_preference {
  uint64_t workspace_bytes;
  uint32_t reductions;
  uint32_t alignments[TRI_GPU_LT_ADDRESSES];
} stand_in_lt_preference;

/* The part of an algorithm (16 bytes or more) that the stand-ins use. */
typedef struct stand_in_lt_algorithm {
  uint32_t product; /* hash of what it is for; never 0 */
  uint16_t version;
  uint8_t variant, alignment;
} stand_in_lt_algorithm;

/* A product as it is asked for. */
typedef struct stand_in_lt_product {
  const stand_in_lt_description *description;
  const stand_in_lt_layout *a, *b, *c, *d;
} stand_in_lt_product;

/* The arithmetic of a product, by compute type. */
typedef enum stand_in_lt_kind { STAND_IN_LT_NONE, STAND_IN_LT_32F, STAND_IN_LT_TF32, STAND_IN_LT_64F } stand_in_lt_kind;

enum { STAND_IN_LT_VARIANTS = 3 };

/* Lists the variants that fit. Variant 0 needs no workspace; 1 needs 4 MiB; 2 needs an alignment of 16 bytes and 1 MiB.
 * Sets *count to their number. Returns false if the product is not supported. */
bool stand_in_lt_algorithms(const stand_in_lt_product *product, stand_in_lt_kind kind,
                            const stand_in_lt_preference *preference, int version,
                            stand_in_lt_algorithm out[STAND_IN_LT_VARIANTS], size_t workspace[STAND_IN_LT_VARIANTS],
                            int *count);

typedef struct stand_in_lt_call {
  const void *alpha, *beta, *a, *b, *c;
  void *d, *workspace, *stream;
  size_t workspace_bytes;
} stand_in_lt_call;

typedef enum stand_in_lt_result { STAND_IN_LT_DONE, STAND_IN_LT_INVALID, STAND_IN_LT_UNSUPPORTED } stand_in_lt_result;

stand_in_lt_result stand_in_lt_multiply(const stand_in_lt_product *product, stand_in_lt_kind kind,
                                        const stand_in_lt_algorithm *algorithm, int version,
                                        const stand_in_lt_call *call);

#endif
