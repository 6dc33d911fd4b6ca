/* How a training system goes about a step where systems differ: Trireme itself, or another whose published figures are
 * to be predicted (configs/systems/NAME.yaml). The step program stays the same; this says how its parts are carried out
 * and what memory they keep. */
#ifndef TRI_PLAN_SYSTEM_H
#define TRI_PLAN_SYSTEM_H

#include "config/config.h"
#include "ops/recompute.h"

typedef struct tri_system {
  char name[64];
  bool flash_attention;     /* scores stay on the chip; else they are written and read, all of the square */
  int64_t softmax_batches;  /* where scores are written: its fused softmax takes heads x sequences that are multiples of
                               it, and others go through several kernels; 0: takes all */
  double kernels;           /* that the host starts for each pass of an operation; 0: a recorded step starts none */
  double element_traffic;   /* bytes that element-wise kernels move, as a multiple of this program's */
  double logit_bytes;       /* that a loss moves for each logit, beside its products */
  double whole_head_share;  /* of a product's rate, by an output layer that no tensor ranks split */
  bool overlap_reductions;  /* gradients are reduced beside the backward */
  bool overlap_gathers;     /* parameters are gathered beside it, and beside the forward */
  bool overlap_messages;    /* stages compute while a message of theirs is under way */
  bool scatter_messages;    /* each rank of a tensor group sends its part, and the receivers gather */
  bool overlap_experts;     /* rows of experts are on their way while ranks compute what all tokens meet */
  bool gathers_experts;     /* rows go to one rank of a holder of experts, and its ranks gather; else to each of them */
  bool overlap_layers;      /* in a backward, ranks pass what a product reads and makes beside its other product */
  bool selective_attention; /* recompute selective runs attention again, and nothing else */
  bool whole_recompute;     /* a layer that runs again does so to its end; else to the last that its backward reads */
  bool single_ring;         /* collectives go through one port of a node, whatever the cluster's links allow */
  double sum_bytes;    /* that adding a micro-batch's gradient of a parameter to those before moves; 0: products add */
  double link_share;   /* of the bandwidth that its collectives reach where the cluster's are measured */
  bool levels;         /* collectives work node by node first; else one ring or tree joins all of a group */
  double reduce_bytes; /* of a gradient on its way; 0: as the layout says */
  double gather_bytes; /* of a parameter on its way; 0: as the engine does */

  /* Memory. `planned` takes the engine's own plan and nothing of what follows. */
  bool planned;
  double weight_bytes, gradient_bytes, state_bytes; /* of a parameter; state: master copy and moments */
  bool whole_gradients;      /* in the step gradients are whole; zero shards them when it is over */
  bool whole_tied_gradients; /* those of the tied embedding always are */
  bool copies_positions;     /* the last stage of a tied model has the embedding of positions, too */
  bool keeps_messages;       /* a stage keeps what it received of each micro-batch in flight, 1/tensor of it */
  bool keeps_logits;         /* the last stage keeps the last micro-batch's: half, fp32, fp32 softmax */
  bool gathers_again;        /* what sequence parallelism gathers for a product is gathered again, not kept */
  double context_bytes;      /* the driver's and the libraries', outside of the allocator */
  double communicator_bytes; /* of each group that a rank talks in, outside of it, too */
  double fragments;          /* what the allocator holds beyond its tensors, as a share of them at their peak */
  double bucket_bytes;       /* of reductions and gathers under way, while a step goes on */
} tri_system;

extern const tri_config_table tri_system_table;

/* What its lists recompute; attention is not marked there (tri_price_runs_again). */
tri_recompute tri_system_recompute(const tri_system *system, tri_recompute layout);

/* A system of configs/systems by its name, or a file by its path. */
tri_status tri_system_load(const char *name_or_file, tri_system *out);

#endif
