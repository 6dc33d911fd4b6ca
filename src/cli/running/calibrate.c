/* `trireme calibrate`: measures the device and its links (calibrate_tables.c), and writes a cluster's description. */
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/system.h"
#include "cli/cli.h"
#include "cli/running/calibrate_tables.h"
#include "cli/running/model_options.h"
#include "cli/running/ranks.h"
#include "comm/agreement.h"
#include "comm/placement.h"
#include "engine/measure.h"
#include "engine/rank_device.h"
#include "files/file.h"
#include "files/machine.h"
#include "launch/launcher.h"
#include "model/model_config.h"
#include "plan/calibration.h"

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
  const char *model_name; /* preset or file; NULL: not given */
  tri_model model;
  int64_t sequence, micro_batch; /* positions of a sequence of the model; sequences of a micro-batch */
  int64_t time_s;                /* time after which no further product of the fine grid is measured, in seconds */
  char **given;                  /* the command line */
} arguments;

static const double PATIENCE_S = 600; /* time to wait for ranks that give no sign of life, in seconds */

static tri_status read_precision(void *values, const char *text) {
  arguments *out = values;
  return tri_option_fp32_or_bf16("--precision", text, &out->precision);
}

#define TRI_OPTION_VALUES arguments
static const tri_option calibrate_options[] = {
    {TRI_INT("ranks", ranks, 1, 1 << 16), .letter = 'n',
     .help = "  -n, --ranks N     start N ranks through this machine's mpiexec\n"},
    {TRI_READ("precision", read_precision),
     .help = "  --precision P     type of the activations: fp32 (the default) or bf16\n"},
    {TRI_TEXT("device", device),
     .help = "  --device D        device to measure, as in a run file: auto (the default), cpu, gpu, gpu:2\n"},
    {TRI_PATH("model", model_name),
     .help = "  --model M         measure the products and the attention of this model, too, and not only a grid\n"},
    {TRI_LENGTH("sequence", sequence, 1, 1 << 24),
     .help = "  --sequence N      tokens of a sequence of the model (its max_sequence)\n"},
    {TRI_INT("micro-batch", micro_batch, 1, 1 << 20),
     .help = "  --micro-batch B   sequences of a micro-batch of the model (1)\n"},
    {TRI_INT("time", time_s, 0, 86400),
     .help =
         "  --time S          measure no further products of the grid after S seconds (60); a coarse grid is measured\n"
         "                    in any case\n"},
    {0}};

static tri_status calibrate_parse(int count, char **given, arguments *out) {
  const tri_option_table table = {.command = "calibrate", .rows = calibrate_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, given, out, &first));
  if (first == count) {
    return tri_fail(TRI_BAD_USAGE,
                    "calibrate: which file is to be written? For example: trireme calibrate this-machine.yaml");
  }
  if (first + 1 < count)
    return tri_fail(TRI_BAD_USAGE, "calibrate: one file at a time, not `%s` too", given[first + 1]);
  out->out = given[first];
  size_t length = strlen(out->out);
  if (length < 6 || strcmp(out->out + length - 5, ".yaml") != 0) {
    return tri_fail(TRI_BAD_USAGE, "calibrate: %s must end in .yaml, as a cluster file does", out->out);
  }
  if (out->model_name == NULL && (out->sequence > 0 || out->micro_batch > 0)) {
    return tri_fail(TRI_BAD_USAGE, "calibrate: --sequence and --micro-batch are those of a --model; name it, too");
  }
  if (out->model_name == NULL) return TRI_OK;
  TRI_TRY(tri_model_load(out->model_name, &out->model));
  if (out->sequence == 0) out->sequence = out->model.max_sequence;
  if (out->micro_batch == 0) out->micro_batch = 1;
  return TRI_OK;
}

/* Prints the host, the date, the device and the residuals of the fit as comments above the description. */
static void print_heading(FILE *to, const arguments *given, const tri_calibration *from, const tri_device *device,
                          const tri_residuals *r) {
  char host[64] = "", day[32] = "";
  time_t now = time(NULL);
  struct tm date;
  const tri_device_info *info = &device->info;
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  if (localtime_r(&now, &date) != NULL) strftime(day, sizeof day, "%Y-%m-%d", &date);
  fprintf(to, "# Measured on %s, %s, by `trireme calibrate -n %ld`: %ld rank%s at once, %ld thread%s each.\n", host,
          day, (long)from->devices, (long)from->devices, TRI_PLURAL(from->devices), (long)from->threads,
          TRI_PLURAL(from->threads));
  fprintf(to, "# Device: %s%s%s\n", info->name, info->chip[0] == '\0' ? "" : ": ", info->chip);
  if (given->model_name != NULL) {
    fprintf(to, "# With the shapes of %s at %ld positions and %ld sequence%s a micro-batch.\n", given->model_name,
            (long)given->sequence, (long)given->micro_batch, TRI_PLURAL(given->micro_batch));
  }
  fprintf(to,
          "# The tables below `measured:` are the measurements. The values above them are fitted to the measurements "
          "and are used\n"
          "# only for sizes that are not in the tables. Half of the measurements differ from the fit by at most: "
          "products %.1f %%",
          100 * r->products);
  if (from->devices > 1) fprintf(to, ", all-reduces %.1f %%, messages %.1f %%", 100 * r->reduces, 100 * r->messages);
  fprintf(to, " of it.\n");
}

/* Returns the number of online cores; 0 if the system does not report it. */
static int64_t cores_of_node(void) {
  tri_machine machine;
  return tri_machine_read("/", &machine) == TRI_OK ? machine.cores_online : 0;
}

/* Returns the number of processors in the chip's description, such as "sm_90a, 132 processors at 1.98 GHz"; 0 if it has
 * none. */
static int64_t processors_of(const tri_device *device) {
  const char *word = strstr(device->info.chip, " processors");
  if (word == NULL) return 0;
  while (word > device->info.chip && word[-1] >= '0' && word[-1] <= '9') word--;
  return (int64_t)strtol(word, NULL, 10);
}

static tri_status write_cluster(const arguments *given, const tri_calibration *from, const tri_device *device) {
  char *heading = NULL, *text = NULL;
  size_t bytes = 0;
  tri_cluster *cluster = NULL;
  tri_residuals residuals;
  TRI_TRY(tri_alloc("a cluster", 1, sizeof *cluster, &cluster));
  tri_calibrate(from, cluster, &residuals);
  FILE *to = open_memstream(&heading, &bytes);
  if (to == NULL) {
    tri_free(cluster);
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a cluster file");
  }
  print_heading(to, given, from, device, &residuals);
  fclose(to);
  tri_status status = tri_config_print(&tri_cluster_table, cluster, heading, &text);
  if (status == TRI_OK) status = tri_file_replace(given->out, text, strlen(text));
  if (status == TRI_OK) tri_log("wrote %s: use it as --cluster %s", given->out, given->out);
  tri_free(text);
  tri_free(cluster);
  free(heading);
  return status;
}

/* Times in seconds. HOST_LONGEST_S, DEVICE_LONGEST_S: longest time of one product of the grid, estimated at the
 * device's peak, for kernels on the host and on a GPU. EACH_S: time to spend on each measurement. USUAL_TIME_S: default
 * of --time. */
static const double HOST_LONGEST_S = 0.06, DEVICE_LONGEST_S = 0.02, EACH_S = 0.03;
static const int64_t USUAL_TIME_S = 60;

/* COLLECTIVE. Measures all tables; the first rank writes the description. */
static tri_status measure_and_write(const arguments *given, tri_device *device, const tri_group *world,
                                    tri_measured *tables) {
  tri_measure *measure = NULL;
  double peak = 0, begin_s = tri_clock_s();
  const tri_measure_request request = {device, given->precision, world, EACH_S};
  TRI_TRY(tri_measure_create(&request, &measure));
  tri_status status = tri_measure_peak(measure, &peak);
  const tri_calibrate_request wanted = {.measure = measure,
                                        .world = world,
                                        .until_s = begin_s + (double)given->time_s,
                                        .precision = given->precision,
                                        .ranks = world->size,
                                        .peak = peak,
                                        .longest_s = device->info.host_memory ? HOST_LONGEST_S : DEVICE_LONGEST_S,
                                        .model = given->model_name == NULL ? NULL : &given->model,
                                        .sequence = given->sequence,
                                        .micro_batch = given->micro_batch};
  if (status == TRI_OK) status = tri_calibrate_tables(&wanted, tables);
  tri_measure_destroy(measure);
  TRI_TRY(status);
  for (int64_t i = 0; i < tables->num_products;
       i++) { /* `peak` is the rate of one product; other products may be faster */
    const tri_measured_product *p = &tables->products[i];
    double rate = 2 * (double)p->rows * (double)p->inner * (double)p->columns / p->seconds;
    if (rate > peak) peak = rate;
  }
  char name[64];
  const char *slash = strrchr(given->out, '/'), *file = slash == NULL ? given->out : slash + 1;
  snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - 5), file);
  const tri_calibration from = {.name = name,
                                .accelerator = !device->info.host_memory,
                                .devices = world->size,
                                .threads = device->description.threads,
                                .cores = cores_of_node(),
                                .nodes = tri_comm_num_nodes(),
                                .precision = given->precision,
                                .peak = peak,
                                .memory_bytes = device->info.host_memory
                                                    ? (double)tri_system_memory_of_node() / (double)world->size
                                                    : (double)device->info.memory_bytes,
                                .processors = processors_of(device),
                                .measured = tables};
  return tri_first_rank_status(world, world->rank == 0 ? write_cluster(given, &from, device) : TRI_OK);
}

static tri_status calibrate_measure(const arguments *given) {
  int threads = 0;
  tri_measured *tables = NULL;
  TRI_TRY(tri_comm_open());
  TRI_TRY(tri_placement_apply(&threads));
  tri_device *device = NULL;
  TRI_TRY(tri_rank_device_create(given->device, threads, &device));
  tri_group world = tri_group_world();
  char what[128];
  if (world.rank == 0)
    tri_log("measuring %d rank%s of %s", world.size, TRI_PLURAL(world.size),
            tri_device_describe(device, what, sizeof what));
  tri_status status = tri_alloc("tables of measurements", 1, sizeof *tables, &tables);
  if (status == TRI_OK) status = measure_and_write(given, device, &world, tables);
  tri_free(tables);
  tri_device_destroy(device);
  return status;
}

static tri_status join_and_measure(const arguments *given) { return tri_ranks_end(calibrate_measure(given)); }

static tri_status calibrate_run(int count, char **given) {
  arguments parsed = {.precision = TRI_FP32, .device = "auto", .time_s = USUAL_TIME_S, .given = given};
  TRI_TRY(calibrate_parse(count, given, &parsed));
  if (parsed.ranks > 1 && !tri_launch_is_rank()) {
    tri_launch_options options = {.ranks = parsed.ranks, .hang_timeout_s = PATIENCE_S};
    return tri_launch(&options, given);
  }
  tri_stop_release();
  return join_and_measure(&parsed);
}

const tri_command tri_command_calibrate = {
    .name = "calibrate",
    .summary = "measure this machine and write its cluster file",
    .usage =
        "usage: trireme calibrate OUT.yaml [-n RANKS] [--precision fp32|bf16] [--device D]\n"
        "                         [--model M [--sequence N] [--micro-batch B]] [--time S]\n"
        "\n"
        "Measures matrix products of many shapes, and attention, element-wise work, collectives and messages of many "
        "sizes,\n"
        "while all ranks do the same work. Writes a cluster file whose devices are such ranks, with the measurements "
        "as\n"
        "tables. Write one file for each number of ranks, and of threads of a rank, that you plan for.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme calibrate this-machine.yaml -n 2\n",
    .holds_signals = true,
    .options = calibrate_options,
    .run = calibrate_run,
};
