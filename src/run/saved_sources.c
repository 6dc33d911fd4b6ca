#include "run/saved_sources.h"

#include "data/mixture.h"

#include <stdio.h>

const json_t *tri_saved_source(const json_t *train, int64_t k) {
  if (json_is_array(train)) return json_array_get(train, (size_t)k);
  return k == 0 && json_is_object(train) ? train : NULL;
}

int64_t tri_saved_num_sources(const json_t *train) {
  return json_is_array(train) ? (int64_t)json_array_size(train) : json_is_object(train) ? 1 : 0;
}

double tri_saved_label_weight(const json_t *source) {
  const json_t *weight = json_object_get(source, "label_weight");
  return weight == NULL ? 1 : json_number_value(weight);
}

/* Computes the shares of a checkpoint's sources, which are compared instead of the weights: [7, 3] is the same as [0.7,
 * 0.3]. Returns false if the weights are not valid. */
static bool shares_there(const json_t *train, tri_mixture_shares *out) {
  double weights[TRI_MOST_SOURCES];
  int64_t count = tri_saved_num_sources(train);
  if (count < 1 || count > TRI_MOST_SOURCES) return false;
  for (int64_t k = 0; k < count; k++) {
    const json_t *weight = json_object_get(tri_saved_source(train, k), "weight");
    weights[k] = count == 1 ? 1 : json_number_value(weight);
    if (!(weights[k] > 0 && weights[k] <= TRI_CONFIG_MOST)) return false;
  }
  return tri_mixture_find_shares(weights, count, out, NULL) == TRI_OK;
}

/* Returns whether a checkpoint's sources were mixed by size (tri_run_config_mixes_by_size). */
static bool mixes_by_size_there(const json_t *train) {
  const int64_t count = tri_saved_num_sources(train);
  for (int64_t k = 0; k < count; k++) {
    if (json_number_value(json_object_get(tri_saved_source(train, k), "weight")) != 0) return false;
  }
  return count > 1;
}

static bool same_shares(const tri_mixture_shares *a, const tri_mixture_shares *b) {
  if (a->num_sources != b->num_sources || a->period != b->period) return false;
  for (int64_t k = 0; k < a->num_sources; k++) {
    if (a->counts[k] != b->counts[k]) return false;
  }
  return true;
}

static void describe_shares(const tri_mixture_shares *shares, char out[TRI_SAVED_SOURCE_BYTES]) {
  size_t length = (size_t)snprintf(out, TRI_SAVED_SOURCE_BYTES, "shares of");
  for (int64_t k = 0; k < shares->num_sources && length < TRI_SAVED_SOURCE_BYTES; k++) {
    length += (size_t)snprintf(out + length, TRI_SAVED_SOURCE_BYTES - length, "%s %.4g", k == 0 ? "" : ",",
                               (double)shares->counts[k] / (double)shares->period);
  }
}

bool tri_saved_mixture_differs(const json_t *train, const tri_run_config *config, char there[TRI_SAVED_SOURCE_BYTES],
                               char here[TRI_SAVED_SOURCE_BYTES]) {
  const bool by_size = tri_run_config_mixes_by_size(config), was_by_size = mixes_by_size_there(train);
  tri_mixture_shares then, now;
  if (by_size != was_by_size) {
    snprintf(there, TRI_SAVED_SOURCE_BYTES, "mixed by %s", was_by_size ? "size" : "weights");
    snprintf(here, TRI_SAVED_SOURCE_BYTES, "mixed by %s", by_size ? "size" : "weights");
    return true;
  }
  if (by_size) return false; /* the same corpora have the same sizes */
  if (!shares_there(train, &then) || tri_run_config_shares(config, &now) != TRI_OK || same_shares(&then, &now)) {
    return false;
  }
  describe_shares(&then, there);
  describe_shares(&now, here);
  return true;
}
