/* quantised_tool DEVICE signed|unsigned: fp32 numbers on standard input, in the machine's order of bytes, become codes
 * of 8 bits. Prints the map's 256 numbers, the codes, and the scales, a line each. */
#include "base/dynamic_map.h"
#include "device/kernels.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 22 };

static tri_status quantise(const char *name, bool with_sign, int64_t count, const float *in, uint8_t *codes,
                           float *scales) {
  tri_device *device = NULL;
  TRI_TRY(tri_device_create(name, 1, &device));
  tri_status status = TRI_OK;
  if (device->info.host_memory) {
    status = device->kernels->quantise_blocks(device->queue, TRI_FP32, count, with_sign, in, codes, scales);
  } else {
    status = tri_fail(TRI_UNSUPPORTED, "%s has memory of its own; take cpu or reference", name);
  }
  tri_device_destroy(device);
  return status;
}

int main(int argc, char **argv) {
  static float in[MOST], scales[MOST / TRI_QUANTISED_BLOCK];
  static uint8_t codes[MOST];
  if (argc != 3) return 2;
  const bool with_sign = strcmp(argv[2], "signed") == 0;
  const int64_t count = (int64_t)fread(in, sizeof *in, MOST, stdin);
  tri_status status = quantise(argv[1], with_sign, count, in, codes, scales);
  for (int c = 0; status == TRI_OK && c < TRI_DYNAMIC_CODES; c++)
    printf("%.9g ", (double)tri_dynamic_number(with_sign, c));
  printf("\n");
  for (int64_t i = 0; status == TRI_OK && i < count; i++) printf("%d ", codes[i]);
  printf("\n");
  for (int64_t b = 0; status == TRI_OK && b * TRI_QUANTISED_BLOCK < count; b++) printf("%.9g ", (double)scales[b]);
  printf("\n");
  if (status != TRI_OK) fprintf(stderr, "quantised_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
