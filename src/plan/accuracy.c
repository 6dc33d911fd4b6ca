#include "plan/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As `trireme validate` prints it below its tables (docs/validation.md). */
tri_accuracy tri_accuracy_published(void) { return (tri_accuracy){.low = -0.1592, .high = 0.1059, .rows = 821}; }

static int accuracy_compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* Of twenty errors the least and the largest are left out. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count) {
  if (count == 0) return (tri_accuracy){.low = NAN, .high = NAN};
  qsort(errors, (size_t)count, sizeof *errors, accuracy_compare);
  int64_t out = count / 20;
  return (tri_accuracy){.low = errors[out], .high = errors[count - 1 - out], .rows = count};
}

/* The words of `fitted` that name a constant. */
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

/* Where products are cut into tiles, nothing asks for the half of a rate that has no tiles. */
static bool is_used(const tri_cluster *cluster, const char *constant) {
  return cluster->num_tiles == 0 || strcmp(constant, "matmul_half") != 0;
}

char *tri_accuracy_text(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]) {
  char fitted[128] = "", others[128] = "";
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const char *name = tri_cluster_constant_name(i);
    if (!is_used(cluster, name)) continue;
    char *list = is_fitted(cluster, name) ? fitted : others;
    size_t held = strlen(list);
    snprintf(list + held, sizeof fitted - held, "%s%s", held == 0 ? "" : ", ", name);
  }
  tri_accuracy known = tri_accuracy_published();
  char what[320];
  if (fitted[0] == '\0') {
    snprintf(what, sizeof what,
             "not fitted: no constant of %s was fitted to a measurement; expect errors beyond those of", cluster->name);
  } else if (others[0] == '\0') {
    snprintf(what, sizeof what, "fitted: all constants of %s; compare the errors of", cluster->name);
  } else {
    snprintf(what, sizeof what, "fitted: %s of %s (%s: round figures); compare the errors of", fitted, cluster->name,
             others);
  }
  snprintf(buffer, TRI_ACCURACY_TEXT_BYTES,
           "%s fitted clusters, nine in ten of %ld published runs between %+.1f %% and %+.1f %%", what,
           (long)known.rows, 100 * known.low, 100 * known.high);
  return buffer;
}

json_t *tri_accuracy_json(const tri_cluster *cluster) {
  tri_accuracy known = tri_accuracy_published();
  json_t *fitted = json_array();
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const char *name = tri_cluster_constant_name(i);
    if (is_fitted(cluster, name)) json_array_append_new(fitted, json_string(name));
  }
  return json_pack("{s:o, s:{s:f, s:f, s:I}}", "fitted", fitted, "published_errors", "low", known.low, "high",
                   known.high, "rows", (json_int_t)known.rows);
}
