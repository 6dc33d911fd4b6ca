/* What the stand-ins for cuBLASLt and hipBLASLt share: descriptors, checks of a product that is asked for, and the
 * product itself, on what stands for device memory. Each of the two says by STAND_IN_LT_... what its numbers are; they
 * differ in nothing else. It insists on what the libraries' documents ask for: layouts that fit together and do not
 * overlap, algorithms of this very product and version, workspace and alignment as they were declared. */
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

/* Of the 16 bytes or more that an algorithm has. */
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

/* What is computed: as of compute types. */
typedef enum stand_in_lt_kind { STAND_IN_LT_NONE, STAND_IN_LT_32F, STAND_IN_LT_TF32, STAND_IN_LT_64F } stand_in_lt_kind;

enum { STAND_IN_LT_VARIANTS = 3 };

/* Variant 0 wants no workspace; 1 wants 4 MiB; 2 wants 16 bytes' alignment and 1 MiB. *count of those that fit. False:
 * no such product. */
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
