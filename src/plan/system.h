/* A system: how a training program, Trireme or another whose published results are predicted, executes a step
 * (configs/systems/NAME.yaml). The step program is the same for all; a system says how its parts are executed and what
 * memory they need. */
#ifndef TRI_PLAN_SYSTEM_H
#define TRI_PLAN_SYSTEM_H

#include "config/config.h"
#include "plan/cluster.h"
#include "schedule/layout.h"

typedef struct tri_system {
  char name[64];
  bool flash_attention;    /* scores are not stored in memory; else the whole square of scores is written and read */
  bool fp8_products;       /* GEMMs of layers are in FP8, except those of attention and routers; the embedding and the
                            * output layer are not */
  int64_t softmax_batches; /* without flash_attention: the fused softmax needs heads x sequences that are multiples of
                              this, else several kernels run; 0: any number */
  double kernels;          /* kernels that the host launches for each pass of an operation; 0: none, the step is
                            * recorded as a graph */
  double element_traffic;  /* bytes that element-wise kernels move, as a multiple of Trireme's */
  double logit_bytes;      /* bytes that a loss moves for each logit, without its products */
  double whole_head_share; /* share of a product's rate that the output projection reaches without tensor parallelism */
  double fp8_conversion;   /* bytes that converting an element of a GEMM's operand to FP8 moves */
  double offload_activations; /* share of a layer's kept activations that wait in the host's memory */
  double expert_row_share;    /* bytes of rows to experts and back, as a share of sending each row in bf16 to each of
                                 its experts */
  bool overlap_reductions;    /* gradients are reduced during the backward */
  bool overlap_gathers;       /* parameters are gathered during forward and backward */
  bool overlap_messages;      /* stages compute while their messages are transferred */
  bool scatter_messages;      /* each rank of a tensor group sends its part, and the receivers gather */
  bool overlap_experts;       /* rows of experts are exchanged while ranks compute shared experts */
  bool overlap_batches;       /* rows of experts are exchanged while ranks compute another micro-batch (DualPipe) */
  bool gathers_experts;       /* rows are sent once to each holder (the ranks that split an expert), and its ranks
                               * gather them; else rows are sent to each of its ranks */
  bool overlap_layers;        /* in a backward, the collective of a GEMM's input gradient overlaps with the GEMM of its
                               * weight gradient */
  bool selective_attention;   /* selective recompute recomputes attention, and nothing else */
  bool whole_recompute;       /* recompute runs whole layers again; else only up to the last call that backwards read */
  bool single_ring;           /* a ring or tree uses one port of a node, whatever tri_link.stripe allows */
  double sum_bytes;           /* bytes that accumulating the gradient of a parameter moves; 0: GEMMs accumulate */
  double link_share;          /* share of the cluster's link efficiency that its collectives reach; not applied to times
                               * from tables */
  bool levels;         /* collectives may be hierarchical rings, node by node; else only a ring or tree through the
                        * whole group */
  double reduce_bytes; /* bytes of a gradient in reductions; 0: by the layout */
  double gather_bytes; /* bytes of a parameter in gathers; 0: as the engine does */
  /* Memory. `planned`: the memory is that of the engine's memory plan, which ignores all members below. */
  bool planned;
  double weight_bytes, gradient_bytes, state_bytes; /* bytes per parameter; state: master copy and moments */
  bool whole_gradients;                             /* with ZeRO 1, too, gradients are sharded after a step */
  bool whole_tied_gradients;                        /* gradients of tied embeddings are not sharded after a step
                                                     * (whole_gradients) */
  bool copies_positions; /* the last of several stages also has the embedding of positions, as if the model were tied */
  bool keeps_messages;   /* a stage keeps the rows that it received for each micro-batch in flight, 1/tensor of them */
  bool keeps_logits;     /* the last stage keeps a micro-batch's logits in 16 bits, its logits in fp32, and their
                          * softmax in fp32 */
  bool gathers_again;    /* rows that sequence parallelism gathers are gathered again in the backward, not kept */
  double context_bytes;  /* bytes of the driver and libraries, outside of the allocator */
  double communicator_bytes; /* bytes of each communicator of a rank, outside of the allocator */
  double fragments;          /* unused memory of the allocator, as a share of its tensors at their peak */
  double bucket_bytes;       /* bytes of reductions and gathers in progress during a step */
} tri_system;

extern const tri_config_table tri_system_table;

/* Returns the layout whose lists of operations are those of this system. Two properties of the system are not marked in
 * the lists but priced separately: attention that is recomputed selectively (tri_price_recomputes), and rows that are
 * gathered again (tri_price_gathers_again). */
tri_layout tri_system_listed(const tri_system *system, const tri_layout *layout);

/* Sets the keys of a layout that the system decides: `sequence_regather`, on with sequence parallelism in a system with
 * `gathers_again`. `given`: the text that the layout was read from. Fails with TRI_BAD_LAYOUT if the layout needs
 * a feature that the system lacks. */
tri_status tri_system_settle(const tri_system *system, const char *given, tri_layout *layout);

/* Fails with TRI_UNSUPPORTED if the devices lack what the system needs: FP8 units, a link to the host. */
tri_status tri_system_check(const tri_system *system, const tri_cluster *cluster);

/* Returns the bytes of a device for tensors and the system's own overheads: the cluster's memory_bytes without the part
 * of its reserved_bytes that the system's context_bytes do not cover. */
double tri_system_room(const tri_system *system, const tri_cluster *cluster);

/* Reads a system of configs/systems by its name, or a file by its path. */
tri_status tri_system_load(const char *name_or_file, tri_system *out);

#endif
