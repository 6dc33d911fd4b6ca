/* A system describes how a training program executes a step (configs/systems/NAME.yaml). The program is Trireme, or
 * another one whose published results are predicted. All systems have the same step program; a system decides which
 * of its operations overlap, how much data they move, and how much memory they need. */
#ifndef TRI_PLAN_SYSTEM_H
#define TRI_PLAN_SYSTEM_H

#include "config/config.h"
#include "plan/cluster.h"
#include "schedule/layout.h"

typedef struct tri_system {
  char name[64];
  bool flash_attention; /* the scores of attention are not stored in memory; false: the whole square of scores is
                           written and read */
  bool fp8_products; /* GEMMs of layers are in FP8, except those of attention and routers; the embedding and the output
                        layer are not in FP8 */
  int64_t softmax_batches; /* without flash_attention, the fused softmax needs heads x sequences that are a multiple of
                              this number, else several kernels replace it; 0: any number */
  double kernels;          /* kernels that the host launches for each pass of an operation; 0: none, the step is
                            * recorded as a graph */
  double element_traffic;  /* bytes that element-wise kernels move, as a multiple of those of this program */
  double logit_bytes;      /* bytes that a loss moves for each logit, in addition to its GEMMs */
  double whole_head_share; /* share of the rate of a GEMM that the output layer reaches without tensor parallelism */
  double fp8_conversion;   /* bytes moved to convert an element of an operand of a GEMM to FP8 */
  double offload_activations; /* share of the kept activations of a layer that are in the memory of the host until the
                                 backward */
  double expert_row_share;  /* bytes of rows sent to experts and back, as a share of those for sending each row in bf16
                               to each of its experts */
  bool overlap_reductions;  /* gradients are reduced during the backward */
  bool overlap_gathers;     /* parameters are gathered during forward and backward */
  bool overlap_messages;    /* stages compute while their messages are transferred */
  bool scatter_messages;    /* each tensor rank sends a part of a message, and the receivers gather the parts */
  bool overlap_experts;     /* rows of experts are exchanged while ranks compute shared experts */
  bool overlap_batches;     /* rows of experts are exchanged while ranks compute another micro-batch (DualPipe) */
  bool gathers_experts;     /* rows are sent once to each holder (a group of ranks that split the same experts), and
                               gathered by its ranks; false: rows are sent to each rank of a holder */
  bool overlap_layers;      /* in a backward, the collective of a GEMM's input gradient overlaps with the GEMM of its
                             * weight gradient */
  bool selective_attention; /* selective recompute recomputes attention, and nothing else */
  bool whole_recompute;     /* full recompute runs whole layers again; false: only up to the last call whose output a
                               backward reads */
  bool single_ring;         /* a ring or tree uses one port of a unit, even if tri_link.stripe allows more */
  double sum_bytes;         /* bytes moved to accumulate the gradient of one parameter; 0: GEMMs accumulate */
  double link_share; /* share of the link efficiency of the cluster that collectives reach; not used for times from
                        tables */
  bool levels; /* collectives may be hierarchical rings, which work node by node; false: only a ring or tree through the
                  whole group */
  double reduce_bytes; /* bytes of the gradient of one parameter in reductions; 0: those of layout.reduce_precision */
  double gather_bytes; /* bytes of one parameter in gathers; 0: as in this program */
  /* `planned`: the system is this program. Its memory is that of the engine's memory plan, which ignores all members
   * below, and its copies, packing and updates are priced as the engine does them. */
  bool planned;
  double weight_bytes, gradient_bytes, state_bytes; /* bytes per parameter; state_bytes: master copy and moments */
  bool whole_gradients;      /* with ZeRO, gradients that are not sharded during a step are sharded after it */
  bool whole_tied_gradients; /* with whole_gradients, those of tied embeddings are never sharded */
  bool copies_positions; /* the last of several stages also has a copy of the position embedding, even if the model is
                            not tied */
  bool keeps_messages;   /* each tensor rank of a stage keeps its share of the rows received for each micro-batch in
                            flight */
  bool keeps_logits;    /* the last stage keeps the logits of a micro-batch in 16 bits and in fp32, and their softmax in
                           fp32 */
  bool gathers_again;   /* the backward gathers rows of sequence parallelism again, instead of keeping them */
  double context_bytes; /* bytes of the driver and libraries, outside of the allocator */
  double communicator_bytes; /* bytes of each communicator of a rank, outside of the allocator */
  double fragments;          /* unused memory of the allocator, as a share of the bytes of all tensors at their peak */
  double bucket_bytes;       /* bytes of reductions and gathers in progress during a step */
} tri_system;

extern const tri_config_table tri_system_table;

/* Returns the layout for the lists of operations of this system. Two properties of a system are not marked in the
 * lists, but priced separately: selective recompute of attention only (tri_price_recomputes), and rows that are
 * gathered again (tri_price_gathers_again). */
tri_layout tri_system_listed(const tri_system *system, const tri_layout *layout);

/* Sets the key of a layout that the system decides, `sequence_regather`: with `gathers_again` it is on whenever
 * sequence parallelism is. `given`: the text from which the layout was read. Fails with TRI_BAD_LAYOUT if the text
 * contradicts this, or if the key is set for a system that does not support it. */
tri_status tri_system_settle(const tri_system *system, const char *given, tri_layout *layout);

/* Fails with TRI_UNSUPPORTED if the devices lack what the system needs: FP8 units, a link to the host. */
tri_status tri_system_check(const tri_system *system, const tri_cluster *cluster);

/* Returns the bytes of a device for tensors and for the overheads of the system: memory_bytes of the cluster, minus
 * the part of reserved_bytes above context_bytes of the system. */
double tri_system_room(const tri_system *system, const tri_cluster *cluster);

/* Reads a system of configs/systems by its name, or a file by its path. */
tri_status tri_system_load(const char *name_or_file, tri_system *out);

#endif
