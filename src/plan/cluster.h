/* A cluster is the description of a machine: its devices, their memory, and a hierarchy of links. All facts about a
 * machine are in its file (configs/clusters/NAME.yaml), with their sources, and none in the code. */
#ifndef TRI_PLAN_CLUSTER_H
#define TRI_PLAN_CLUSTER_H

#include "config/config.h"
#include "device/description.h"
#include "device/dtype.h"
#include "plan/measured.h"

#include <stdint.h>

enum { TRI_CLUSTER_LINKS = 6, TRI_CLUSTER_TILES = 12, TRI_CLUSTER_PROTOCOLS = 4 };

/* One level of the hierarchy of links; level 0 is the innermost. A *unit* of a level is a number of adjacent devices
 * that share ports to this level. */
typedef struct tri_link {
  char name[32];
  int64_t spans;      /* number of adjacent devices that the level connects; 0: all */
  int64_t per, ports; /* devices of a unit; ports of a unit */
  int64_t stripe;     /* number of ports of a unit that one ring uses at the same time */
  /* Share of the ports' bandwidth that remains if all units send through the level at the same time. */
  double share;
  double bandwidth; /* bytes per second of a port, each way */
  double latency;   /* seconds of a small message from one device to another */
} tri_link;

/* Another protocol of the communication library over the same links. It has a lower latency, and leaves a smaller
 * share of the bandwidth for data. */
typedef struct tri_protocol {
  char name[32];
  double share;   /* share of the links' bandwidth for data */
  double latency; /* latency of a hop, as a share of tri_link.latency */
} tri_protocol;

/* A shape of the tiles into which a matrix product is divided. Small tiles load more data for each multiplication. */
typedef struct tri_tile {
  int64_t rows, columns; /* elements of the product in a tile */
  double share;          /* share of a processor's peak rate that the tile reaches */
} tri_tile;

/* How close programs come to the rates of the hardware, as shares of these rates, and the delays of starting work.
 * tri_published_fit changes these constants (tri_cluster_constants); the other members of tri_cluster describe the
 * machine. */
typedef struct tri_efficiency {
  double matmul; /* share of the peak that the tiles of a large matrix product reach */
  /* Without tiles: length of a dimension at which a product reaches half of `matmul`. */
  double matmul_half;
  double attention; /* share of the peak that the products of attention reach */
  double memory;    /* share of the memory bandwidth */
  double link;      /* share of the links' bandwidth */
  double launch;    /* seconds in which the host launches one kernel */
  double start;     /* mean seconds by which a rank reaches a collective late */
} tri_efficiency;
enum { TRI_CLUSTER_CONSTANTS = 7 }; /* number of members of tri_efficiency */

/* Costs of running the cluster; 0: unknown. */
typedef struct tri_tariff {
  double price; /* price of one device for one hour */
  char currency[16];
  /* Watts of a device that computes, and of one that waits; idle_power 0: the same as device_power. */
  double device_power, idle_power;
  double node_power; /* watts of a node without its devices */
  double pue;        /* power usage effectiveness: watts of the building for each watt of the machine */
} tri_tariff;

/* Failures of nodes, and the speed of checkpoints. */
typedef struct tri_failures {
  double node_mtbf_hours; /* mean hours between failures of a node; 0: unknown */
  double notice, restart; /* seconds until a failure is noticed, and from then to the first step after the restart */
  double repair_hours;    /* hours until a node can be used again; 0: a replacement is always available */
  int64_t spare_nodes;    /* idle nodes, in addition to those of the run */
  /* Bytes per second at which checkpoints are written, by all nodes together and by one node; 0: no limit. */
  double storage_bandwidth, node_storage_bandwidth;
  /* Bytes per second from a device to its host, if checkpoints are written in the background; 0: steps wait until a
   * checkpoint is written. */
  double copy_bandwidth;
} tri_failures;

/* The kind of device, for memory plans: an accelerator has its own memory, and CPU ranks share the memory of the
 * machine. */
typedef enum tri_cluster_device { TRI_CLUSTER_ACCELERATOR, TRI_CLUSTER_CPU } tri_cluster_device;

/* Another name of a cluster, such as "mi250x". */
typedef struct tri_cluster_alias {
  char name[32];
} tri_cluster_alias;
enum { TRI_CLUSTER_ALIASES = 16 };

typedef struct tri_cluster {
  char name[64];
  tri_cluster_alias also[TRI_CLUSTER_ALIASES];
  int64_t num_also;
  /* First sentence of the comment at the top of the file, for reports; "": none. Not a key of the file. */
  char about[256];
  char assumed[256]; /* list of values that the file does not have, and that presets have, for reports; "": none. Not a
                        key of the file */
  tri_cluster_device device;
  char device_name[16];                   /* the word for a device in reports of costs, such as "GPU" */
  bool hypothetical;                      /* whether the machine does not exist, so that its numbers need not be
                                             plausible */
  int64_t node_devices;                   /* devices of a node */
  int64_t max_devices;                    /* devices of the machine; 0: no limit */
  double peak_bf16, peak_fp32, peak_fp64; /* FLOP/s of matrix products; 0: not supported */
  double peak_fp8;     /* FLOP/s of matrix products in FP8, for systems with fp8_products; 0: not supported */
  double vector_flops; /* FLOP/s of element-wise arithmetic */
  double memory_bytes, memory_bandwidth; /* bytes of a device's memory; its bandwidth in bytes per second */
  double host_bandwidth;                 /* bytes per second between a device and its host, each way; 0: unknown */
  double reserved_bytes;                 /* part of memory_bytes that tensors cannot use (tri_system_room) */
  double margin_bytes;                   /* further part that a plan keeps free; not a key of the file */
  /* slow_nodes: share of nodes that compute slowly; slow_by: additional time of a computation on such a node, as a
   * share of its time on the other nodes. */
  double slow_nodes, slow_by;
  int64_t processors; /* number of processors of a device, which compute one tile each at a time; 0: unknown */
  /* Time until the loads of a tile have filled its pipeline, in elements of the inner dimension. */
  int64_t tile_fill;
  tri_tile tiles[TRI_CLUSTER_TILES];
  int64_t num_tiles; /* number of tile shapes; 0: products are not divided into tiles */
  /* Whether processors of the device transfer messages, so that communication does not overlap with computation. */
  bool carries;
  char fitted[96];      /* names of the members of `efficiency` that were fitted to measurements */
  int64_t threads;      /* threads of each rank in the measurements; 0: unknown, or not measured */
  int64_t cores, nodes; /* cores of a node, and number of nodes, in the measurements; 0: unknown, or not measured */
  tri_link links[TRI_CLUSTER_LINKS];
  int64_t num_links;
  tri_protocol protocols[TRI_CLUSTER_PROTOCOLS];
  int64_t num_protocols; /* number of protocols, without the one that `links` describe */
  double beside;         /* share of its rate at which a computation continues during a collective */
  tri_efficiency efficiency;
  tri_tariff cost;
  tri_failures failures;
  /* Tables of measured times. Work that is in a table is priced by the table, and not by the members above. */
  tri_measured measured;
} tri_cluster;

extern const tri_config_table tri_cluster_table;
extern const tri_config_table tri_efficiency_table; /* the keys of `efficiency` (efficiency.c) */

/* Returns the expected factor, at least 1, by which a computation on that many devices takes longer because all wait
 * for the slowest node. */
double tri_cluster_slowest(const tri_cluster *cluster, int64_t devices);

/* Reads a cluster: a name in configs/clusters, or the path of a file (a text with a slash, or that ends in .yaml).
 * The error message lists the known names if the name is unknown, and has the line of an invalid number. */
tri_status tri_cluster_load(const char *name_or_file, tri_cluster *out);

/* Appends a value to cluster->assumed. */
void tri_cluster_note_assumed(tri_cluster *cluster, const char *text);

/* Returns the members of `efficiency` as an array [TRI_CLUSTER_CONSTANTS], for a fit. It is a part of *cluster. */
double *tri_cluster_constants(tri_cluster *cluster);
/* Returns the name of element i of this array, a key of `efficiency`. */
const char *tri_cluster_constant_name(int i);

/* Returns the description of the cluster's device for memory plans: scratch memory and packed weights. */
const tri_device_description *tri_cluster_description(const tri_cluster *cluster);

/* Returns the peak FLOP/s of GEMMs in a precision; 0: not supported. */
double tri_cluster_peak(const tri_cluster *cluster, tri_dtype precision);

#endif
