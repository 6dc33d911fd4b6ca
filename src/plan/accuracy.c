#include "plan/accuracy.h"

#include "base/count.h"
#include "base/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The errors of the published results on one cluster, computed from the rows that `trireme validate --json` prints
 * (docs/validation.md). */
typedef struct cluster_row {
  const char *cluster;
  tri_accuracy errors;
  int64_t most_devices; /* number of devices of the largest run */
} cluster_row;
static const cluster_row of_clusters[] = {
    {"a100-512", {-0.0348, -0.2532, 0.0487, 53}, 512},  {"a100-node", {0.0003, -0.1532, 0.1417, 702}, 8},
    {"a800-80", {-0.0374, -0.0374, -0.0374, 1}, 16},    {"dgx-h100", {-0.0383, -0.1790, 0.0706, 19}, 16384},
    {"frontier", {-0.1224, -0.3969, 0.0440, 3}, 3072},  {"grand-teton-h100-96", {-0.0207, -0.1137, 0.1059, 7}, 256},
    {"h800", {-0.2396, -0.2396, -0.2396, 1}, 2048},     {"jean-zay", {-0.0216, -0.1700, 0.0698, 13}, 384},
    {"megascale", {0.0049, -0.0359, 0.0493, 4}, 12288}, {"selene-a100-80", {0.0004, -0.0990, 0.1042, 28}, 3072},
};
enum { CLUSTERS = sizeof of_clusters / sizeof *of_clusters };

/* The errors of the published results with at least `least_devices` devices, on any cluster. The table begins with
 * the largest number. */
typedef struct size_row {
  int64_t least_devices;
  tri_accuracy errors;
} size_row;
static const size_row of_sizes[] = {
    {4096, {-0.0841, -0.1790, -0.0311, 5}},
    {2048, {-0.0433, -0.2396, 0.1042, 11}},
};
enum { SIZES = sizeof of_sizes / sizeof *of_sizes };

/* Names of the clusters on whose devices the kernels of this program have run (docs/devices.md, "What has run
 * where"), ending with NULL. */
static const char *const run_on[] = {NULL};

tri_accuracy tri_accuracy_published(void) {
  return (tri_accuracy){.mean = -0.0041, .low = -0.1600, .high = 0.1059, .rows = 831};
}

/* Leaves one error in twenty out of the interval at each end. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count) {
  if (count == 0) return (tri_accuracy){.mean = NAN, .low = NAN, .high = NAN};
  double sum = 0;
  qsort(errors, (size_t)count, sizeof *errors, tri_compare_doubles);
  for (int64_t i = 0; i < count; i++) sum += errors[i];
  int64_t out = count / 20;
  return (tri_accuracy){
      .mean = sum / (double)count, .low = errors[out], .high = errors[count - 1 - out], .rows = count};
}

static const cluster_row *row_of(const tri_cluster *cluster) {
  for (int i = 0; i < CLUSTERS; i++) {
    if (strcmp(of_clusters[i].cluster, cluster->name) == 0) return &of_clusters[i];
  }
  return NULL;
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

/* Writes a text such as "6.6 % too fast on average (-17.9 to +2.3 %)". For a mean error below 0.5 % it begins with
 * "right". */
static char *in_words(const tri_accuracy *errors, char out[96]) {
  const double mean = 100 * errors->mean;
  int held = snprintf(out, 96, "%.1f %% too %s", fabs(mean), mean < 0 ? "fast" : "slow");
  if (fabs(mean) < 0.5) held = snprintf(out, 96, "right");
  if (errors->rows > 1) {
    snprintf(out + held, 96 - (size_t)held, " on average (%+.1f to %+.1f %%)", 100 * errors->low, 100 * errors->high);
  }
  return out;
}

/* Appends the errors of the first row of of_sizes whose least_devices is at most `devices`: "; the 5 of 4,096 devices
 * and more, on any cluster, ...". Appends nothing if `devices` is smaller than the least_devices of all rows. */
static void add_size(int64_t devices, char *buffer) {
  for (int i = 0; i < SIZES; i++) {
    char least[32], words[96];
    const size_t held = strlen(buffer);
    if (devices < of_sizes[i].least_devices) continue;
    snprintf(buffer + held, TRI_ACCURACY_TEXT_BYTES - held, "; the %lld of %s devices and more, on any cluster, %s",
             (long long)of_sizes[i].errors.rows, tri_format_grouped(of_sizes[i].least_devices, least, sizeof least),
             in_words(&of_sizes[i].errors, words));
    return;
  }
}

char *tri_accuracy_text(const tri_cluster *cluster, int64_t devices, char buffer[TRI_ACCURACY_TEXT_BYTES]) {
  const cluster_row *own = row_of(cluster);
  const tri_accuracy all = tri_accuracy_published();
  char words[96], number[32];
  if (own != NULL) {
    snprintf(buffer, TRI_ACCURACY_TEXT_BYTES,
             "accuracy: %lld published run%s on %s %s predicted %s; none had more than %s devices",
             (long long)own->errors.rows, own->errors.rows == 1 ? "" : "s", cluster->name,
             own->errors.rows == 1 ? "was" : "were", in_words(&own->errors, words),
             tri_format_grouped(own->most_devices, number, sizeof number));
  } else {
    snprintf(buffer, TRI_ACCURACY_TEXT_BYTES,
             "accuracy: no published run on %s to compare with; %lld on other machines were predicted %s, %lld of them "
             "on one "
             "node of eight devices",
             cluster->name, (long long)all.rows, in_words(&all, words), (long long)of_clusters[1].errors.rows);
  }
  add_size(devices, buffer);
  size_t held = strlen(buffer);
  snprintf(buffer + held, TRI_ACCURACY_TEXT_BYTES - held, " (minus: faster predicted than it ran)");
  held = strlen(buffer);
  if (own != NULL && devices > own->most_devices) {
    snprintf(buffer + held, TRI_ACCURACY_TEXT_BYTES - held,
             "; %s devices are beyond all of them: expect a slower run than predicted",
             tri_format_grouped(devices, number, sizeof number));
  }
  return buffer;
}

/* Returns whether the list of names cluster->fitted has the constant. */
static bool is_fitted(const tri_cluster *cluster, const char *constant) {
  size_t length = strlen(constant);
  for (const char *at = cluster->fitted; *at != '\0';) {
    at += strspn(at, " ,");
    size_t word = strcspn(at, " ,");
    if (word == length && strncmp(at, constant, length) == 0) return true;
    at += word;
  }
  return false;
}

/* Returns whether predictions for this cluster depend on the constant. They do not depend on `matmul_half` if the
 * cluster has shapes of tiles (tri_cluster.tiles). */
static bool is_used(const tri_cluster *cluster, const char *constant) {
  return cluster->num_tiles == 0 || strcmp(constant, "matmul_half") != 0;
}

char *tri_accuracy_fitted(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]) {
  char fitted[128] = "", others[128] = "";
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const char *name = tri_cluster_constant_name(i);
    if (!is_used(cluster, name)) continue;
    char *list = is_fitted(cluster, name) ? fitted : others;
    size_t held = strlen(list);
    snprintf(list + held, sizeof fitted - held, "%s%s", held == 0 ? "" : ", ", name);
  }
  if (fitted[0] == '\0') {
    snprintf(buffer, TRI_ACCURACY_TEXT_BYTES, "not fitted: no constant of %s was fitted to a measurement",
             cluster->name);
  } else if (others[0] == '\0') {
    snprintf(buffer, TRI_ACCURACY_TEXT_BYTES, "fitted: all constants of %s", cluster->name);
  } else {
    snprintf(buffer, TRI_ACCURACY_TEXT_BYTES, "fitted: %s of %s (%s: round figures)", fitted, cluster->name, others);
  }
  return buffer;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static bool have_kernels_run(const tri_cluster *cluster, const tri_system *system) {
  bool accelerator = false;
  switch (cluster->device) {
    case TRI_CLUSTER_ACCELERATOR: accelerator = true; break;
    case TRI_CLUSTER_CPU: break;
  }
  if (!accelerator || !system->planned) return true;
  for (size_t i = 0; run_on[i] != NULL; i++) {
    if (strcmp(run_on[i], cluster->name) == 0) return true;
  }
  return false;
}

char *tri_accuracy_kernels(const tri_cluster *cluster, const tri_system *system, char buffer[TRI_ACCURACY_TEXT_BYTES]) {
  buffer[0] = '\0';
  if (have_kernels_run(cluster, system)) return buffer;
  snprintf(
      buffer, TRI_ACCURACY_TEXT_BYTES,
      "kernels: Trireme's own have not run on such a device yet (docs/devices.md); that products reach %.0f %% and "
      "attention %.0f %% of its peak is assumed",
      100 * cluster->efficiency.matmul, 100 * cluster->efficiency.attention);
  return buffer;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *json_of_errors(const tri_accuracy *errors) {
  return json_pack("{s:f, s:f, s:f, s:I}", "mean", errors->mean, "low", errors->low, "high", errors->high, "rows",
                   (json_int_t)errors->rows);
}

json_t *tri_accuracy_json(const tri_cluster *cluster, const tri_system *system) {
  const cluster_row *row = row_of(cluster);
  const tri_accuracy known = tri_accuracy_published();
  json_t *fitted = json_array(), *own = row == NULL ? json_null() : json_of_errors(&row->errors);
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const char *name = tri_cluster_constant_name(i);
    if (is_used(cluster, name) && is_fitted(cluster, name)) json_array_append_new(fitted, json_string(name));
  }
  if (row != NULL) json_object_set_new(own, "most_devices", json_integer((json_int_t)row->most_devices));
  return json_pack("{s:o, s:o, s:o, s:b}", "fitted", fitted, "published_errors", json_of_errors(&known), "cluster", own,
                   "kernels_have_run", (int)have_kernels_run(cluster, system));
}
