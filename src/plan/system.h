/* A system is a description of how a training program executes a step (configs/systems/NAME.yaml). The program is
 * Trireme, or another one whose published results are predicted. All systems have the same step program; a system
 * decides which of its operations overlap, how many bytes they move, and how much memory they need. */
#ifndef TRI_PLAN_SYSTEM_H
#define TRI_PLAN_SYSTEM_H

#include "base/count_list.h"
#include "config/config.h"
#include "plan/cluster.h"
#include "schedule/layout.h"

/* The comment of a bool member describes a system in which the member is true. */
typedef struct tri_system {
  char name[64];
  /* Attention does not store its scores in memory; false: it writes and reads the full square of scores. */
  bool flash_attention;
  /* GEMMs of layers are in FP8, except those of attention and routers; the embedding and the output layer are not in
   * FP8. */
  bool fp8_products;
  /* Without flash_attention: the fused softmax needs a number of heads x sequences that is a multiple of
   * softmax_batches, else several kernels replace it; 0: any number. */
  int64_t softmax_batches;
  /* Kernels that the host launches for each pass of an operation; 0: the step is recorded as a graph. */
  double kernels;
  double element_traffic;  /* bytes that element-wise kernels move, divided by the bytes that they move in this
                              program */
  double logit_bytes;      /* bytes that a loss moves for each logit, in addition to its GEMMs */
  double whole_head_share; /* share of the rate of a GEMM that the output layer reaches without tensor parallelism */
  double fp8_conversion;   /* bytes moved to convert an element of an operand of a GEMM to FP8 */
  /* Share of the kept activations of a layer that are in host memory until the backward. */
  double offload_activations;
  /* Bytes of rows sent to experts and back, divided by the bytes of sending each row in bf16 to each of its experts. */
  double expert_row_share;
  bool overlap_reductions; /* gradients are reduced during the backward */
  bool overlap_gathers;    /* parameters are gathered during forward and backward */
  bool overlap_messages;   /* stages compute while their messages are transferred */
  bool scatter_messages;   /* each tensor rank sends a part of a message, and the receivers gather the parts */
  bool overlap_experts;    /* rows of experts are exchanged while ranks compute shared experts */
  bool overlap_batches;    /* rows of experts are exchanged while ranks compute another micro-batch (DualPipe) */
  /* Rows are sent once to each holder (a group of ranks that split the same experts), and gathered by its ranks;
   * false: rows are sent to each rank of a holder. */
  bool gathers_experts;
  /* In a backward, the collective of the input gradient of a GEMM overlaps with the GEMM of its weight gradient. */
  bool overlap_layers;
  bool selective_attention; /* selective recompute recomputes attention, and nothing else */
  /* Full recompute runs whole layers again; false: only up to the last call whose output a backward reads. */
  bool whole_recompute;
  bool single_ring; /* a ring or tree uses one port of a unit, even if tri_link.stripe allows more */
  double sum_bytes; /* bytes moved to accumulate the gradient of one parameter; 0: GEMMs accumulate */
  /* Share of tri_efficiency.link that collectives reach; not used for times from tables. */
  double link_share;
  /* Collectives may be hierarchical rings, node by node; false: only a ring or a tree through the whole group. */
  bool levels;
  double reduce_bytes; /* bytes of the gradient of one parameter in reductions; 0: as layout.reduce_precision says */
  double gather_bytes; /* bytes of one parameter in gathers; 0: as in this program, in the wide type */
  /* The system is this program. Its memory is computed by the engine's memory plan, which ignores all members below.
   * Its copies, packing and updates are priced as the engine executes them. */
  bool planned;
  double weight_bytes, gradient_bytes, state_bytes; /* bytes per parameter; state_bytes: master copy and moments */
  /* In steps of several micro-batches, gradients are summed over the micro-batches before they are reduced, so they are
   * whole during a step under ZeRO 2 and 3 as well. They are sharded after it. false: under ZeRO 2 and 3 the gradients
   * of each micro-batch are reduced, and only shards are kept. */
  bool whole_gradients;
  /* With whole_gradients, the gradients of tied embeddings stay whole after the step, too. */
  bool whole_tied_gradients;
  /* The last of several stages also has a copy of the position embedding, even if the model is not tied. */
  bool copies_positions;
  /* Each tensor rank of a stage keeps its share of the rows received for each micro-batch in flight. */
  bool keeps_messages;
  /* The last stage keeps the logits of a micro-batch in 16 bits and in fp32, and their softmax in fp32. */
  bool keeps_logits;
  /* The backward gathers rows of sequence parallelism again, instead of keeping them. */
  bool gathers_again;
  double context_bytes;       /* bytes of the driver and of libraries, outside of the allocator */
  double communicator_bytes;  /* bytes of each communicator of a rank, outside of the allocator */
  double fragments;           /* unused memory of the allocator, as a share of the peak bytes of all tensors */
  double bucket_bytes;        /* bytes of reductions and gathers in progress during a step */
  const tri_count_list *zero; /* stages of ZeRO that the system has, ascending; NULL: 0 to 3 */
} tri_system;

extern const tri_config_table tri_system_table;

/* Returns the layout for the lists of operations of this system. The lists do not mark two properties of a system,
 * which are priced separately: selective recompute of attention only (tri_price_recomputes), and rows that are
 * gathered again (tri_price_gathers_again). */
tri_layout tri_system_listed(const tri_system *system, const tri_layout *layout);

/* Returns whether the system has a stage of ZeRO. */
bool tri_system_has_zero(const tri_system *system, int64_t zero);

/* Returns whether the system reduces the gradients of each micro-batch under a stage of ZeRO. */
bool tri_system_reduces_each(const tri_system *system, int64_t zero);

/* Sets the keys of a layout that the system decides. `sequence_regather`: with `gathers_again` it is on whenever
 * sequence parallelism is. `zero`: the first stage of the system, if the text does not set the key and the system lacks
 * the stage of the layout. `given`: text from which the layout was read. Fails with TRI_BAD_LAYOUT if this text
 * contradicts the system, or if sequence_regather is on and the system does not support it. */
tri_status tri_system_settle(const tri_system *system, const char *given, tri_layout *layout);

/* Fails with TRI_UNSUPPORTED if the devices lack FP8 units or a link to the host, and the system needs them. */
tri_status tri_system_check(const tri_system *system, const tri_cluster *cluster);

/* Returns the bytes of a device that a prediction may use: the cluster's memory_bytes minus its reserved_bytes and
 * margin_bytes. A
 * prediction for another program than this one counts context_bytes as used memory. These bytes are a part of
 * reserved_bytes, so only the rest of reserved_bytes is subtracted. */
double tri_system_room(const tri_system *system, const tri_cluster *cluster);

/* Reads a system: a name in configs/systems, or the path of a file. */
tri_status tri_system_load(const char *name_or_file, tri_system *out);

#endif
