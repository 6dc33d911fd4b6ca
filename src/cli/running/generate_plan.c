/* `generate --dry-run` and `serve --dry-run`: predict the memory that the generation of texts needs. */
#include "base/format.h"
#include "base/system.h"
#include "cli/running/generate.h"

#include <stdio.h>

tri_status tri_generate_print_plan(const tri_generation *g, const tri_runner_sizes *sizes, int64_t ranks) {
  const tri_model_options *options = &g->request->model;
  tri_device *device = NULL;
  tri_runner_need need, draft;
  TRI_TRY(tri_device_create(options->device, (int)options->threads, &device));
  const tri_status status = tri_generation_plan(g, sizes, device, &need, &draft);
  tri_device_destroy(device);
  TRI_TRY(status);
  const size_t process =
      tri_system_peak_resident_bytes(); /* memory of the process after the libraries and the tokenizer are loaded */
  const struct {
    const char *name;
    size_t bytes;
  } rows[] = {{"cache", need.cache_bytes},
              {"weights and the rest", need.device_bytes - need.cache_bytes},
              {"draft model", draft.device_bytes},
              {"device memory", need.device_bytes + draft.device_bytes},
              {"host memory", need.host_bytes + draft.host_bytes},
              {"program and tokenizer", process},
              {"all", need.device_bytes + need.host_bytes + draft.device_bytes + draft.host_bytes + process}};
  const int64_t tensor = g->request->tensor, all = ranks > tensor ? ranks : tensor;
  if (all > 1) printf("on each of %ld ranks:\n", (long)all);
  printf("%ld page%s of %d positions; a run has %ld rows at most\n", (long)sizes->pages, TRI_PLURAL(sizes->pages),
         (int)TRI_PAGE_ROWS, (long)sizes->rows);
  printf("memory plan:\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[32];
    if (rows[i].bytes == 0) continue;
    printf("  %-22s %16zu bytes  %s\n", rows[i].name, rows[i].bytes,
           tri_format_bytes((double)rows[i].bytes, text, sizeof text));
  }
  return TRI_OK;
}

tri_status tri_generate_plan(tri_texts *t, int64_t ranks) {
  tri_runner_sizes sizes;
  TRI_TRY(tri_texts_sizes(t, &sizes));
  printf("%ld text%s, %ld side by side, of %ld positions at most\n", (long)t->count, TRI_PLURAL(t->count),
         (long)t->batch, (long)sizes.positions);
  return tri_generate_print_plan(t->generation, &sizes, ranks);
}
