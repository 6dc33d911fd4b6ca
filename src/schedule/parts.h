/* The description of a rank's step before memory is allocated: its share of the parameters, lists of operations,
 * buckets, updates and program. The engine executes these parts, the simulator prices them, and the memory plan
 * assigns memory to them. */
#ifndef TRI_SCHEDULE_PARTS_H
#define TRI_SCHEDULE_PARTS_H

#include "model/family.h"
#include "schedule/buckets.h"
#include "schedule/memory_plan.h"
#include "schedule/program.h"
#include "schedule/updates.h"

typedef struct tri_parts_request {
  const tri_model *model;   /* model after tri_model_complete */
  const tri_layout *layout; /* resolved layout */
  int64_t micro_batches;    /* micro-batches of one rank in a step (tri_layout_micro_batches) */
  int64_t sequence;         /* tokens of a sequence */
  tri_dtype precision;
  const tri_optimizer_settings *optimizer; /* outlives the parts; NULL: AdamW */
  bool masked;                             /* whether attention stays inside documents (tri_list_request.masked) */
  double masked_attention_fraction;        /* see tri_list_request */
  const tri_train_objective *objective;    /* outlives the parts */
  double expert_imbalance;                 /* see tri_op_shard */
  bool for_planning;                       /* whether to create the table without the layers of other stages
                                              (tri_parameter_table_create_own), except under ZeRO 3 */
  bool without_program; /* whether to leave `program` NULL: the caller creates the programs of several stages from these
                           parts */
} tri_parts_request;

typedef struct tri_parts {
  const tri_layout *layout; /* layout of the request, not owned */
  tri_layer_range *chunks;  /* [num_chunks] */
  int64_t num_chunks;
  tri_parameter_table *table;
  tri_op_list **lists; /* [num_chunks] */
  tri_buckets *buckets;
  tri_updates *updates;
  tri_program *program;
  int64_t num_partial; /* elements of scratch for sums of partial gradients */
} tri_parts;

/* Creates the parts of the rank at `place`. The model and layout must outlive them. Release with tri_parts_destroy. */
tri_status tri_parts_create(const tri_parts_request *request, const tri_mesh_coordinates *place, tri_parts *out);
void tri_parts_destroy(tri_parts *parts);

/* Creates the program of a stage that has these parts, for a step of `micro_batches`. `layout`: the layout after
 * tri_schedule_settle. The caller owns *out. */
tri_status tri_parts_create_program(const tri_parts *parts, const tri_layout *layout, int64_t stage,
                                    int64_t micro_batches, tri_program **out);

/* Creates the program of a step with fewer micro-batches than the request had, for a stage that has these parts.
 * `micro_batches` must be a result of tri_schedule_shorter, so that the program fits into the memory that was planned
 * for the parts. The caller owns *out. */
tri_status tri_parts_program(const tri_parts *parts, int64_t stage, int64_t micro_batches, tri_program **out);

/* Returns the request for the list of operations of some layers, for the rank at a mesh position. */
tri_list_request tri_parts_list(const tri_parts_request *request, const tri_mesh_position *position,
                                tri_layer_range layers);

/* Returns whether a rank with this table holds trained tied embeddings. */
bool tri_parts_hold_tied(const tri_parameter_table *table);

/* Returns the request for tri_memory_plan_create. The caller adds the device and the bytes for staging of
 * checkpoints. */
tri_memory_request tri_parts_memory(const tri_parts_request *request, const tri_parts *parts);

#endif
