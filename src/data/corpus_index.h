/* The checked index of a corpus (PREFIX.idx) in memory. The layout, all little-endian and without padding:
 *
 *   9 bytes   "MMIDIDX\0\0"
 *   uint64    version, 1
 *   uint8     type of the ids in PREFIX.bin, a tri_corpus_type
 *   uint64    S, sequences
 *   uint64    D, entries of the list of documents
 *   int32 S   tokens of each sequence
 *   int64 S   byte of PREFIX.bin where each sequence begins
 *   int64 D   the sequence with which each document begins; the first is 0, the last is S
 *
 * This is the format of Megatron-LM's IndexedDataset. A document is one sequence or more. */
#ifndef TRI_DATA_CORPUS_INDEX_H
#define TRI_DATA_CORPUS_INDEX_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "corpus files are read and written in the byte order of memory");

#define TRI_CORPUS_MAGIC "MMIDIDX\0" /* the NUL that ends the literal is the ninth byte */
enum { TRI_CORPUS_MAGIC_BYTES = 9, TRI_CORPUS_HEADER_BYTES = 34, TRI_CORPUS_VERSION = 1 };

typedef enum tri_corpus_type {
  TRI_CORPUS_U8 = 1,
  TRI_CORPUS_I8 = 2,
  TRI_CORPUS_I16 = 3,
  TRI_CORPUS_I32 = 4,
  TRI_CORPUS_I64 = 5,
  TRI_CORPUS_F64 = 6, /* floating point, not ids: refused */
  TRI_CORPUS_F32 = 7, /* floating point, not ids: refused */
  TRI_CORPUS_U16 = 8,
} tri_corpus_type;

/* Returns the bytes of one id; 0 for a code that is not an integer type. */
int tri_corpus_type_bytes(int type);

typedef struct tri_corpus_index {
  tri_corpus_type type;
  int id_bytes; /* bytes of one id */
  int64_t num_sequences, num_documents, num_tokens;
  /* Whether each sequence begins at the end of the sequence before it, so that all tokens are contiguous in PREFIX.bin.
   */
  bool contiguous;
  int64_t first_byte;                       /* offset of the tokens in PREFIX.bin, if contiguous */
  int64_t num_empty;                        /* number of documents without tokens */
  const char *sizes, *pointers, *documents; /* the arrays of the file, unaligned; use the functions below */
} tri_corpus_index;

/* Checks every number of an index of `bytes` bytes against the length of the index and of a .bin of bin_bytes. `path`
 * and bin_path are for messages. The result points into `data`. Fails with TRI_BAD_FILE. */
tri_status tri_corpus_index_parse(const char *path, const void *data, size_t bytes, const char *bin_path,
                                  int64_t bin_bytes, tri_corpus_index *out);

/* Returns the number of tokens of a sequence. */
int64_t tri_corpus_index_size(const tri_corpus_index *index, int64_t sequence);
/* Returns the byte offset of a sequence in PREFIX.bin. */
int64_t tri_corpus_index_pointer(const tri_corpus_index *index, int64_t sequence);

/* Returns the sequence with which a document begins; for num_documents, the number of sequences. */
int64_t tri_corpus_index_document(const tri_corpus_index *index, int64_t document);

#endif
