/* Reads and writes the keys of config.json about sliding windows: their length (`sliding_window`), and the layers that
 * have one (`layer_types`, `max_window_layers`). */
#include "base/memory.h"
#include "checkpoint/huggingface_parts.h"
#include "model/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_full(const char *type) { return type != NULL && strcmp(type, "full_attention") == 0; }
static bool is_sliding(const char *type) { return type != NULL && strcmp(type, "sliding_attention") == 0; }

/* Checks that the type of each layer is known, even if windows are switched off. */
static tri_status check_layer_types(const tri_json_reader *from, const json_t *types) {
  const json_t *type = NULL;
  size_t i = 0;
  json_array_foreach(types, i, type) {
    const char *word = json_string_value(type);
    if (is_full(word) || is_sliding(word)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `layer_types` has `%.40s`; full_attention and sliding_attention are supported", from->path,
                    word == NULL ? "?" : word);
  }
  return TRI_OK;
}

/* Sets out->window_layers from ["full_attention", "sliding_attention", ...]. Fails with TRI_BAD_FILE unless that is a
 * list with one entry for each layer. */
static tri_status read_layer_types(const tri_json_reader *from, const json_t *types, tri_model *out) {
  bool *windowed = NULL;
  if (!json_is_array(types) || json_array_size(types) != (size_t)out->num_layers) {
    return tri_fail(TRI_BAD_FILE, "%s: `layer_types` is not a list of %" PRId64 " (num_hidden_layers)", from->path,
                    out->num_layers);
  }
  TRI_TRY(tri_alloc("layers", (size_t)out->num_layers, sizeof *windowed, &windowed));
  for (size_t i = 0; i < json_array_size(types); i++) {
    windowed[i] = is_sliding(json_string_value(json_array_get(types, i)));
  }
  const tri_status status = tri_layer_set_print(windowed, "layer_types", out->num_layers, out->window_layers);
  tri_free(windowed);
  return status;
}

/* Reads the layers with a window: as in `layer_types`, else from `max_window_layers` on, else the table's usual ones.
 * If no layer has one, sets out->window to 0. */
static tri_status read_window_layers(const tri_json_reader *from, const tri_hf_keys_window *window, tri_model *out) {
  const json_t *types = window->by_layer || window->reads_layers ? tri_reader_get(from, "layer_types") : NULL;
  int64_t full = 0;
  if (types != NULL) {
    TRI_TRY(read_layer_types(from, types, out));
  } else if (window->full_layers > 0) {
    TRI_TRY(tri_reader_count(from, "max_window_layers", window->full_layers, &full));
    if (full < out->num_layers) snprintf(out->window_layers, sizeof out->window_layers, "%" PRId64 "-", full);
  } else if (window->usual != NULL) {
    snprintf(out->window_layers, sizeof out->window_layers, "%s", window->usual);
  }
  if (full < out->num_layers && (types == NULL || out->window_layers[0] != '\0')) return TRI_OK;
  out->window = 0; /* no layer has a window */
  out->window_layers[0] = '\0';
  return TRI_OK;
}

static bool has_windows(const json_t *types) {
  size_t i = 0;
  const json_t *type = NULL;
  json_array_foreach(types, i, type) {
    if (is_sliding(json_string_value(type))) return true;
  }
  return false;
}

tri_status tri_huggingface_read_window(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out) {
  const tri_hf_keys_window *window = &hf_keys->window;
  bool used = true;
  out->window = 0;
  if (!window->known) return TRI_OK;
  const json_t *types = window->by_layer || window->reads_layers ? tri_reader_get(from, "layer_types") : NULL;
  const bool asked = has_windows(types);
  TRI_TRY(check_layer_types(from, types));
  if (window->switched) TRI_TRY(tri_reader_bool(from, "use_sliding_window", false, &used));
  if (used || (asked && window->layers_first)) {
    TRI_TRY(tri_reader_size_or_null(from, "sliding_window", hf_keys->absent.window, &out->window));
  }
  if (asked && out->window == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: `layer_types` has sliding_attention, and `%s` is %s or missing; correct one of them",
                    from->path, used ? "sliding_window" : "use_sliding_window", used ? "null" : "false");
  }
  return out->window == 0 ? TRI_OK : read_window_layers(from, window, out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *layer_types_json(const tri_model *m) {
  json_t *out = json_array();
  for (int64_t i = 0; i < m->num_layers; i++) {
    json_array_append_new(out, json_string(tri_model_window(m, i) > 0 ? "sliding_attention" : "full_attention"));
  }
  return out;
}

/* In model types with layer_types and without a switch, transformers needs a window length even if no layer
 * has a window; layer_types then has full_attention for each layer. */
void tri_huggingface_write_window(const tri_model *m, const tri_hf_keys *hf_keys, json_t *to) {
  const tri_hf_keys_window *window = &hf_keys->window;
  const bool used = m->window != 0, none = !used && window->by_layer && !window->switched;
  const int64_t usual = hf_keys->absent.window > 0 ? hf_keys->absent.window : m->max_sequence;
  json_t *size = used || none ? json_integer((json_int_t)(used ? m->window : usual)) : json_null();
  if (window->switched) json_object_set_new(to, "use_sliding_window", json_boolean(used));
  if (window->known && (used || !window->switched)) json_object_set(to, "sliding_window", size);
  if ((used || none) && window->by_layer) json_object_set_new(to, "layer_types", layer_types_json(m));
  /* For readers without layer_types; exact if all layers from `full` on have a window. */
  if (used && window->full_layers > 0) {
    int64_t full = 0;
    while (full < m->num_layers && tri_model_window(m, full) == 0) full++;
    json_object_set_new(to, "max_window_layers", json_integer((json_int_t)full));
  }
  json_decref(size);
}
