/* Reads any bytes as a run file with `--set` options. The input is the YAML text and the options, separated by zero
 * bytes. An accepted configuration is printed, and reading the printed text must give the same configuration. */
#include "base/memory.h"
#include "run/run_config.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 8, MAX_INPUT = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_round_trip(const tri_run_config *config) {
  static tri_run_config again;
  char *first = NULL;
  char *second = NULL;
  if (tri_run_config_print(config, &first) != TRI_OK) abort();
  if (tri_run_config_parse("printed", first, strlen(first), NULL, 0, &again) != TRI_OK) abort();
  if (memcmp(config, &again, sizeof again) != 0) abort();
  if (tri_run_config_print(&again, &second) != TRI_OK || strcmp(first, second) != 0) abort();
  tri_free(first);
  tri_free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static tri_run_config config;
  char text[MAX_INPUT + 1];
  const char *options[MAX_OPTIONS];
  int64_t num_options = 0;
  if (bytes > MAX_INPUT) return 0;
  if (bytes > 0) memcpy(text, data, bytes);
  text[bytes] = '\0';
  size_t yaml_bytes = strlen(text);
  for (size_t at = yaml_bytes; at < bytes && num_options < MAX_OPTIONS; at += 1 + strlen(text + at + 1)) {
    options[num_options++] = text + at + 1;
  }
  size_t held = tri_memory_bytes();
  /* A copy of the exact length: a read beyond the text is then seen. */
  char *yaml = malloc(yaml_bytes + 1);
  memcpy(yaml, text, yaml_bytes);
  yaml = realloc(yaml, yaml_bytes == 0 ? 1 : yaml_bytes);
  tri_status status = tri_run_config_parse("fuzzed", yaml, yaml_bytes, options, num_options, &config);
  free(yaml);
  config.optimizer.warmup_asked = 0; /* not printed: the printed warm-up is the final one */
  if (status == TRI_OK) check_round_trip(&config);
  if (status != TRI_OK && tri_status_message()[0] == '\0') abort();
  if (status == TRI_INTERNAL || tri_memory_bytes() != held) abort();
  return 0;
}
