/* Helpers of kernels on rows. Each is called by single threads and does not synchronise. */
#ifndef TRI_DEVICE_GPU_KERNELS_ROWS_H
#define TRI_DEVICE_GPU_KERNELS_ROWS_H

#include "device/gpu/kernels/primitives.h"

/* Returns a / b for nonnegative numbers. Most are small, and a 32-bit division is several times faster. */
DEVICE int64_t quotient(int64_t a, int64_t b) {
  if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
  return a / b;
}

/* Unpacks the elements of 16 bytes that were loaded at once. */
DEVICE void unpack(const sixteen_bytes *from, wide out[VECTOR]) {
  union {
    sixteen_bytes all;
    element each[VECTOR];
  } u;
  u.all = *from;
  for (int j = 0; j < VECTOR; j++) out[j] = load(&u.each[j]);
}

/* ---- parts: VECTOR columns of a row, or the `count` remaining ones ----------------------------------------------- */

/* Load a part, padded with zeros, and store the existing columns of a part. aligned: whether all parts of the array are
 * aligned to 16 bytes. count: number of columns up to the end of the row, at most 0 for no columns. */
DEVICE void load_part(const element *from, int aligned, int64_t count, wide out[VECTOR]) {
  if (aligned && count >= VECTOR) {
    load_vector(from, out);
  } else {
    for (int j = 0; j < VECTOR; j++) out[j] = j < count ? load(from + j) : 0;
  }
}

DEVICE void store_part(element *to, int aligned, int64_t count, const wide values[VECTOR]) {
  if (aligned && count >= VECTOR) {
    store_vector(to, values);
  } else {
    for (int j = 0; j < VECTOR; j++) {
      if (j < count) store(to + j, values[j]);
    }
  }
}

/* Load and store a part of a row of wide numbers. */
DEVICE void load_wide_part(const wide *from, int aligned, int64_t count, wide out[VECTOR]) {
  if (aligned && count >= VECTOR) {
    load_wide_vector(from, out);
  } else {
    for (int j = 0; j < VECTOR; j++) out[j] = j < count ? from[j] : 0;
  }
}

DEVICE void store_wide_part(wide *to, int aligned, int64_t count, const wide values[VECTOR]) {
  enum { EACH = 16 / (int)sizeof(wide) };
  union {
    sixteen_bytes all;
    wide each[EACH];
  } u;
  if (aligned && count >= VECTOR) {
    for (int i = 0; i < VECTOR; i += EACH) {
      for (int j = 0; j < EACH; j++) u.each[j] = values[i + j];
      *(sixteen_bytes *)(void *)(to + i) = u.all;
    }
  } else {
    for (int j = 0; j < VECTOR; j++) {
      if (j < count) to[j] = values[j];
    }
  }
}

#endif
