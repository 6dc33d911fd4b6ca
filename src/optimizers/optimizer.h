/* Optimizers as they are described: with no device, no rank and no memory at hand. What they run on is run.h.
 *
 * An optimizer is one file that holds everything the system knows about it: what it keeps of each parameter from step
 * to step, whether it needs whole matrices, what keys it has in a run file, how it runs and what that costs. The engine
 * runs it, the memory plan and the checkpoint have room for what it keeps, the simulator prices it through this table.
 *
 * Which parameters it takes follows from their groups: an optimizer that takes matrices alone leaves the others to
 * AdamW. What one rank updates is a list of calls, made from the buckets (schedule/updates.h): stretches of elements,
 * or whole tensors where the optimizer's unit is the matrix. */
#ifndef TRI_OPTIMIZERS_OPTIMIZER_H
#define TRI_OPTIMIZERS_OPTIMIZER_H

#include "config/config.h"
#include "device/description.h"
#include "model/parameters.h"
#include "ops/op.h"

/* Each is a file, which defines its table: tri_optimizer_adamw. */
#define TRI_OPTIMIZERS(X)                                                                                              \
  X(ADAMW, adamw)                                                                                                      \
  X(MUON, muon)                                                                                                        \
  X(SCHEDULE_FREE, schedule_free)                                                                                      \
  X(LION, lion)                                                                                                        \
  X(SGD, sgd)                                                                                                          \
  X(ADAFACTOR, adafactor)                                                                                              \
  X(GALORE, galore)                                                                                                    \
  X(FIRA, fira)
#define TRI_OPTIMIZER_VALUE(VALUE, name) TRI_OPTIMIZER_##VALUE,
typedef enum tri_optimizer_name { TRI_OPTIMIZERS(TRI_OPTIMIZER_VALUE) } tri_optimizer_name;

/* In the place of one: not given. */
enum { TRI_OPTIMIZER_AUTO = -1 };

/* ---- settings ---------------------------------------------------------------------------------------------------- */

typedef enum tri_muon_scale {
  TRI_MUON_MOONLIGHT, /* 0.2 sqrt(the longer side): as long a step as AdamW's, so that its rate and decay carry over */
  TRI_MUON_KELLER,    /* sqrt(out / in), at least 1 */
} tri_muon_scale;

typedef struct tri_muon_settings {
  double momentum;
  bool nesterov;
  tri_muon_scale scale;
  int64_t iterations;
} tri_muon_settings;

typedef struct tri_sgd_settings {
  double momentum;
  bool nesterov;
} tri_sgd_settings;

typedef struct tri_schedule_free_settings {
  double r, weight_lr_power; /* an update's weight in the average is its number to r times the rate to this */
} tri_schedule_free_settings;

typedef struct tri_adafactor_settings {
  double beta2_decay, eps[2], d;
} tri_adafactor_settings;

/* Of GaLore and of Fira. */
typedef struct tri_low_rank_settings {
  int64_t rank, every;
  double scale;
} tri_low_rank_settings;

/* The average of the weights over the run (average.c). */
typedef struct tri_average_settings {
  int64_t every, after; /* updates; every 0: there is none */
  double decay;         /* 0: all weigh the same */
} tri_average_settings;

/* Of a group of parameters. */
typedef struct tri_group_settings {
  int name; /* a tri_optimizer_name; or AUTO: the run's where that takes the group, else AdamW */
  double lr_scale, weight_decay_scale;
} tri_group_settings;

/* How states that have a number for each element are kept between steps. */
typedef enum tri_state_storage {
  TRI_STATE_WIDE, /* fp32, fp64 in a run of fp64 */
  TRI_STATE_BF16,
  TRI_STATE_INT8, /* in blocks with a scale each (device/kernels.h, quantise_blocks) */
} tri_state_storage;

typedef struct tri_optimizer_settings {
  tri_optimizer_name name;
  double betas[2], eps, weight_decay;
  tri_state_storage state;
  tri_muon_settings muon;
  tri_schedule_free_settings schedule_free;
  tri_sgd_settings sgd;
  tri_adafactor_settings adafactor;
  tri_low_rank_settings galore, fira;
  tri_average_settings average;
  tri_group_settings groups[TRI_NUM_GROUPS];
} tri_optimizer_settings;

/* AdamW with the defaults of its keys: for planning without a run. */
const tri_optimizer_settings *tri_optimizer_settings_default(void);

/* Whether the numbers go together; messages name keys below `optimizer.`. */
tri_status tri_optimizer_settings_check(const tri_optimizer_settings *settings);
/* The same with the parameters of a model. */
tri_status tri_optimizer_settings_check_model(const tri_optimizer_settings *settings, const tri_model *model);

/* Keys of the sections of the run file that are of one optimizer, and of a group. Offsets count from the section's own
 * struct. */
extern const tri_config_table tri_muon_keys, tri_schedule_free_keys, tri_sgd_keys, tri_adafactor_keys, tri_galore_keys,
    tri_fira_keys, tri_average_keys;
extern const tri_config_table tri_group_keys, tri_vector_group_keys;
extern const tri_config_word tri_optimizer_words[], tri_state_storage_words[];

/* ---- the table --------------------------------------------------------------------------------------------------- */

typedef enum tri_optimizer_unit {
  TRI_UNIT_ELEMENTS, /* each element by itself: cut anywhere */
  TRI_UNIT_MATRIX,   /* whole tensors: ZeRO shares them out uncut, and what tensor ranks split is gathered */
} tri_optimizer_unit;

/* States of an optimizer; with the average of the weights. */
enum { TRI_OPTIMIZER_STATES = 4, TRI_UPDATE_STATES = TRI_OPTIMIZER_STATES + 1, TRI_OPTIMIZER_COSTS = 4 };

enum { TRI_STATE_DIMS = 3 };

/* Of a state of one tensor; without dimensions: the tensor has none. */
typedef struct tri_state_shape {
  int64_t num_dims, dims[TRI_STATE_DIMS];
} tri_state_shape;

/* What is kept of a parameter: a number for each element, or what has a shape of its own. That is whole on all ranks
 * that hold parts of a tensor, the same on each, and always kept wide; it is for the unit matrix. */
typedef struct tri_optimizer_state {
  const char *suffix; /* of its tensor in a checkpoint */
  bool with_sign;     /* else it is never negative */
  bool as_value;      /* a point rather than a moment: it begins as the parameter, and is always kept wide */
  /* Of a whole tensor of a parameter (of a stack: of each); empty: a number for each element. */
  tri_state_shape (*shape)(const tri_optimizer_settings *settings, const tri_parameter *tensor);
} tri_optimizer_state;

typedef struct tri_update_call tri_update_call;
typedef struct tri_update_run tri_update_run; /* run.h */

typedef struct tri_optimizer {
  const char *name;
  unsigned takes; /* bit g: the group g */
  tri_optimizer_unit unit;
  bool joins_parts; /* of the unit matrix: parts of one tensor on disk (tri_rows_within) are updated with the first */
  int64_t num_states;
  tri_optimizer_state states[TRI_OPTIMIZER_STATES];
  /* The settings that are its own; may be empty. */
  tri_status (*check)(const tri_optimizer_settings *settings);
  /* Whether they fit the parameters of a model; may be empty. */
  tri_status (*check_model)(const tri_optimizer_settings *settings, const tri_parameter_table *table);
  /* Scratch memory of a call; empty: none. */
  tri_status (*workspace)(const tri_update_call *call, const tri_device_description *device, size_t *bytes);
  /* Queues it. COLLECTIVE over the ranks that hold parts of a tensor where the unit is the matrix. */
  tri_status (*update)(const tri_update_run *run, const tri_update_call *call);
  /* What it costs beside reading and writing each element and its states once: appends to out[TRI_OPTIMIZER_COSTS],
   * and returns how many there are. May be empty. */
  int (*costs)(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]);
  /* Work of a whole tensor of the unit matrix, as FLOPs: by which they are shared out. Empty otherwise. */
  double (*work)(const tri_optimizer_settings *settings, const tri_parameter *tensor);
  /* Of an optimizer that evaluates and saves another point than the one that it trains, else empty: that point is a +
   * weight (b - a) of the values and of state 0. `trained` is the suffix of the values themselves in a checkpoint. */
  double (*evaluated)(const tri_optimizer_settings *settings);
  /* What update number `update` (from 1 on) weighs in the average, where that was the highest rate so far. */
  double (*weight)(const tri_optimizer_settings *settings, int64_t update, double highest_lr);
  const char *trained;
} tri_optimizer;

#define TRI_OPTIMIZER_TABLE(VALUE, name) extern const tri_optimizer tri_optimizer_##name;
TRI_OPTIMIZERS(TRI_OPTIMIZER_TABLE)

const tri_optimizer *tri_optimizer_named(tri_optimizer_name name);

/* What changes parameters of a group; of a parameter: NULL if that is not an optimizer. */
const tri_optimizer *tri_optimizer_of_group(const tri_optimizer_settings *settings, tri_parameter_group group);
const tri_optimizer *tri_optimizer_of(const tri_optimizer_settings *settings, const tri_parameter *parameter);

/* The shape of a state of a whole tensor, as a checkpoint has it. */
tri_state_shape tri_optimizer_state_shape(const tri_optimizer_settings *settings, const tri_optimizer *optimizer,
                                          const tri_parameter *tensor, int64_t state);
int64_t tri_state_shape_count(const tri_state_shape *shape);

/* Whether any group's optimizer needs whole matrices; the first that evaluates another point than it trains, or NULL.
 */
bool tri_optimizer_has_matrices(const tri_optimizer_settings *settings);
const tri_optimizer *tri_optimizer_that_averages(const tri_optimizer_settings *settings);

/* ---- what is updated at once ---------------------------------------------------------------------------------------
 */

struct tri_update_call {
  const tri_optimizer *optimizer; /* NULL: the balance of experts moves it */
  const tri_optimizer_settings *settings;
  tri_mesh_seat seat;   /* of the rank */
  tri_dtype type;       /* of activations */
  tri_parameter tensor; /* with what the rank has of it; the unit elements: the entry, be it a stack or not */
  /* The entries that are updated at once where the optimizer joins parts: `tensor` and those behind it, in memory too;
   * 0 of a further part. NULL: `tensor` alone. */
  const tri_parameter *parts;
  int64_t num_parts;
  int64_t entry;        /* of the parameter table, */
  int64_t bucket;       /* and its bucket */
  int64_t first, count; /* elements of the entry's local part */
  double lr_scale, weight_decay;
  size_t states[TRI_UPDATE_STATES]; /* where they begin, in bytes from the begin of all states */
};

/* What is kept of the call's elements: the optimizer's states and, where there is one, the average of the weights,
 * which is number call->optimizer->num_states. Of calls of an optimizer. */
int64_t tri_update_num_states(const tri_update_call *call);
const tri_optimizer_state *tri_update_state(const tri_update_call *call, int64_t state);

/* Whether a state has a shape of its own; how it is kept, how many numbers and how many bytes. */
bool tri_update_has_own_shape(const tri_update_call *call, int64_t state);
int64_t tri_update_state_count(const tri_update_call *call, int64_t state);
tri_state_storage tri_update_storage(const tri_update_call *call, int64_t state);
size_t tri_update_state_bytes(const tri_update_call *call, int64_t state);

bool tri_update_is_wide(const tri_update_call *call, int64_t state);

/* Scratch memory of a call, with what states that are not kept wide want. */
tri_status tri_update_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes);

/* Bytes of an element that the update reads and writes: value, gradient, states with a number for it; and those of all
 * states with a shape of their own. */
double tri_update_element_bytes(const tri_update_call *call);
double tri_update_own_shape_bytes(const tri_update_call *call);

/* Bytes that are kept of an element, in states with a number for it. */
double tri_update_kept_bytes(const tri_update_call *call);

/* ---- the average of the weights ------------------------------------------------------------------------------------
 */

bool tri_average_is_kept(const tri_optimizer_settings *settings);

/* Whether the weights that update number `update` (from 1 on) makes are averaged; what they weigh in it where it is of
 * `taken` before them: average + weight (weights - average). */
bool tri_average_is_due(const tri_optimizer_settings *settings, int64_t update);
double tri_average_weight(const tri_optimizer_settings *settings, int64_t taken);

/* Bytes of an element that averaging reads and writes, of an update among many. */
double tri_average_element_bytes(const tri_optimizer_settings *settings, size_t element);

tri_status tri_average_check(const tri_optimizer_settings *settings);

#endif
