#include "cli/plan_csv.h"

#include "files/file.h"
#include "plan/report.h"
#include "schedule/layout_config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_value(const json_t *value, FILE *to) {
  if (json_is_array(value)) { /* list, such as "[3,4,4,3]", in the form that --layout accepts */
    char *text = json_dumps(value, JSON_COMPACT);
    fprintf(to, "\"%s\",", text == NULL ? "" : text);
    free(text);
  } else if (json_is_string(value)) {
    fprintf(to, "%s,", json_string_value(value));
  } else if (json_is_boolean(value)) {
    fprintf(to, "%s,", json_is_true(value) ? "true" : "false");
  } else if (json_is_integer(value)) {
    fprintf(to, "%lld,", (long long)json_integer_value(value));
  } else {
    fprintf(to, "%.10g,", json_real_value(value));
  }
}

/* Writes the line of a layout. Values need no escapes: only lists have commas, and no value has quotes. */
static void write_layout(void *context, const tri_layout *layout, const tri_prediction *p) {
  tri_plan_csv *csv = context;
  FILE *to = csv->to;
  json_t *keys = tri_report_layout(layout);
  fprintf(to, "%lld,", (long long)tri_layout_ranks(layout));
  for (size_t k = 0; k < tri_layout_table.num_keys; k++)
    write_value(json_object_get(keys, tri_layout_table.keys[k].name), to);
  json_decref(keys);
  fprintf(to, "%.10g,%.10g,%.10g,%.10g,%.10g,%.10g,%.10g,%.0f,%s\n", p->step_s, p->tokens_per_s,
          p->model_tflops_per_device, p->tflops_per_device, p->mfu, p->hfu, p->bubble, p->memory.peak,
          p->fits ? "true" : "false");
}

static tri_status check_folder(const char *path) {
  char folder[TRI_PATH_BYTES];
  const char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path) return TRI_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  if (tri_path_is_directory(folder)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--csv %s: the folder %s does not exist; make it, or name another file", path, folder);
}

tri_status tri_plan_csv_open(tri_plan_csv *csv, const char *path, tri_search_request *request) {
  TRI_TRY(check_folder(path));
  csv->path = path;
  csv->to = open_memstream(&csv->text, &csv->bytes);
  if (csv->to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s", path);
  fprintf(csv->to, "devices,");
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) fprintf(csv->to, "%s,", tri_layout_table.keys[k].name);
  fprintf(csv->to,
          "step_s,tokens_per_s,model_tflops_per_device,hardware_tflops_per_device,mfu,hfu,bubble,"
          "peak_bytes,fits\n");
  request->simulated = write_layout;
  request->context = csv;
  return TRI_OK;
}

tri_status tri_plan_csv_close(tri_plan_csv *csv, tri_status searched) {
  tri_status status = searched;
  const bool whole = fclose(csv->to) == 0;
  if (status == TRI_OK && !whole) status = tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s", csv->path);
  if (status == TRI_OK) status = tri_file_replace(csv->path, csv->text, csv->bytes);
  free(csv->text);
  return status;
}
