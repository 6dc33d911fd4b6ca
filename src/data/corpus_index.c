#include "data/corpus_index.h"

#include "files/file_kind.h"

#include <inttypes.h>
#include <string.h>

enum { POINTER_BYTES = 1024 }; /* a smaller .bin may be an LFS pointer or an HTML page, which its first bytes show */

int tri_corpus_type_bytes(int type) {
  switch ((tri_corpus_type)type) {
    case TRI_CORPUS_U8:
    case TRI_CORPUS_I8: return 1;
    case TRI_CORPUS_I16:
    case TRI_CORPUS_U16: return 2;
    case TRI_CORPUS_I32: return 4;
    case TRI_CORPUS_I64: return 8;
    case TRI_CORPUS_F64:
    case TRI_CORPUS_F32: return 0; /* no ids */
  }
  return 0; /* not a known type */
}

/* Loads an unaligned integer: the arrays begin at byte 34. */
static int64_t load_i64(const char *at) {
  int64_t value = 0;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t load_u64(const char *at) {
  uint64_t value = 0;
  memcpy(&value, at, sizeof value);
  return value;
}

int64_t tri_corpus_index_size(const tri_corpus_index *index, int64_t sequence) {
  int32_t value = 0;
  memcpy(&value, index->sizes + sequence * 4, sizeof value);
  return value;
}

int64_t tri_corpus_index_pointer(const tri_corpus_index *index, int64_t sequence) {
  return load_i64(index->pointers + sequence * 8);
}

int64_t tri_corpus_index_document(const tri_corpus_index *index, int64_t document) {
  return load_i64(index->documents + document * 8);
}

/* Parses the header, up to the two counts; sets type, id_bytes and the counts, checked against the length of the file.
 */
static tri_status parse_header(const char *path, const char *data, size_t bytes, tri_corpus_index *index,
                               uint64_t *out_entries) {
  if (bytes < TRI_CORPUS_MAGIC_BYTES || memcmp(data, TRI_CORPUS_MAGIC, TRI_CORPUS_MAGIC_BYTES) != 0) {
    const tri_file_kind *kind = tri_file_kind_of(data, bytes);
    if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, path, kind, "the index of a corpus");
    return tri_fail(TRI_BAD_FILE, "%s is not the index of a corpus: it does not begin with MMIDIDX", path);
  }
  if (bytes < TRI_CORPUS_HEADER_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s is truncated: it has %zu bytes, but the header alone has %d", path, bytes,
                    TRI_CORPUS_HEADER_BYTES);
  }
  uint64_t version = load_u64(data + 9);
  if (version != TRI_CORPUS_VERSION) {
    return tri_fail(TRI_BAD_FILE, "%s has version %" PRIu64 "; only version %d is known", path, version,
                    TRI_CORPUS_VERSION);
  }
  int type = (unsigned char)data[17];
  index->id_bytes = tri_corpus_type_bytes(type);
  if (index->id_bytes == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has the unknown type %d of ids; types are 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64) "
                    "and 8 (uint16)",
                    path, type);
  }
  index->type = (tri_corpus_type)type;
  uint64_t sequences = load_u64(data + 18), entries = load_u64(data + 26);
  uint64_t of_sequences = 0, of_entries = 0, wanted = 0;
  if (__builtin_mul_overflow(sequences, UINT64_C(12), &of_sequences) ||
      __builtin_mul_overflow(entries, UINT64_C(8), &of_entries) ||
      __builtin_add_overflow(of_sequences, of_entries, &wanted) ||
      __builtin_add_overflow(wanted, (uint64_t)TRI_CORPUS_HEADER_BYTES, &wanted) || wanted > INT64_MAX) {
    return tri_fail(TRI_BAD_FILE,
                    "%s counts %" PRIu64 " sequences and %" PRIu64 " document entries, more than a file can hold", path,
                    sequences, entries);
  }
  if (wanted != bytes) {
    return tri_fail(TRI_BAD_FILE,
                    "%s %s: its %" PRIu64 " sequences and %" PRIu64 " document entries take %" PRIu64
                    " bytes, the file has %zu",
                    path, wanted > bytes ? "is truncated" : "is too long", sequences, entries, wanted, bytes);
  }
  index->num_sequences = (int64_t)sequences;
  *out_entries = entries;
  return TRI_OK;
}

/* Checks the size and the pointer of a sequence against the .bin. */
static tri_status check_sequence(const char *path, const char *bin_path, int64_t bin_bytes, int id_bytes, int64_t i,
                                 int64_t size, int64_t pointer) {
  if (size < 0) {
    return tri_fail(TRI_BAD_FILE, "%s: the size of sequence %" PRId64 " is negative (%" PRId64 ")", path, i, size);
  }
  if (pointer < 0 || pointer % id_bytes != 0) {
    return tri_fail(TRI_BAD_FILE, "%s: the pointer of sequence %" PRId64 " is %" PRId64 ", which is %s %d", path, i,
                    pointer, pointer < 0 ? "below 0; it must be a multiple of" : "not a multiple of", id_bytes);
  }
  if (pointer > bin_bytes || size > (bin_bytes - pointer) / id_bytes) {
    const tri_file_kind *kind = bin_bytes < POINTER_BYTES ? tri_file_kind_find(bin_path) : NULL;
    if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, bin_path, kind, "the tokens of a corpus");
    return tri_fail(TRI_BAD_FILE,
                    "%s: sequence %" PRId64 " (pointer %" PRId64 ", size %" PRId64
                    " tokens of %d bytes) is outside %s, which has %" PRId64
                    " bytes; were both files copied completely?",
                    path, i, pointer, size, id_bytes, bin_path, bin_bytes);
  }
  return TRI_OK;
}

/* Checks that every sequence is inside the .bin, and that no sequence begins inside the one before it, where empty
 * sequences are ignored. Sets contiguous, first_byte and num_tokens. */
static tri_status parse_sequences(const char *path, const char *bin_path, int64_t bin_bytes, tri_corpus_index *index) {
  int64_t tokens = 0, begin = 0, end = -1;
  index->contiguous = true;
  for (int64_t i = 0; i < index->num_sequences; i++) {
    int64_t size = tri_corpus_index_size(index, i), pointer = tri_corpus_index_pointer(index, i);
    TRI_TRY(check_sequence(path, bin_path, bin_bytes, index->id_bytes, i, size, pointer));
    if (size == 0) continue;
    if (end < 0) index->first_byte = end = pointer;
    if (pointer > begin && pointer < end) {
      return tri_fail(TRI_BAD_FILE,
                      "%s: the sizes do not add up to the pointers: sequence %" PRId64 " begins at byte %" PRId64
                      ", but the one before it begins at %" PRId64 " and ends at %" PRId64,
                      path, i, pointer, begin, end);
    }
    if (pointer != end) index->contiguous = false;
    begin = pointer;
    end = pointer + size * index->id_bytes;
    if (__builtin_add_overflow(tokens, size, &tokens)) {
      return tri_fail(TRI_BAD_FILE, "%s: the sizes add up to more than 2^63 tokens", path);
    }
  }
  index->num_tokens = tokens;
  return TRI_OK;
}

static tri_status parse_documents(const char *path, const char *entries, uint64_t count,
                                  const tri_corpus_index *index) {
  if (count == 0) {
    return tri_fail(TRI_BAD_FILE, "%s: the list of documents is empty; its first entry must be 0", path);
  }
  int64_t before = 0;
  for (uint64_t i = 0; i < count; i++) {
    int64_t entry = load_i64(entries + i * 8);
    if (i == 0 && entry != 0) {
      return tri_fail(TRI_BAD_FILE, "%s: the first document begins with sequence %" PRId64 " instead of 0", path,
                      entry);
    }
    if (entry < before || entry > index->num_sequences) {
      return tri_fail(TRI_BAD_FILE,
                      "%s: document entry %" PRIu64 " is %" PRId64 "; it must be between the previous entry, %" PRId64
                      ", and the number of sequences, %" PRId64,
                      path, i, entry, before, index->num_sequences);
    }
    before = entry;
  }
  if (before != index->num_sequences) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: the documents end with sequence %" PRId64 ", but there are %" PRId64 " sequences", path,
                    before, index->num_sequences);
  }
  return TRI_OK;
}

static int64_t count_empty(const tri_corpus_index *index) {
  int64_t empty = 0;
  for (int64_t i = 0; i < index->num_documents; i++) {
    int64_t sequence = tri_corpus_index_document(index, i), end = tri_corpus_index_document(index, i + 1);
    while (sequence < end && tri_corpus_index_size(index, sequence) == 0) sequence++;
    empty += sequence == end;
  }
  return empty;
}

tri_status tri_corpus_index_parse(const char *path, const void *data, size_t bytes, const char *bin_path,
                                  int64_t bin_bytes, tri_corpus_index *out) {
  tri_corpus_index index = {0};
  uint64_t entries = 0;
  TRI_TRY(parse_header(path, data, bytes, &index, &entries));
  index.sizes = (const char *)data + TRI_CORPUS_HEADER_BYTES;
  index.pointers = index.sizes + index.num_sequences * 4;
  TRI_TRY(parse_sequences(path, bin_path, bin_bytes, &index));
  index.documents = index.pointers + index.num_sequences * 8;
  TRI_TRY(parse_documents(path, index.documents, entries, &index));
  index.num_documents = (int64_t)entries - 1;
  index.num_empty = count_empty(&index);
  if (index.num_tokens == 0) {
    return tri_fail(TRI_BAD_FILE, "%s: the corpus is empty (%" PRId64 " documents, no tokens)", path,
                    index.num_documents);
  }
  *out = index;
  return TRI_OK;
}
