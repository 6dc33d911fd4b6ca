#include "model/layer_set.h"

#include "base/memory.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void skip_blanks(const char **at) { *at += strspn(*at, " "); }

static bool read_number(const char **at, int64_t *out) {
  enum { MOST = 1 << 24 };
  int64_t number = 0;
  skip_blanks(at);
  if (!isdigit((unsigned char)**at)) return false;
  for (; isdigit((unsigned char)**at) && number < MOST; ++*at) number = number * 10 + (**at - '0');
  skip_blanks(at);
  *out = number;
  return true;
}

/* Reads a text such as `5 of 6`. Returns false if the text has another form. */
static bool read_pattern(const char *at, int64_t *some, int64_t *each) {
  if (!read_number(&at, some) || strncmp(at, "of", 2) != 0) return false;
  at += 2;
  return read_number(&at, each) && *at == '\0' && *each > 0;
}

/* Layers first .. end - 1. */
typedef struct layer_run {
  int64_t first, end;
} layer_run;

/* Reads `4`, `4-7` or `28-`, with the comma after it. Returns false if the text begins with none of these. */
static bool read_run(const char **at, int64_t num_layers, layer_run *out) {
  if (!read_number(at, &out->first)) return false;
  out->end = out->first + 1;
  if (**at == '-') {
    ++*at;
    skip_blanks(at);
    out->end = num_layers;
    int64_t last = 0;
    if (read_number(at, &last)) out->end = last + 1;
  }
  if (**at == '\0') return true;
  if (**at != ',') return false;
  ++*at;
  return true;
}

static bool is_all(const char *text) { return strcmp(text, "all") == 0; }

bool tri_layer_set_has(const char *set, int64_t num_layers, int64_t layer) {
  const char *at = set;
  int64_t some = 0, each = 0;
  layer_run run;
  if (is_all(at)) return true;
  if (read_pattern(at, &some, &each)) return layer % each < some;
  while (*at != '\0' && read_run(&at, num_layers, &run)) {
    if (layer >= run.first && layer < run.end) return true;
  }
  return false;
}

bool tri_layer_set_is_all(const char *set) { return is_all(set); }

static tri_status check_text(const char *set, const char *key, int64_t num_layers) {
  const char *at = set;
  int64_t some = 0, each = 0;
  if (is_all(at)) return TRI_OK;
  const bool pattern = read_pattern(at, &some, &each);
  bool good = !pattern || (some > 0 && some <= each);
  for (layer_run run; good && !pattern && *at != '\0';) {
    good = read_run(&at, num_layers, &run) && run.first < run.end;
    if (good && run.end > num_layers) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`%s` names layer %" PRId64 ", and the model's layers are 0 to %" PRId64 " (num_layers)", key,
                      run.end - 1, num_layers - 1);
    }
  }
  if (good) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%s` is `%.60s`; it takes `all`, some of each group of layers (`5 of 6`), or layers from 0 on (`0, 4-7`, `28-`)",
      key, set);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Finds the shortest period, repeated at least twice, whose first *some layers are chosen and the others not. Returns 0
 * if there is no period. */
static int64_t find_pattern(const bool *chosen, int64_t num_layers, int64_t *some) {
  int64_t each = 0;
  for (*some = 0; *some < num_layers && chosen[*some]; ++*some) continue;
  for (each = *some; each < num_layers && !chosen[each]; each++) continue;
  if (*some == 0 || 2 * each > num_layers) return 0;
  for (int64_t i = 0; i < num_layers; i++) {
    if (chosen[i] != (i % each < *some)) return 0;
  }
  return each;
}

static tri_status print_runs(const bool *chosen, const char *key, int64_t num_layers, char out[TRI_LAYER_SET_BYTES]) {
  size_t used = 0;
  out[0] = '\0';
  for (int64_t first = 0, end = 0; first < num_layers; first = end + 1) {
    while (first < num_layers && !chosen[first]) first++;
    for (end = first; end < num_layers && chosen[end]; end++) continue;
    if (first == end) break;
    size_t left = TRI_LAYER_SET_BYTES - used;
    const char *comma = used == 0 ? "" : ", ";
    int added = end - first == 1 ? snprintf(out + used, left, "%s%" PRId64, comma, first)
                                 : snprintf(out + used, left, "%s%" PRId64 "-%" PRId64, comma, first, end - 1);
    used += (size_t)added;
    if (used >= TRI_LAYER_SET_BYTES) {
      return tri_fail(TRI_UNSUPPORTED,
                      "`%s`: the list of its layers has more than %d characters; choose a more regular pattern", key,
                      TRI_LAYER_SET_BYTES - 1);
    }
  }
  return TRI_OK;
}

tri_status tri_layer_set_print(const bool *chosen, const char *key, int64_t num_layers, char out[TRI_LAYER_SET_BYTES]) {
  int64_t some = 0, each = find_pattern(chosen, num_layers, &some);
  if (some == num_layers) {
    snprintf(out, TRI_LAYER_SET_BYTES, "all");
    return TRI_OK;
  }
  if (each == 0) return print_runs(chosen, key, num_layers, out);
  snprintf(out, TRI_LAYER_SET_BYTES, "%" PRId64 " of %" PRId64, some, each);
  return TRI_OK;
}

tri_status tri_layer_set_complete(char set[TRI_LAYER_SET_BYTES], const char *key, int64_t num_layers) {
  bool *chosen = NULL;
  TRI_TRY(check_text(set, key, num_layers));
  TRI_TRY(tri_alloc("layers", (size_t)num_layers, sizeof *chosen, &chosen));
  for (int64_t i = 0; i < num_layers; i++) chosen[i] = tri_layer_set_has(set, num_layers, i);
  tri_status status = tri_layer_set_print(chosen, key, num_layers, set);
  tri_free(chosen);
  return status;
}
