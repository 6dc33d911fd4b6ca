#include "options/lengths.h"

#include "base/memory.h"
#include "files/file.h"
#include "options/inspect_corpus.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

enum { MOST_BYTES = 1 << 20 };

static const json_t *find_sequence(const json_t *document, int64_t sequence) {
  const json_t *sequences = json_object_get(document, "sequences");
  for (size_t i = 0; i < json_array_size(sequences); i++) {
    const json_t *at = json_array_get(sequences, i);
    if (json_integer_value(json_object_get(at, "sequence")) == sequence) return at;
  }
  return NULL;
}

/* Reads and checks the finest histogram that the file has; some files have only the coarser `lengths`. */
static tri_status read_lengths(const json_t *document, const char *path, tri_length_ranges *out) {
  const json_t *list = json_object_get(document, "finer_lengths");
  if (list == NULL) list = json_object_get(document, "lengths");
  out->count = 0;
  if (json_array_size(list) > TRI_LENGTH_RANGES) {
    return tri_fail(TRI_BAD_FILE, "%s has more than %d ranges of lengths", path, TRI_LENGTH_RANGES);
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *at = json_array_get(list, i);
    out->ranges[out->count++] = (tri_length_range){.from = json_integer_value(json_object_get(at, "from")),
                                                   .to = json_integer_value(json_object_get(at, "to")),
                                                   .documents = json_integer_value(json_object_get(at, "documents")),
                                                   .tokens = json_integer_value(json_object_get(at, "tokens"))};
  }
  return tri_length_ranges_check(out, path);
}

static tri_status read_fraction(const char *path, int64_t sequence, bool packed, double *out,
                                tri_length_ranges *lengths) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, MOST_BYTES, &text, &bytes));
  json_t *document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
  tri_free(text);
  const json_t *at = find_sequence(document, sequence);
  double fraction = json_number_value(json_object_get(at, packed ? "packed_area" : "windows_area"));
  tri_status status = read_lengths(document, path, lengths);
  json_decref(document);
  TRI_TRY(status);
  if (fraction > 0 && fraction <= 1) {
    *out = fraction;
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s has no share of attention under masks in sequences of %" PRId64
                  " tokens; make it with `trireme inspect CORPUS --sequence %" PRId64 " --json`",
                  path, sequence, sequence);
}

static tri_status find_lengths(const char *name, int64_t sequence, bool packed, double *out,
                               tri_length_ranges *lengths) {
  char path[TRI_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s.idx", name);
  if (length > 0 && (size_t)length < sizeof path && tri_path_exists(path)) {
    return tri_inspect_attention_fraction(name, NULL, sequence, packed, out, lengths);
  }
  if (tri_path_exists(name)) return read_fraction(name, sequence, packed, out, lengths);
  return tri_fail(TRI_BAD_USAGE,
                  "--lengths %s is neither a corpus (the prefix of its .bin and .idx) nor a file that `trireme inspect "
                  "CORPUS --json` printed",
                  name);
}

tri_status tri_lengths_attention_fraction(const char *name, int64_t sequence, bool packed, double *out,
                                          tri_length_draws *drawn) {
  tri_length_ranges *lengths = NULL;
  TRI_TRY(tri_alloc("lengths of documents", 1, sizeof *lengths, &lengths));
  tri_status status = find_lengths(name, sequence, packed, out, lengths);
  if (status == TRI_OK) status = tri_length_draws_create(lengths, sequence, packed, drawn);
  tri_free(lengths);
  return status;
}

tri_status tri_length_draws_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                   tri_length_draws *out) {
  *out = (tri_length_draws){0};
  if (lengths->count == 0) return TRI_OK;
  TRI_TRY(tri_drawn_documents_create(lengths, sequence, packed, &out->draws));
  tri_status status = tri_attention_fraction_table_create(out->draws, &out->table);
  if (status != TRI_OK) tri_length_draws_release(out);
  return status;
}

void tri_length_draws_release(tri_length_draws *drawn) {
  tri_attention_fraction_table_destroy(drawn->table);
  tri_drawn_documents_destroy(drawn->draws);
  *drawn = (tri_length_draws){0};
}
