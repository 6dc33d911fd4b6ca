#include "cli/running/expert_loads.h"

#include "files/file.h"
#include "files/lines.h"
#include "mesh/parts.h"

#include <jansson.h>
#include <string.h>

enum { LONGEST_LINE_BYTES = 1 << 24 }; /* room for the load of every expert of every layer */
static const double most_rows = 1e15;  /* a run writes no larger loads; the sums of larger ones would not be finite */

typedef struct sums {
  double imbalance;
  int64_t layers;
} sums;

/* Adds the imbalance of a layer: the rows of the busiest holder, relative to the rows that the holder with the most
 * experts would have if all experts were equally busy. */
static void add_layer(const json_t *layer, int64_t holders, sums *to) {
  const json_t *load = json_object_get(layer, "load");
  const int64_t experts = (int64_t)json_array_size(load), most_experts = (experts + holders - 1) / holders;
  double all = 0, most = 0;
  for (int64_t h = 0; h < holders; h++) {
    double rows = 0;
    for (int64_t e = tri_part_begin(experts, holders, h); e < tri_part_begin(experts, holders, h + 1); e++) {
      const double of_expert = json_number_value(json_array_get(load, (size_t)e));
      if (!(of_expert >= 0 && of_expert <= most_rows)) return;
      rows += of_expert;
    }
    all += rows;
    if (rows > most) most = rows;
  }
  if (all <= 0) return;
  to->imbalance += most / (all * (double)most_experts / (double)experts);
  to->layers++;
}

static void add_step(const char *line, size_t bytes, int64_t holders, sums *to) {
  json_t *step = json_loadb(line, bytes, 0, NULL); /* NULL if the line is incomplete; such a line has no layers */
  const json_t *layers = json_object_get(step, "experts");
  for (size_t i = 0; i < json_array_size(layers); i++) add_layer(json_array_get(layers, i), holders, to);
  json_decref(step);
}

tri_status tri_expert_loads_imbalance(const char *metrics, int64_t holders, double *out) {
  tri_lines *lines = NULL;
  sums sum = {0};
  tri_status status = TRI_OK;
  *out = 0;
  if (!tri_path_exists(metrics)) return TRI_OK;
  TRI_TRY(tri_lines_open(metrics, LONGEST_LINE_BYTES, &lines));
  for (bool there = true; there;) {
    tri_line line;
    TRI_TRY_GOTO(tri_lines_next_any(lines, &line, &there), close_lines);
    if (there && !line.too_long) add_step(line.text, line.bytes, holders, &sum);
  }
  if (sum.layers == 0) goto close_lines;
  const double mean = sum.imbalance / (double)sum.layers;
  *out = mean < 1 ? 1 : mean;
close_lines:
  tri_lines_close(lines);
  return status;
}
