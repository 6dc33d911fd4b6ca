/* A cluster: a machine's devices, their memory, and a hierarchy of links. All facts about a machine are in its file
 * (configs/clusters/NAME.yaml), with their sources, not in the code. */
#ifndef TRI_PLAN_CLUSTER_H
#define TRI_PLAN_CLUSTER_H

#include "config/config.h"
#include "device/description.h"
#include "device/dtype.h"
#include "plan/measured.h"

#include <stdint.h>

enum { TRI_CLUSTER_LINKS = 6, TRI_CLUSTER_TILES = 12, TRI_CLUSTER_PROTOCOLS = 4 };

/* One level of the hierarchy of links; levels are in order from the innermost. */
typedef struct tri_link {
  char name[32];
  int64_t spans;      /* adjacent devices that the level connects; 0: all */
  int64_t per, ports; /* `per` adjacent devices are a unit, which has `ports` ports to the level */
  int64_t stripe;     /* ports that one ring uses at once */
  double share;       /* share of the ports' bandwidth that remains when all units send through the level at once */
  double bandwidth;   /* bytes per second of a port, each way */
  double latency;     /* seconds from one device to another */
} tri_link;

/* Another protocol of the communication library over the same links: with less latency, and less bandwidth for data. */
typedef struct tri_protocol {
  char name[32];
  double share;   /* share of the links' bandwidth for data */
  double latency; /* latency of a hop, as a share of the links' */
} tri_protocol;

/* A shape of the tiles that matrix products are cut into. Small tiles load more data for each multiplication. */
typedef struct tri_tile {
  int64_t rows, columns;
  double share; /* share of a processor's rate that the tile reaches */
} tri_tile;

/* The shares of the hardware's rates that programs reach, and the cost of starting work. A fit to measurements changes
 * these (tri_cluster_constants); everything else describes the machine. */
typedef struct tri_efficiency {
  double matmul;      /* share of the peak that the tiles of a large matrix product reach */
  double matmul_half; /* without tiles: the length of a product's dimension at which the product reaches half of
                         `matmul` */
  double attention;   /* share of the peak that the products of attention reach */
  double memory;      /* share of the memory bandwidth */
  double link;        /* share of the links' bandwidth */
  double launch;      /* seconds of the host for starting one kernel */
  double start;       /* mean seconds by which a rank is late at a collective; the last of many ranks is later */
} tri_efficiency;
enum { TRI_CLUSTER_CONSTANTS = 7 };

/* Costs of running the cluster; 0: unknown. */
typedef struct tri_tariff {
  double price; /* price of one device for one hour */
  char currency[16];
  double device_power, idle_power; /* watts of a device that computes, and of one that waits; idle 0: the same */
  double node_power;               /* watts of a node without its devices */
  double pue;                      /* power usage effectiveness: watts of the building for each watt of the machine */
} tri_tariff;

/* Failures and checkpoints. */
typedef struct tri_failures {
  double node_mtbf_hours; /* mean time between failures of a node; 0: unknown */
  double notice, restart; /* seconds until a failure is noticed, and from then to the first step after it */
  double repair_hours;    /* hours until a node can be used again; 0: a replacement is always available */
  int64_t spare_nodes;    /* idle nodes, in addition to those of the run */
  double storage_bandwidth,
      node_storage_bandwidth; /* bytes per second of writing checkpoints, by all nodes and by one node; 0: no limit */
  double copy_bandwidth; /* bytes per second from a device to its host, for background checkpoints; 0: steps wait */
} tri_failures;

/* The kind of device, for memory plans: an accelerator has its own memory, CPUs share the machine's. */
typedef enum tri_cluster_device { TRI_CLUSTER_ACCELERATOR, TRI_CLUSTER_CPU } tri_cluster_device;

/* An alternative name of a cluster: "mi250x". */
typedef struct tri_cluster_alias {
  char name[32];
} tri_cluster_alias;
enum { TRI_CLUSTER_ALIASES = 16 };

typedef struct tri_cluster {
  char name[64];
  tri_cluster_alias also[TRI_CLUSTER_ALIASES];
  int64_t num_also;
  char about[256]; /* no key: the first sentence of the file's first comment, for reports; or "" */
  tri_cluster_device device;
  bool hypothetical; /* the machine does not exist, so its numbers need not be plausible */
  int64_t node_devices;
  int64_t max_devices;                    /* 0: no limit */
  double peak_bf16, peak_fp32, peak_fp64; /* FLOP/s of matrix products; 0: not supported */
  double peak_fp8;                        /* the same for systems with fp8_products; 0: not supported */
  double vector_flops;                    /* FLOP/s of element-wise arithmetic */
  double memory_bytes, memory_bandwidth;  /* bytes of a device; bytes per second */
  double host_bandwidth;                  /* bytes per second between a device and its host, each way; 0: unknown */
  double reserved_bytes;                  /* part of memory_bytes that tensors cannot use (tri_system_room) */
  double slow_nodes, slow_by;             /* share of nodes that compute slowly, and how much longer they take */
  int64_t processors;                     /* processors of a device; each computes one tile at a time */
  int64_t tile_fill;                      /* time to begin a tile, in elements of the inner dimension */
  tri_tile tiles[TRI_CLUSTER_TILES];
  int64_t num_tiles;    /* 0: products are not cut into tiles */
  bool carries;         /* devices do the communication themselves, so it does not overlap with their work */
  char fitted[96];      /* names of the constants in `efficiency` that were fitted to measurements */
  int64_t threads;      /* threads of each rank when it was measured; 0: unknown, or not measured */
  int64_t cores, nodes; /* size of the machine when it was measured; 0: unknown, or not measured */
  tri_link links[TRI_CLUSTER_LINKS];
  int64_t num_links;
  tri_protocol protocols[TRI_CLUSTER_PROTOCOLS];
  int64_t num_protocols; /* in addition to the one that `links` describe */
  double beside;         /* share of its rate at which computation continues while a collective runs */
  tri_efficiency efficiency;
  tri_tariff cost;
  tri_failures failures;
  tri_measured measured; /* tables of measurements, used instead of the model where they have the work */
} tri_cluster;

extern const tri_config_table tri_cluster_table;
extern const tri_config_table tri_efficiency_table; /* the keys of `efficiency` (efficiency.c) */

/* Returns the mean factor by which a computation on that many devices is slower because some nodes are slow and all
 * wait for the slowest. At least 1. */
double tri_cluster_slowest(const tri_cluster *cluster, int64_t devices);

/* Reads a cluster of configs/clusters by its name, or a file by its path (with a slash, or ending in .yaml). The
 * message for an unknown name lists the known ones; that for a missing or negative number has its line. */
tri_status tri_cluster_load(const char *name_or_file, tri_cluster *out);

/* Returns the constants as an array [TRI_CLUSTER_CONSTANTS], for fitting them. */
double *tri_cluster_constants(tri_cluster *cluster);
const char *tri_cluster_constant_name(int i);

/* Returns the description of the cluster's device for memory plans: scratch memory and packed weights. */
const tri_device_description *tri_cluster_description(const tri_cluster *cluster);

/* Returns the FLOP/s of GEMMs in a precision; 0: not supported. */
double tri_cluster_peak(const tri_cluster *cluster, tri_dtype precision);

#endif
