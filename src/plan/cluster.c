#include "plan/cluster.h"

#include "config/preset.h"
#include "plan/preset_file.h"
#include "plan/range.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define KEY TRI_CONFIG_KEY
#define POSITIVE .range = {.low = 0, .high = 1e30, .open_low = true}
#define NOT_NEGATIVE .range = {.low = 0, .high = 1e30}
#define SHARE .range = {.low = 0, .high = 1, .open_low = true}
#define DEVICES .range = {.low = 1, .high = 1 << 24}

static const tri_config_key link_keys[] = {
    {KEY(tri_link, name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_link *)0)->name), .example = "node",
     .help = "name in reports"},
    {KEY(tri_link, spans, TRI_CONFIG_AUTO), DEVICES, .fallback = "auto",
     .help = "neighbouring devices that it joins; auto: all"},
    {KEY(tri_link, per, TRI_CONFIG_INT), DEVICES, .fallback = "1", .help = "neighbouring devices that share its ports"},
    {KEY(tri_link, ports, TRI_CONFIG_INT), DEVICES, .fallback = "1", .help = "ports that they share"},
    {KEY(tri_link, stripe, TRI_CONFIG_INT), DEVICES, .fallback = "1",
     .help = "ports that one ring goes through at once"},
    {KEY(tri_link, share, TRI_CONFIG_DOUBLE), SHARE, .fallback = "1.0",
     .help = "fraction of the ports' bandwidth that remains when all units of `per` devices send through them at once"},
    {KEY(tri_link, bandwidth, TRI_CONFIG_DOUBLE), POSITIVE, .example = "25.0e9",
     .help = "bytes a second of a port, each way"},
    {KEY(tri_link, latency, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .example = "2.0e-6",
     .help = "seconds of a small message"},
};
static const tri_config_table link_table = TRI_CONFIG_TABLE("link", link_keys);

static const tri_config_key protocol_keys[] = {
    {KEY(tri_protocol, name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_protocol *)0)->name), .example = "LL",
     .help = "name of the protocol in its library"},
    {KEY(tri_protocol, share, TRI_CONFIG_DOUBLE), SHARE, .example = "0.25",
     .help = "fraction of the links' bandwidth that carries data"},
    {KEY(tri_protocol, latency, TRI_CONFIG_DOUBLE), SHARE, .example = "0.2",
     .help = "latency of a hop as a fraction of the links' latency"},
};
static const tri_config_table protocol_table = TRI_CONFIG_TABLE("protocol", protocol_keys);

#define TILE_SIDE .range = {.low = 1, .high = 4096}
static const tri_config_key tile_keys[] = {
    {KEY(tri_tile, rows, TRI_CONFIG_INT), TILE_SIDE, .example = "256",
     .help = "rows of the product that a tile computes"},
    {KEY(tri_tile, columns, TRI_CONFIG_INT), TILE_SIDE, .example = "128",
     .help = "columns of the product that a tile computes"},
    {KEY(tri_tile, share, TRI_CONFIG_DOUBLE), SHARE, .fallback = "1.0",
     .help = "fraction of a processor's steady rate that the tile reaches"},
};
static const tri_config_table tile_table = TRI_CONFIG_TABLE("tile", tile_keys);

#define COST(NAME) KEY(tri_tariff, NAME, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0"
static const tri_config_key cost_keys[] = {
    {COST(price), .help = "price of a device for an hour; 0: unknown, and money is not reported"},
    {KEY(tri_tariff, currency, TRI_CONFIG_STRING), .bytes = sizeof(((tri_tariff *)0)->currency), .fallback = "USD",
     .help = "currency of the price"},
    {COST(device_power), .help = "watts of a device that computes; 0: unknown, and energy is not reported"},
    {COST(idle_power), .help = "watts of a device that waits; 0: the same as one that computes"},
    {COST(node_power), .help = "watts of a node without its devices"},
    {KEY(tri_tariff, pue, TRI_CONFIG_DOUBLE), .range = {.low = 1, .high = 10}, .fallback = "1.0",
     .help = "watts that the building takes for each watt of the machine"},
};
static const tri_config_table cost_table = TRI_CONFIG_TABLE("cost", cost_keys);

#define FAILURE(NAME) KEY(tri_failures, NAME, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0"
static const tri_config_key failure_keys[] = {
    {FAILURE(node_mtbf_hours), .help = "mean hours between failures of a node; 0: unknown, and runs do not fail"},
    {FAILURE(notice), .help = "seconds until a failure is noticed, before `restart` begins"},
    {FAILURE(restart), .help = "seconds from the notice of a failure to the first step after it"},
    {FAILURE(repair_hours),
     .help = "hours until a node that failed can be used again; 0: another one is always at hand"},
    {KEY(tri_failures, spare_nodes, TRI_CONFIG_INT), .range = {.low = 0, .high = 1 << 24}, .fallback = "0",
     .help =
         "nodes kept idle to take the place of those under repair: they are paid for, and a run waits when more are "
         "down"},
    {FAILURE(storage_bandwidth), .help = "bytes a second that checkpoints are written with, all nodes together; 0: as "
                                         "many as the nodes send"},
    {FAILURE(node_storage_bandwidth), .help = "bytes a second that a node sends there; 0: as many as are taken"},
    {FAILURE(copy_bandwidth), .help = "bytes a second from a device to its host, if the host writes checkpoints while "
                                      "training continues; 0: training waits until a checkpoint is written"},
};
static const tri_config_table failure_table = TRI_CONFIG_TABLE("failures", failure_keys);

#define DEVICE_KINDS(X) X("accelerator", TRI_CLUSTER_ACCELERATOR) X("cpu", TRI_CLUSTER_CPU)
TRI_CONFIG_WORDS(device_kinds, tri_cluster_device, DEVICE_KINDS)

static const tri_config_key alias_keys[] = {
    {KEY(tri_cluster_alias, name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_cluster_alias *)0)->name),
     .example = "mi250x", .help = "another name of the cluster or of its device"},
};
static const tri_config_table alias_table = TRI_CONFIG_TABLE("list of names", alias_keys);

#define CLUSTER(NAME, TYPE) KEY(tri_cluster, NAME, TYPE)
#define ENTRIES(NAME, STRUCT)                                                                                          \
  CLUSTER(NAME, TRI_CONFIG_LIST), .bytes = sizeof(STRUCT), .count = offsetof(tri_cluster, num_##NAME)
static const tri_config_key cluster_keys[] = {
    {CLUSTER(name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_cluster *)0)->name), .fallback = "inline",
     .help = "name in reports"},
    {ENTRIES(also, tri_cluster_alias), .table = &alias_table, .plain = "name", .in_line = true,
     .range = {.low = 0, .high = TRI_CLUSTER_ALIASES}, .fallback = "",
     .help = "other names of this preset: [mi250x, mi250]"},
    {CLUSTER(device, TRI_CONFIG_CHOICE), .words = device_kinds, .fallback = "accelerator",
     .help = "accelerator (memory of its own) or cpu: decides how scratch memory, copies of weights and host memory "
             "are counted"},
    {CLUSTER(device_name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_cluster *)0)->device_name), .fallback = "device",
     .help = "name of a device in reports of hours, such as GPU, or GCD for half of an MI250X"},
    {CLUSTER(hypothetical, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "the machine does not exist: its numbers may be far from those of accelerators"},
    {CLUSTER(node_devices, TRI_CONFIG_INT), DEVICES, .example = "8", .help = "devices of a node"},
    {CLUSTER(max_devices, TRI_CONFIG_AUTO), DEVICES, .fallback = "auto",
     .help = "devices of the machine; auto: no limit"},
    {CLUSTER(peak_bf16, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0",
     .help = "FLOP/s of matrix products in bf16 or fp16; 0: has none"},
    {CLUSTER(peak_fp32, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0", .help = "the same in fp32"},
    {CLUSTER(peak_fp64, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0", .help = "the same in fp64"},
    {CLUSTER(peak_fp8, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0",
     .help = "the same in FP8, dense, for a `--system` with `fp8_products`; 0: has none"},
    {CLUSTER(vector_flops, TRI_CONFIG_DOUBLE), POSITIVE, .example = "20.0e12",
     .help = "FLOP/s of element-wise arithmetic"},
    {CLUSTER(memory_bytes, TRI_CONFIG_DOUBLE), POSITIVE, .example = "64.0e9",
     .help = "bytes of a device's memory, as its driver shows them"},
    {CLUSTER(reserved_bytes, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0",
     .help =
         "bytes of it that tensors cannot have: of the driver, of libraries, of fragments; where the `--system` has "
         "`context_bytes`, the larger of the two counts"},
    {CLUSTER(memory_bandwidth, TRI_CONFIG_DOUBLE), POSITIVE, .example = "1.6e12", .help = "its bytes a second"},
    {CLUSTER(host_bandwidth, TRI_CONFIG_DOUBLE), NOT_NEGATIVE, .fallback = "0.0",
     .help = "bytes a second between a device and its host's memory, each way, for a `--system` with "
             "`offload_activations`; 0: not known"},
    {CLUSTER(slow_nodes, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1}, .fallback = "0.0",
     .help = "share of nodes that compute slowly, for which all others wait (stragglers); 0: none, or not known"},
    {CLUSTER(slow_by, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 10}, .fallback = "0.0",
     .help = "how much longer they take, as a share of a computation's time"},
    {CLUSTER(processors, TRI_CONFIG_INT), .range = {.low = 0, .high = 1 << 20}, .fallback = "0",
     .help = "processors of a device, which take a tile of a matrix product each at a time; 0: has no tiles"},
    {CLUSTER(tile_fill, TRI_CONFIG_INT), .range = {.low = 0, .high = 4096}, .fallback = "64",
     .help = "elements of a product's inner dimension that pass while a tile fills its pipeline"},
    {ENTRIES(tiles, tri_tile), .table = &tile_table, .range = {.low = 0, .high = TRI_CLUSTER_TILES}, .fallback = "",
     .help = "shapes that matrix products are cut into; none: a product's rate falls with `matmul_half`"},
    {CLUSTER(carries, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "devices move messages themselves, and do not compute meanwhile"},
    {CLUSTER(fitted, TRI_CONFIG_STRING), .bytes = sizeof(((tri_cluster *)0)->fitted), .fallback = "",
     .help = "constants of `efficiency` that were fitted to measurements, with blanks between; empty: none"},
    {CLUSTER(threads, TRI_CONFIG_AUTO), .range = {.low = 1, .high = 1 << 16}, .fallback = "auto",
     .help = "threads of each rank that it was measured with; auto: not known"},
    {CLUSTER(cores, TRI_CONFIG_AUTO), DEVICES, .fallback = "auto",
     .help = "cores of a node when it was measured; auto: not known"},
    {CLUSTER(nodes, TRI_CONFIG_AUTO), DEVICES, .fallback = "auto",
     .help = "nodes that it was measured on; auto: not known"},
    {ENTRIES(links, tri_link), .table = &link_table, .range = {.low = 0, .high = TRI_CLUSTER_LINKS}, .fallback = "",
     .help = "from the innermost out"},
    {ENTRIES(protocols, tri_protocol), .table = &protocol_table, .range = {.low = 0, .high = TRI_CLUSTER_PROTOCOLS},
     .fallback = "",
     .help = "protocols of the collective library for small messages; none: `links` describes all messages"},
    {CLUSTER(beside, TRI_CONFIG_DOUBLE), SHARE, .fallback = "1.0",
     .help = "fraction of its speed that computation keeps while a collective overlaps it"},
    {CLUSTER(efficiency, TRI_CONFIG_SECTION), .table = &tri_efficiency_table,
     .help = "fractions of these peaks that programs reach; fitted by `validate`"},
    {CLUSTER(cost, TRI_CONFIG_SECTION), .table = &cost_table, .help = "money and energy"},
    {CLUSTER(failures, TRI_CONFIG_SECTION), .table = &failure_table,
     .help = "how often a node fails, and what starting again and checkpoints take"},
    {CLUSTER(measured, TRI_CONFIG_SECTION), .table = &tri_measured_table,
     .help = "measured times; they take precedence over the keys above"},
};
const tri_config_table tri_cluster_table = TRI_CONFIG_TABLE("cluster file", cluster_keys);

static tri_status check_fitted(const tri_cluster *cluster) {
  for (const char *at = cluster->fitted; *at != '\0';) {
    at += strspn(at, " ,");
    size_t length = strcspn(at, " ,");
    bool known = length == 0;
    for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
      const char *name = tri_cluster_constant_name(i);
      known = known || (strlen(name) == length && strncmp(name, at, length) == 0);
    }
    if (!known) {
      return tri_fail(
          TRI_BAD_CONFIG,
          "`fitted` names `%.*s`; the constants are matmul, matmul_half, attention, memory, link, launch and start",
          (int)length, at);
    }
    at += length;
  }
  return TRI_OK;
}

static tri_status check_failures(const tri_failures *failures) {
  bool written = failures->storage_bandwidth > 0 || failures->node_storage_bandwidth > 0;
  if (failures->node_mtbf_hours == 0 || written) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`failures.node_mtbf_hours` is set, but not how long a checkpoint takes; set "
                  "`failures.storage_bandwidth` or `failures.node_storage_bandwidth`, for example 100.0e9");
}

static tri_status check_cluster(const void *values) {
  const tri_cluster *cluster = values;
  int64_t inner = 1;
  TRI_TRY(check_fitted(cluster));
  TRI_TRY(tri_measured_check(&cluster->measured));
  if (cluster->peak_bf16 == 0 && cluster->peak_fp32 == 0 && cluster->peak_fp64 == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`peak_bf16`, `peak_fp32` and `peak_fp64` are all 0: this device computes nothing");
  }
  if (cluster->num_tiles > 0 && cluster->processors == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`tiles` needs `processors`, the number that a device has; set it");
  }
  if ((cluster->slow_nodes > 0) != (cluster->slow_by > 0)) {
    const bool nodes = cluster->slow_nodes > 0;
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s` is set and `%s` is not: how many nodes are slow, and by how much, go together; set both, for "
                    "example slow_nodes: 0.005 and slow_by: 0.1",
                    nodes ? "slow_nodes" : "slow_by", nodes ? "slow_by" : "slow_nodes");
  }
  TRI_TRY(check_failures(&cluster->failures));
  for (int64_t l = 0; l < cluster->num_links; l++) {
    const tri_link *link = &cluster->links[l];
    bool last = l + 1 == cluster->num_links;
    if (link->spans == 0 && !last) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`links`: %s joins all devices and is not the last; order links from the innermost out",
                      link->name);
    }
    if (link->spans != 0 && (link->spans <= inner || link->spans % inner != 0)) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`links`: %s spans %ld devices, which is not a multiple of the %ld of the level within",
                      link->name, (long)link->spans, (long)inner);
    }
    if (link->spans != 0) inner = link->spans;
  }
  TRI_TRY(tri_ranges_check(cluster));
  return tri_ranges_remark(cluster);
}

/* ---- keys that a file leaves out --------------------------------------------------------------------------------- */

/* Values that most presets of accelerators have. BESIDE: 24 of the 132 processors of an H100 execute a collective.
 * START_S: seconds. */
static const double BESIDE = 0.82, START_S = 20e-6;

void tri_cluster_note_assumed(tri_cluster *cluster, const char *text) {
  const size_t held = strlen(cluster->assumed);
  snprintf(cluster->assumed + held, sizeof cluster->assumed - held, "%s%s", held == 0 ? "" : ", ", text);
}

/* Finds the preset whose bf16 peak has the least ratio to that of a cluster. Returns false if no preset has tiles. */
static bool find_chip(const tri_cluster *cluster, tri_cluster *out) {
  *out = (tri_cluster){.num_tiles = 0};
  static _Thread_local char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  static _Thread_local bool searching; /* presets may lack tiles, too */
  double least = INFINITY;
  if (searching) return false;
  searching = true;
  const size_t count = tri_preset_list("clusters", names);
  for (size_t i = 0; i < count; i++) {
    tri_cluster preset;
    if (tri_cluster_load(names[i], &preset) != TRI_OK) continue;
    const double ratio = fabs(log(preset.peak_bf16 / cluster->peak_bf16));
    if (preset.device != cluster->device || preset.num_tiles == 0 || preset.assumed[0] != '\0' || !(ratio < least))
      continue;
    least = ratio;
    *out = preset;
  }
  searching = false;
  return out->num_tiles > 0;
}

static void assume_tiles(const tri_yaml *root, tri_cluster *cluster) {
  char text[128];
  tri_cluster chip;
  const bool has_products = cluster->measured.num_products > 0 || cluster->efficiency.matmul_half > 0;
  if (cluster->num_tiles > 0 || has_products || cluster->peak_bf16 <= 0 || !find_chip(cluster, &chip)) return;
  const bool counted = cluster->processors > 0;
  if (!counted) cluster->processors = chip.processors;
  if (tri_yaml_find(root, "tile_fill") == NULL) cluster->tile_fill = chip.tile_fill;
  cluster->num_tiles = chip.num_tiles;
  memcpy(cluster->tiles, chip.tiles, sizeof cluster->tiles);
  snprintf(text, sizeof text, "tiles%s of the chip of %s", counted ? "" : " and processors", chip.name);
  tri_cluster_note_assumed(cluster, text);
}

/* Sets values of an accelerator that its file `root` does not have to those of presets, and lists them in
 * cluster->assumed. A file that was written from data sheets has only peaks, bandwidths and links; with ideal values
 * for the rest, predictions for it would be faster than those for a preset of the same machine. Does nothing for a
 * hypothetical machine. Tiles are not assumed if the file describes matrix products by `matmul_half` or by
 * measurements. */
static void assume(const tri_yaml *root, void *values) {
  tri_cluster *cluster = values;
  const tri_yaml *efficiency = tri_yaml_find(root, "efficiency");
  cluster->assumed[0] = '\0';
  switch (cluster->device) {
    case TRI_CLUSTER_CPU: return;
    case TRI_CLUSTER_ACCELERATOR: break;
  }
  if (cluster->hypothetical) return;
  if (tri_yaml_find(root, "beside") == NULL && !cluster->carries) {
    cluster->beside = BESIDE;
    tri_cluster_note_assumed(cluster, "beside 0.82");
  }
  if (efficiency != NULL && tri_yaml_find(efficiency, "start") == NULL) {
    cluster->efficiency.start = START_S;
    tri_cluster_note_assumed(cluster, "efficiency.start 20 us");
  }
  assume_tiles(root, cluster);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

tri_status tri_cluster_load(const char *name_or_file, tri_cluster *out) {
  tri_cluster cluster = {0};
  char about[sizeof cluster.about] = "";
  const tri_preset_file kind = {.folder = "clusters",
                                .noun = "cluster",
                                .table = &tri_cluster_table,
                                .also = true,
                                .about = about,
                                .about_bytes = sizeof about,
                                .complete = assume,
                                .check = check_cluster};
  TRI_TRY(tri_preset_file_load(&kind, name_or_file, &cluster, cluster.name, sizeof cluster.name));
  snprintf(cluster.about, sizeof cluster.about, "%s", about);
  tri_measured_complete(&cluster.measured);
  *out = cluster;
  return TRI_OK;
}

const tri_device_description *tri_cluster_description(const tri_cluster *cluster) {
  switch (cluster->device) {
    case TRI_CLUSTER_ACCELERATOR: return &tri_description_accelerator;
    case TRI_CLUSTER_CPU: return &tri_description_cpu;
  }
  return NULL;
}

double tri_cluster_slowest(const tri_cluster *cluster, int64_t devices) {
  const double nodes = ceil((double)devices / (double)cluster->node_devices);
  return 1 + cluster->slow_by * (1 - pow(1 - cluster->slow_nodes, nodes));
}

double tri_cluster_peak(const tri_cluster *cluster, tri_dtype precision) {
  switch (precision) {
    case TRI_BF16: return cluster->peak_bf16;
    case TRI_FP32: return cluster->peak_fp32;
    case TRI_FP64: return cluster->peak_fp64;
    case TRI_INT32: break; /* token ids are not multiplied */
  }
  return 0;
}
