#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "comm/agreement.h"
#include "comm/launcher.h"
#include "comm/placement.h"
#include "engine/measure.h"
#include "engine/rank_device.h"
#include "plan/calibration.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct arguments {
  const char *out;
  int64_t ranks;
  const char *device;
  tri_dtype precision;
  char **given;
} arguments;

enum { OPTION_PRECISION = 256, OPTION_DEVICE };

static const double PATIENCE_S = 600; /* with ranks that give no sign of life */

static tri_status calibrate_parse(int count, char **given, arguments *out) {
  static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"precision", required_argument, NULL, OPTION_PRECISION},
                                          {"device", required_argument, NULL, OPTION_DEVICE},
                                          {NULL, 0, NULL, 0}};
  optind = 1;
  opterr = 0;
  for (;;) {
    int result = getopt_long(count, given, ":n:", options, NULL);
    if (result == -1) break;
    switch (result) {
      case 'n': TRI_TRY(tri_option_int("-n", optarg, 1, 1 << 16, &out->ranks)); break;
      case OPTION_DEVICE: out->device = optarg; break;
      case OPTION_PRECISION:
        if (strcmp(optarg, "fp32") != 0 && strcmp(optarg, "bf16") != 0) {
          return tri_fail(TRI_BAD_USAGE, "--precision is `%s`; it can be fp32 or bf16", optarg);
        }
        out->precision = strcmp(optarg, "bf16") == 0 ? TRI_BF16 : TRI_FP32;
        break;
      default: return tri_option_fault("calibrate", result, given);
    }
  }
  if (optind == count) {
    return tri_fail(TRI_BAD_USAGE,
                    "calibrate: which file is to be written? For example: trireme calibrate this-machine.yaml");
  }
  if (optind + 1 < count)
    return tri_fail(TRI_BAD_USAGE, "calibrate: one file at a time, not `%s` too", given[optind + 1]);
  out->out = given[optind];
  size_t length = strlen(out->out);
  if (length < 6 || strcmp(out->out + length - 5, ".yaml") != 0) {
    return tri_fail(TRI_BAD_USAGE, "calibrate: %s must end in .yaml, as a cluster file does", out->out);
  }
  return TRI_OK;
}

/* What was measured, as comments above the description. */
static void print_heading(FILE *to, const tri_measurements *m, const tri_residuals *r) {
  char host[64] = "", day[32] = "";
  time_t now = time(NULL);
  struct tm date;
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  if (localtime_r(&now, &date) != NULL) strftime(day, sizeof day, "%Y-%m-%d", &date);
  fprintf(to, "# Measured on %s, %s, by `trireme calibrate -n %ld`: %ld ranks at once, %ld threads each.\n", host, day,
          (long)m->ranks, (long)m->ranks, (long)m->threads);
  fprintf(to, "# Device: %s%s%s\n", m->device, m->chip[0] == '\0' ? "" : ": ", m->chip);
  fprintf(to, "# Half of the measurements lie within: products %.1f %%", 100 * r->products);
  if (m->ranks > 1) fprintf(to, ", all-reduces %.1f %%, messages %.1f %%", 100 * r->reduces, 100 * r->messages);
  fprintf(to, " of what this file says.\n#\n# products (rows x inner x columns: GFLOP/s):");
  for (int64_t i = 0; i < m->num_products; i++) {
    const tri_measured_product *p = &m->products[i];
    double rate = 2e-9 * (double)p->rows * (double)p->inner * (double)p->columns / p->seconds;
    fprintf(to, "%s %ld x %ld x %ld: %.1f", i % 4 == 0 ? "\n#  " : ";", (long)p->rows, (long)p->inner, (long)p->columns,
            rate);
  }
  if (m->num_reduces > 0) fprintf(to, "\n# bytes: microseconds of an all-reduce, of a message:");
  for (int64_t i = 0; i < m->num_reduces; i++) {
    fprintf(to, "%s %.0f: %.1f, %.1f", i % 4 == 0 ? "\n#  " : ";", m->reduces[i].bytes, 1e6 * m->reduces[i].seconds,
            1e6 * m->messages[i].seconds);
  }
  fprintf(to, "\n");
}

/* 0 where the system does not say. */
static int64_t cores_of_node(void) {
  tri_machine machine;
  return tri_machine_read("/", &machine) == TRI_OK ? machine.cores_online : 0;
}

static tri_status write_cluster(const arguments *given, const tri_measurements *m) {
  tri_product_sample products[TRI_MEASURED_PRODUCTS];
  tri_transfer_sample reduces[TRI_MEASURED_MESSAGES], messages[TRI_MEASURED_MESSAGES];
  char name[64], *heading = NULL, *text = NULL;
  size_t bytes = 0;
  const char *slash = strrchr(given->out, '/');
  snprintf(name, sizeof name, "%.*s", (int)(strlen(slash == NULL ? given->out : slash + 1) - 5),
           slash == NULL ? given->out : slash + 1);
  for (int64_t i = 0; i < m->num_products; i++) {
    const tri_measured_product *p = &m->products[i];
    products[i] = (tri_product_sample){(double)p->rows, (double)p->inner, (double)p->columns, p->seconds};
  }
  for (int64_t i = 0; i < m->num_reduces; i++) {
    reduces[i] = (tri_transfer_sample){m->reduces[i].bytes, m->reduces[i].seconds};
    messages[i] = (tri_transfer_sample){m->messages[i].bytes, m->messages[i].seconds};
  }
  double peak = m->peak_flops; /* of one product; another shape may do better */
  for (int64_t i = 0; i < m->num_products; i++) {
    double rate = 2 * products[i].rows * products[i].inner * products[i].columns / products[i].seconds;
    if (rate > peak) peak = rate;
  }
  const tri_calibration from = {.name = name,
                                .accelerator = m->own_memory,
                                .devices = m->ranks,
                                .threads = m->threads,
                                .cores = cores_of_node(),
                                .nodes = tri_comm_num_nodes(),
                                .precision = given->precision,
                                .peak = peak,
                                .memory_bandwidth = m->memory_bandwidth,
                                .vector_flops = m->vector_flops,
                                .attention_flops = m->attention_flops,
                                .memory_bytes = m->memory_bytes,
                                .products = products,
                                .num_products = m->num_products,
                                .reduces = reduces,
                                .messages = messages,
                                .num_reduces = m->num_reduces,
                                .num_messages = m->num_messages};
  tri_cluster cluster;
  tri_residuals residuals;
  tri_calibrate(&from, &cluster, &residuals);
  FILE *to = open_memstream(&heading, &bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a cluster file");
  print_heading(to, m, &residuals);
  fclose(to);
  tri_status status = tri_config_print(&tri_cluster_table, &cluster, heading, &text);
  if (status == TRI_OK) status = tri_file_replace(given->out, text, strlen(text));
  if (status == TRI_OK) tri_log("wrote %s: use it as --cluster %s", given->out, given->out);
  tri_free(text);
  free(heading);
  return status;
}

static tri_status calibrate_measure(const arguments *given) {
  tri_measurements m;
  int threads = 0;
  TRI_TRY(tri_comm_open());
  TRI_TRY(tri_placement_apply(&threads));
  tri_device *device = NULL;
  TRI_TRY(tri_rank_device_create(given->device, threads, &device));
  tri_group world = tri_group_world();
  char what[128];
  if (world.rank == 0) tri_log("measuring %d ranks of %s", world.size, tri_device_describe(device, what, sizeof what));
  tri_status status = tri_measure(device, given->precision, &world, &m);
  if (status == TRI_OK) status = tri_first_rank_status(&world, world.rank == 0 ? write_cluster(given, &m) : TRI_OK);
  tri_device_destroy(device);
  return status;
}

static tri_status join_and_measure(const arguments *given) {
  tri_status status = calibrate_measure(given);
  if (status != TRI_OK && tri_comm_size() > 1) tri_comm_fail(status);
  tri_comm_close();
  return status;
}

static tri_status calibrate_run(int count, char **given) {
  arguments parsed = {.precision = TRI_FP32, .device = "auto", .given = given};
  TRI_TRY(calibrate_parse(count, given, &parsed));
  if (parsed.ranks > 1) {
    tri_launch_options options = {.ranks = parsed.ranks, .hang_timeout_s = PATIENCE_S};
    return tri_launch(&options, given);
  }
  tri_stop_release();
  return join_and_measure(&parsed);
}

const tri_command tri_command_calibrate = {
    .name = "calibrate",
    .summary = "measure this machine and write its cluster file",
    .help =
        "usage: trireme calibrate OUT.yaml [-n RANKS] [--precision fp32|bf16] [--device D]\n"
        "\n"
        "Measures matrix products over shapes, memory, attention, all-reduces and messages over sizes, while all ranks "
        "are\n"
        "at it, and writes a cluster whose devices are such ranks: one file for each number of ranks that you plan "
        "for.\n"
        "\n"
        "  -n RANKS          start so many ranks through this machine's mpiexec\n"
        "  --precision P     of the matrix products: fp32 (the default) or bf16\n"
        "  --device D        what is measured, as in a run file: auto (the default), cpu, gpu, gpu:2\n"
        "\n"
        "example: trireme calibrate this-machine.yaml -n 2\n",
    .holds_signals = true,
    .run = calibrate_run,
};
