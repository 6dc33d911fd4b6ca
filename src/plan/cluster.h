/* A machine as planning sees it: devices, their memory, and a hierarchy of links. Everything that is known of a machine
 * stands in its file (configs/clusters/NAME.yaml), with its sources; nothing in the code knows one. */
#ifndef TRI_PLAN_CLUSTER_H
#define TRI_PLAN_CLUSTER_H

#include "config/config.h"
#include "device/description.h"
#include "device/dtype.h"
#include "plan/measured.h"

#include <stdint.h>

enum { TRI_CLUSTER_LINKS = 6, TRI_CLUSTER_TILES = 12, TRI_CLUSTER_PROTOCOLS = 4 };

/* One level of the hierarchy, from the innermost out. Units of `per` neighbouring devices have `ports` ports to it, of
 * `bandwidth` bytes a second each way; what `spans` neighbouring devices have in common lies inside it. */
typedef struct tri_link {
  char name[32];
  int64_t spans; /* devices; 0 is all there are */
  int64_t per, ports;
  int64_t stripe; /* ports that one ring goes through at once */
  double share;   /* of the ports' bandwidth that is left when all units send through the level at once */
  double bandwidth;
  double latency; /* seconds from one device to another */
} tri_link;

/* Another way of the library's to send a collective over the same links: quicker at each hop, with less room for data.
 */
typedef struct tri_protocol {
  char name[32];
  double share;   /* of the links' bandwidth that is left for data */
  double latency; /* of the links' latency that a hop takes */
} tri_protocol;

/* A shape of the tiles that matrix products are cut into, and the share of a processor's steady rate that it reaches:
 * small ones load more for each product that they make. */
typedef struct tri_tile {
  int64_t rows, columns;
  double share;
} tri_tile;

/* Shares of what the hardware could do that programs reach, and what starting work costs. These are what a fit to
 * measurements moves (tri_cluster_constants); everything else is the machine's description. */
typedef struct tri_efficiency {
  double matmul;      /* of the peak, by the tiles of a large matrix product */
  double matmul_half; /* without tiles: the size of a product's dimension at which it reaches half of that */
  double attention;   /* of the peak, by the products of attention */
  double memory;      /* of the memory's bandwidth */
  double link;        /* of the links' bandwidth */
  double launch;      /* seconds of the host for each kernel that it starts */
  double start;       /* mean seconds by which a rank comes late to a collective; the last of many comes later */
} tri_efficiency;
enum { TRI_CLUSTER_CONSTANTS = 7 };

/* What running it costs; 0: not known. */
typedef struct tri_tariff {
  double price; /* of a device for an hour */
  char currency[16];
  double device_power, idle_power; /* watts of a device that computes, and of one that waits; idle 0: as much */
  double node_power;               /* watts of a node beside its devices */
  double pue;                      /* what the building takes for each watt of the machine */
} tri_tariff;

/* How often it fails, and what a run does about it. */
typedef struct tri_failures {
  double node_mtbf_hours; /* mean time between failures of a node; 0: not known */
  double restart;         /* seconds from a failure to the first step again */
  double storage_bandwidth,
      node_storage_bandwidth; /* bytes a second of checkpoints, of all and of a node; 0: no limit */
  double copy_bandwidth; /* bytes a second of a device into its host, where checkpoints are written beside training */
} tri_failures;

/* What the devices are to a memory plan: ones with memory of their own, or CPUs, which share the machine's. */
typedef enum tri_cluster_device { TRI_CLUSTER_ACCELERATOR, TRI_CLUSTER_CPU } tri_cluster_device;

typedef struct tri_cluster {
  char name[64];
  tri_cluster_device device;
  int64_t node_devices;
  int64_t max_devices;                    /* 0: as many as one likes */
  double peak_bf16, peak_fp32, peak_fp64; /* FLOP/s of matrix products; 0: has none */
  double vector_flops;                    /* FLOP/s of element-wise arithmetic */
  double memory_bytes, memory_bandwidth;  /* of a device; bytes a second */
  int64_t processors;                     /* that work on a tile each at a time */
  int64_t tile_fill;                      /* inner elements' time that a tile takes to begin */
  tri_tile tiles[TRI_CLUSTER_TILES];
  int64_t num_tiles;    /* 0: products are not cut into tiles */
  bool carries;         /* devices carry what passes between them by themselves: nothing goes on beside their work */
  char fitted[96];      /* names of the constants in `efficiency` that a measurement stands behind */
  int64_t threads;      /* of each rank that it was measured with, */
  int64_t cores, nodes; /* and of the machine then; 0: not known, or not measured */
  tri_link links[TRI_CLUSTER_LINKS];
  int64_t num_links;
  tri_protocol protocols[TRI_CLUSTER_PROTOCOLS];
  int64_t num_protocols; /* beside the one that `links` describe */
  double beside;         /* of its rate that computation keeps while a collective runs beside it */
  tri_efficiency efficiency;
  tri_tariff cost;
  tri_failures failures;
  tri_measured measured; /* asked before all of this */
} tri_cluster;

extern const tri_config_table tri_cluster_table;

/* A cluster of configs/clusters by its name, or a file by its path (with a slash, or ending in .yaml). Unknown names
 * list what there is; a missing or negative figure is named with its line. */
tri_status tri_cluster_load(const char *name_or_file, tri_cluster *out);

/* The constants as an array, for fitting them. */
double *tri_cluster_constants(tri_cluster *cluster);
const char *tri_cluster_constant_name(int i);

/* What such a device wants beside a plan's tensors. */
const tri_device_description *tri_cluster_description(const tri_cluster *cluster);

/* FLOP/s of matrix products in a precision; 0: the device has none. */
double tri_cluster_peak(const tri_cluster *cluster, tri_dtype precision);

#endif
