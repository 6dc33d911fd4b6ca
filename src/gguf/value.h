/* The types of metadata values in GGUF files. */
#ifndef TRI_GGUF_VALUE_H
#define TRI_GGUF_VALUE_H

#include <stddef.h>
#include <stdint.h>

/* The values are the numbers in files. */
typedef enum tri_gguf_value {
  TRI_GGUF_UINT8,
  TRI_GGUF_INT8,
  TRI_GGUF_UINT16,
  TRI_GGUF_INT16,
  TRI_GGUF_UINT32,
  TRI_GGUF_INT32,
  TRI_GGUF_FLOAT32,
  TRI_GGUF_BOOL, /* one byte, 0 or 1 */
  TRI_GGUF_STRING,
  TRI_GGUF_ARRAY,
  TRI_GGUF_UINT64,
  TRI_GGUF_INT64,
  TRI_GGUF_FLOAT64,
  TRI_GGUF_VALUES,
} tri_gguf_value;

/* A string of an array: UTF-8, without a NUL after it, though it may contain NULs. */
typedef struct tri_gguf_text {
  const char *text;
  size_t bytes;
} tri_gguf_text;

/* Returns the bytes of a value; 0 for strings and arrays, whose size varies. */
size_t tri_gguf_value_bytes(tri_gguf_value type);
/* Returns "uint32" and the like. */
const char *tri_gguf_value_name(tri_gguf_value type);

#endif
