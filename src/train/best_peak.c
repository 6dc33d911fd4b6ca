#include "train/best_peak.h"

#include "base/fnv1a.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = TRI_PEAK_KEY_BYTES + 128, NAME_BYTES = 40 };

void tri_best_peak_key(const tri_device *device, tri_dtype type, bool tf32, char out[TRI_PEAK_KEY_BYTES]) {
  tri_machine machine = {.processor = ""};
  if (tri_machine_read("/", &machine) != TRI_OK) machine.processor[0] = '\0';
  /* The device's place is not in the key, because all GPUs of a machine are equally fast. */
  snprintf(out, TRI_PEAK_KEY_BYTES, "%s, %s, %d threads, %s%s", machine.processor, device->info.name,
           device->description.threads, tri_dtype_name(type), tf32 ? ", tf32" : "");
  for (char *at = out; *at != '\0'; at++) {
    if (*at == '\n') *at = ' ';
  }
}

static uint64_t sum_of(const char *text) { return tri_fnv1a(TRI_FNV1A_BEGIN, text); }

/* Prints the whole file: its format, the key, the number, and a checksum of these. */
static void print_file(const char *key, double flops, char out[TEXT_BYTES]) {
  snprintf(out, TEXT_BYTES, "trireme peak 1\n%s\n%.17g FLOP/s\n", key, flops);
  size_t length = strlen(out);
  snprintf(out + length, TEXT_BYTES - length, "%016" PRIx64 "\n", sum_of(out));
}

static tri_status find_path(const char *folder, const char *key, char out[TRI_PATH_BYTES]) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "peak-%016" PRIx64, sum_of(key));
  return tri_path_join(out, folder, name);
}

/* Returns 0 unless the file is exactly the text that print_file prints for the key and the number in it. */
double tri_best_peak_read(const char *folder, const char *key) {
  char path[TRI_PATH_BYTES], expected[TEXT_BYTES], *text = NULL;
  double flops = 0;
  if (find_path(folder, key, path) != TRI_OK || !tri_path_exists(path)) return 0;
  if (tri_file_read_plain(path, TEXT_BYTES, &text, NULL) != TRI_OK) return 0;
  const char *line = strchr(text, '\n');
  if (line != NULL) line = strchr(line + 1, '\n');
  if (line != NULL) flops = strtod(line + 1, NULL);
  print_file(key, flops, expected);
  bool good = isfinite(flops) && flops > 0 && strcmp(text, expected) == 0;
  tri_free(text);
  return good ? flops : 0;
}

tri_status tri_best_peak_write(const char *folder, const char *key, double flops) {
  char path[TRI_PATH_BYTES], text[TEXT_BYTES];
  print_file(key, flops, text);
  TRI_TRY(tri_directory_create(folder));
  TRI_TRY(find_path(folder, key, path));
  return tri_file_replace(path, text, strlen(text));
}
