#include "train/gemm_choices_file.h"

#include "base/fnv1a.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/json_reader.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20, VERSION = 1 };

/* Computes the checksum of the chooser and the choices. Only the library understands an algorithm's data, and it does
 * not check them. */
static void sum_of(const tri_gemm_choices_file *file, char out[17]) {
  const uint64_t hash = tri_fnv1a(tri_fnv1a(TRI_FNV1A_BEGIN, file->chooser), file->choices);
  snprintf(out, 17, "%016" PRIx64, hash);
}

static const char *product_text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

/* Joins the strings of a list, one per line. */
static tri_status join(const json_t *list, char **out) {
  size_t index, length = 1;
  const json_t *item;
  char *text = NULL;
  json_array_foreach(list, index, item) { length += json_string_length(item) + 1; }
  TRI_TRY(tri_alloc("choices of products", length, 1, &text));
  char *end = text;
  json_array_foreach(list, index, item) {
    if (json_is_string(item)) end += sprintf(end, "%s\n", json_string_value(item));
  }
  *out = text;
  return TRI_OK;
}

static tri_status read_file(const char *path, const json_t *root, tri_gemm_choices_file *out) {
  char sum[17];
  const char *chooser = product_text_at(root, "chooser");
  const json_t *version = json_object_get(root, "version");
  if (!json_is_integer(version) || strlen(chooser) >= sizeof out->chooser) {
    return tri_fail(TRI_BAD_FILE, "%s is not a list of how products are made", path);
  }
  if (json_integer_value(version) != VERSION) {
    return tri_fail(TRI_BAD_FILE, "%s has format version %" JSON_INTEGER_FORMAT ", and this program reads version %d",
                    path, json_integer_value(version), VERSION);
  }
  tri_gemm_choices_file file = {.timed = json_is_true(json_object_get(root, "timed"))};
  memcpy(file.chooser, chooser, strlen(chooser) + 1);
  TRI_TRY(join(json_object_get(root, "choices"), &file.choices));
  sum_of(&file, sum);
  if (strcmp(sum, product_text_at(root, "sum")) == 0) {
    *out = file;
    return TRI_OK;
  }
  tri_free(file.choices);
  return tri_fail(TRI_BAD_FILE, "%s is damaged: its sum is not that of its choices", path);
}

tri_status tri_gemm_choices_file_read(const char *path, bool *found, tri_gemm_choices_file *out) {
  char *text = NULL;
  size_t bytes = 0;
  *found = tri_path_exists(path);
  if (!*found) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, MOST_BYTES, &text, &bytes));
  json_t *root = NULL;
  tri_status status = tri_json_parse(path, text, bytes, JSON_REJECT_DUPLICATES, &root);
  tri_free(text);
  if (status == TRI_OK) status = read_file(path, root, out);
  json_decref(root);
  return status;
}

static json_t *list_of(const char *lines) {
  json_t *list = json_array();
  while (list != NULL && *lines != '\0') {
    const size_t length = strcspn(lines, "\n");
    json_array_append_new(list, json_stringn(lines, length));
    lines += length + (lines[length] == '\n');
  }
  return list;
}

tri_status tri_gemm_choices_file_write(const char *path, const tri_gemm_choices_file *file) {
  char sum[17];
  sum_of(file, sum);
  json_t *root = json_pack("{s:i, s:s, s:b, s:s, s:o}", "version", VERSION, "chooser", file->chooser, "timed",
                           file->timed, "sum", sum, "choices", list_of(file->choices));
  char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));
  json_decref(root);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: writing %s", path);
  tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}
