#include "cli/running/eval_weights.h"

#include "base/format.h"
#include "files/json_kind.h"
#include "options/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

double tri_weights_row_bytes(const tri_executor *executor) { return (double)executor->weights->plan.bytes; }

static double tokens_per_s(const tri_weights_row *row) { return row->tokens / (row->seconds + 1e-9); }

static void print_text(const tri_weights_table *t, const tri_model_options *options) {
  char bytes[32];
  printf("%-8s", "weights");
  for (int c = 0; c < TRI_WEIGHTS_COLUMNS && t->columns[c] != NULL; c++) printf("  %13s", t->columns[c]);
  printf("  %12s  %10s\n", "memory", "tokens/s");
  for (int i = 0; i < options->num_forms; i++) {
    const tri_weights_row *row = &t->rows[i];
    printf("%-8s", options->forms[i]->name);
    for (int c = 0; c < TRI_WEIGHTS_COLUMNS && t->columns[c] != NULL; c++) {
      if (isfinite(row->values[c])) printf("  %13.6f", row->values[c]);
      if (!isfinite(row->values[c])) printf("  %13s", "-");
    }
    printf("  %12s  %10.0f\n", tri_format_bytes(row->bytes, bytes, sizeof bytes), tokens_per_s(row));
  }
}

static json_t *row_json(const tri_weights_table *t, const char *name, const tri_weights_row *row) {
  json_t *out = json_pack("{s:s}", "weights", name);
  for (int c = 0; c < TRI_WEIGHTS_COLUMNS && t->columns[c] != NULL; c++)
    json_object_set_new(out, t->columns[c], tri_json_number(row->values[c]));
  json_object_set_new(out, "weights_bytes", json_integer((json_int_t)row->bytes));
  json_object_set_new(out, "tokens", json_integer((json_int_t)row->tokens));
  json_object_set_new(out, "tokens_per_s", json_real(tokens_per_s(row)));
  return out;
}

tri_status tri_weights_table_print(const tri_weights_table *table, const tri_model_options *options, bool json) {
  if (!json) {
    print_text(table, options);
    return TRI_OK;
  }
  json_t *rows = json_array();
  for (int i = 0; i < options->num_forms; i++)
    json_array_append_new(rows, row_json(table, options->forms[i]->name, &table->rows[i]));
  return tri_print_json(json_pack("{s:o}", "weights", rows));
}
