#include "cli/lengths.h"

#include "base/file.h"
#include "base/memory.h"
#include "cli/inspect_corpus.h"

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

static tri_status read_area(const char *path, int64_t sequence, bool packed, double *out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, MOST_BYTES, &text, &bytes));
  json_t *document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
  tri_free(text);
  const json_t *at = find_sequence(document, sequence);
  double area = json_number_value(json_object_get(at, packed ? "packed_area" : "windows_area"));
  json_decref(document);
  if (area > 0 && area <= 1) {
    *out = area;
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s does not say what masks leave of attention in sequences of %" PRId64
                  " tokens; make it with `trireme inspect CORPUS --sequence %" PRId64 " --json`",
                  path, sequence, sequence);
}

tri_status tri_lengths_area(const char *name, int64_t sequence, bool packed, double *out) {
  char path[TRI_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s.idx", name);
  if (length > 0 && (size_t)length < sizeof path && tri_path_exists(path)) {
    return tri_inspect_area(name, NULL, sequence, packed, out);
  }
  if (tri_path_exists(name)) return read_area(name, sequence, packed, out);
  return tri_fail(TRI_BAD_USAGE,
                  "--lengths %s is neither a corpus (the prefix of its .bin and .idx) nor a file that `trireme inspect "
                  "CORPUS --json` printed",
                  name);
}
