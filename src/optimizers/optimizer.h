/* Descriptions of optimizers, without device, rank or memory. run.h has the context in which an update runs.
 *
 * An optimizer is one file with everything that the system knows about it: the states of each parameter, whether it
 * needs whole matrices, its keys in a run file, how it runs and how much an update costs. The engine runs it, the
 * memory plan and the checkpoint have room for its states, and the simulator predicts its time, all through this table.
 *
 * A parameter's group decides which optimizer updates it. An optimizer for matrices leaves the other groups to AdamW.
 * The updates of a rank are a list of calls, made from the buckets (schedule/updates.h): ranges of elements, or whole
 * tensors if the optimizer's unit is the matrix. */
#ifndef TRI_OPTIMIZERS_OPTIMIZER_H
#define TRI_OPTIMIZERS_OPTIMIZER_H

#include "config/config.h"
#include "device/description.h"
#include "model/parameters.h"
#include "ops/op.h"

/* Each optimizer is a file that defines its table, such as tri_optimizer_adamw. */
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

/* Value in place of a tri_optimizer_name: no optimizer is named. */
enum { TRI_OPTIMIZER_AUTO = -1 };

/* ---- settings ---------------------------------------------------------------------------------------------------- */

typedef enum tri_muon_scale {
  TRI_MUON_MOONLIGHT, /* 0.2 sqrt(the longer side): steps as long as AdamW's, so that its learning rate and weight decay
                         can be reused */
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
  /* The weight of an update in the average is its number to the power r, times the highest learning rate so far to the
   * power weight_lr_power. */
  double r, weight_lr_power;
} tri_schedule_free_settings;

typedef struct tri_adafactor_settings {
  double beta2_decay, eps[2], d;
} tri_adafactor_settings;

/* Settings of GaLore and of Fira. */
typedef struct tri_low_rank_settings {
  int64_t rank, every;
  double scale;
} tri_low_rank_settings;

/* Running average of the weights (average.c). */
typedef struct tri_average_settings {
  int64_t every, after; /* every: number of updates between the weights that are averaged, 0: no average; after: number
                           of updates before the first weights that are averaged */
  double decay;         /* 0: all weights count the same */
} tri_average_settings;

/* Settings of a group of parameters. */
typedef struct tri_group_settings {
  int name; /* a tri_optimizer_name; or AUTO: the run's optimizer if that can update the group (tri_optimizer.takes),
               else AdamW */
  double lr_scale, weight_decay_scale;
} tri_group_settings;

/* Type in which states with one number per element are stored between updates. */
typedef enum tri_state_storage {
  TRI_STATE_WIDE, /* fp32; fp64 in a run of fp64 */
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
  bool reference; /* whether the run keeps the initial values of trained parameters (reference.c); set by the objective,
                     not by a key */
  tri_group_settings groups[TRI_NUM_GROUPS];
} tri_optimizer_settings;

/* Returns AdamW with the defaults of its keys, for planning without a run. */
const tri_optimizer_settings *tri_optimizer_settings_default(void);

/* Checks that the settings are consistent. Error messages name keys below `optimizer.`. */
tri_status tri_optimizer_settings_check(const tri_optimizer_settings *settings);
/* Checks that the settings fit the parameters of a model. */
tri_status tri_optimizer_settings_check_model(const tri_optimizer_settings *settings, const tri_model *model);

/* Keys of the run file's sections for single optimizers, and for a group. Offsets are in the section's own struct. */
extern const tri_config_table tri_muon_keys, tri_schedule_free_keys, tri_sgd_keys, tri_adafactor_keys, tri_galore_keys,
    tri_fira_keys, tri_average_keys;
extern const tri_config_table tri_group_keys, tri_vector_group_keys;
extern const tri_config_word tri_optimizer_words[], tri_state_storage_words[];

/* ---- table ------------------------------------------------------------------------------------------------------- */

typedef enum tri_optimizer_unit {
  TRI_UNIT_ELEMENTS, /* each element by itself; may be cut anywhere */
  TRI_UNIT_MATRIX,   /* whole tensors: ZeRO assigns them to ranks uncut, and shards of tensor ranks are gathered */
} tri_optimizer_unit;

/* Maximum number of states of an optimizer, and of its costs. */
enum { TRI_OPTIMIZER_STATES = 4, TRI_OPTIMIZER_COSTS = 4 };

enum { TRI_STATE_DIMS = 3 };

/* Shape of a state of one tensor; no dimensions: the tensor does not have this state. */
typedef struct tri_state_shape {
  int64_t num_dims, dims[TRI_STATE_DIMS];
} tri_state_shape;

/* The owner of a state decides how a checkpoint stores the state. */
typedef enum tri_state_owner {
  TRI_STATE_OF_OPTIMIZER, /* one tensor for each matrix; a checkpoint has the states of all parameters, or none */
  TRI_STATE_OF_RUN, /* one tensor for each weight, with its name and shape, after all states of optimizers; in a run
                       that resumes from a checkpoint without the state, the state begins with its first value */
} tri_state_owner;

/* A state: numbers that the run keeps for each parameter in addition to its value. It has one number per element of the
 * parameter, or a shape of its own. A shape of its own needs the unit matrix; the state is then whole and equal on all
 * ranks that have shards of the parameter, and always stored wide. */
typedef struct tri_optimizer_state {
  const char *suffix; /* suffix of its tensor's name in a checkpoint */
  tri_state_owner owner;
  bool with_sign; /* whether values may be negative */
  bool as_value; /* whether the state is a point, such as an average, and not a moment of gradients: it starts as a copy
                    of the parameter (other states start as 0), and is stored wide unless `as_read` makes it narrow */
  bool as_read;  /* whether the state is stored in the type in which a forward reads the parameter
                    (tri_trainable_is_read_narrow) */
  /* Returns the state's shape for a whole tensor; each tensor of a stack has a state. NULL: one number per element. */
  tri_state_shape (*shape)(const tri_optimizer_settings *settings, const tri_parameter *tensor);
  /* Returns whether a run keeps the state. Only states of the run have this function. */
  bool (*is_kept)(const tri_optimizer_settings *settings);
} tri_optimizer_state;

/* States of the run itself, with any optimizer: each is a row of the file that defines it, such as tri_average_state.
 * The engine's update (engine_step.c) updates the average; the reference does not change. */
#define TRI_RUN_STATES(X) X(AVERAGE, average) X(REFERENCE, reference)
#define TRI_RUN_STATE_VALUE(VALUE, name) TRI_RUN_STATE_##VALUE,
typedef enum tri_run_state { TRI_RUN_STATES(TRI_RUN_STATE_VALUE) TRI_NUM_RUN_STATES } tri_run_state;
#define TRI_RUN_STATE_ROW(VALUE, name) extern const tri_optimizer_state tri_##name##_state;
TRI_RUN_STATES(TRI_RUN_STATE_ROW)
extern const tri_optimizer_state *const tri_run_states[TRI_NUM_RUN_STATES];

/* Maximum number of states of a parameter. */
enum { TRI_UPDATE_STATES = TRI_OPTIMIZER_STATES + TRI_NUM_RUN_STATES };

typedef struct tri_update_call tri_update_call;
typedef struct tri_update_run tri_update_run; /* run.h */

typedef struct tri_optimizer {
  const char *name;
  unsigned takes; /* bit g: updates parameters of group g */
  tri_optimizer_unit unit;
  bool joins_parts; /* unit matrix: whether parameters that are parts of one tensor on disk (tri_rows_within) are
                       updated together, by the call of the first part */
  int64_t num_states;
  tri_optimizer_state states[TRI_OPTIMIZER_STATES];
  /* Checks the optimizer's own settings. May be NULL. */
  tri_status (*check)(const tri_optimizer_settings *settings);
  /* Checks that the settings fit the parameters of a model. May be NULL. */
  tri_status (*check_model)(const tri_optimizer_settings *settings, const tri_parameter_table *table);
  /* Computes the bytes of scratch memory of a call. NULL: none. */
  tri_status (*workspace)(const tri_update_call *call, const tri_device_description *device, size_t *bytes);
  /* Queues the update. COLLECTIVE over the ranks that have shards of the tensor, if the unit is the matrix. */
  tri_status (*update)(const tri_update_run *run, const tri_update_call *call);
  /* Writes the costs of a call, beyond one read and write of each element and its states, to out[TRI_OPTIMIZER_COSTS];
   * returns the number of costs. May be NULL. */
  int (*costs)(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]);
  /* Returns the FLOPs of the update of a whole tensor, by which tensors are assigned to ranks. NULL unless the unit is
   * the matrix. */
  double (*work)(const tri_optimizer_settings *settings, const tri_parameter *tensor);
  /* Returns the weight w of the point that is evaluated and saved, a + w (b - a), where a are the trained values and b
   * is state 0. NULL: the trained values are evaluated and saved. `trained` below is the suffix of the trained values
   * in a checkpoint. */
  double (*evaluated)(const tri_optimizer_settings *settings);
  /* Returns the weight of update number `update` (from 1 on) in the average of an optimizer that has `evaluated`.
   * `highest_lr`: highest learning rate so far. */
  double (*weight)(const tri_optimizer_settings *settings, int64_t update, double highest_lr);
  const char *trained;
} tri_optimizer;

#define TRI_OPTIMIZER_TABLE(VALUE, name) extern const tri_optimizer tri_optimizer_##name;
TRI_OPTIMIZERS(TRI_OPTIMIZER_TABLE)

const tri_optimizer *tri_optimizer_named(tri_optimizer_name name);

/* Returns the optimizer that updates a group. */
const tri_optimizer *tri_optimizer_of_group(const tri_optimizer_settings *settings, tri_parameter_group group);
/* Returns the optimizer that updates a parameter; NULL if the parameter has no gradient. */
const tri_optimizer *tri_optimizer_of(const tri_optimizer_settings *settings, const tri_parameter *parameter);

/* Returns the number of states of a parameter that `optimizer` updates: the states of the optimizer, then the states
 * that the run keeps. */
int64_t tri_optimizer_num_states(const tri_optimizer_settings *settings, const tri_optimizer *optimizer);
/* Returns state number `state` of a parameter that `optimizer` updates, in the order of tri_optimizer_num_states; NULL
 * if there are fewer states. */
const tri_optimizer_state *tri_optimizer_state_at(const tri_optimizer_settings *settings,
                                                  const tri_optimizer *optimizer, int64_t state);

/* Returns the shape of a state of a whole tensor, as in a checkpoint. */
tri_state_shape tri_optimizer_state_shape(const tri_optimizer_settings *settings, const tri_optimizer_state *state,
                                          const tri_parameter *tensor);
int64_t tri_state_shape_count(const tri_state_shape *shape);

/* Returns whether the optimizer of any group needs whole matrices. */
bool tri_optimizer_has_matrices(const tri_optimizer_settings *settings);
/* Returns the optimizer of the first group whose optimizer has `evaluated`; NULL if no group has one. */
const tri_optimizer *tri_optimizer_that_averages(const tri_optimizer_settings *settings);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

struct tri_update_call {
  const tri_optimizer *optimizer; /* NULL: the load balancing of experts updates the tensor */
  const tri_optimizer_settings *settings;
  tri_mesh_position position; /* mesh position of the rank */
  tri_dtype type;             /* type of activations */
  tri_parameter tensor;       /* the rank's shard of one tensor; unit elements: the whole entry, which may be a stack */
  /* Entries that are updated together if the optimizer joins parts [num_parts]: `tensor` and the parts after it,
   * adjacent in memory. NULL: only `tensor`. num_parts is 0 in the calls of the parts after the first. */
  const tri_parameter *parts;
  int64_t num_parts;
  int64_t entry;        /* index in the parameter table */
  int64_t bucket;       /* index of the bucket that has the entry */
  int64_t first, count; /* range of elements in the entry's local shard */
  double lr_scale, weight_decay;
  size_t states[TRI_UPDATE_STATES]; /* offset of each state in the memory of all states, in bytes */
};

/* Returns the number of states of a call; 0 without an optimizer. */
int64_t tri_update_num_states(const tri_update_call *call);
/* Returns state number `state` of a call. */
const tri_optimizer_state *tri_update_state(const tri_update_call *call, int64_t state);
/* Returns the number of a state of the run among the states of a call. The run must keep the state. */
int64_t tri_update_run_state(const tri_update_call *call, tri_run_state state);

/* Returns whether a state of a call has a shape of its own. */
bool tri_update_has_own_shape(const tri_update_call *call, int64_t state);
/* Returns the number of elements of a state. */
int64_t tri_update_state_count(const tri_update_call *call, int64_t state);
/* Returns the type in which a state is stored. */
tri_state_storage tri_update_storage(const tri_update_call *call, int64_t state);
/* Returns the number of bytes of a stored state, with the scales of an int8 state. */
size_t tri_update_state_bytes(const tri_update_call *call, int64_t state);

/* Returns whether a state is stored wide. */
bool tri_update_is_wide(const tri_update_call *call, int64_t state);

/* Computes the bytes of scratch memory of a call, with wide copies of states that are not stored wide. */
tri_status tri_update_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes);

/* Returns the bytes per element that the update reads and writes: value, gradient, states of the optimizer with one
 * number per element, and the running average. */
double tri_update_element_bytes(const tri_update_call *call);
/* Returns the bytes that the update reads and writes of all states with a shape of their own. */
double tri_update_own_shape_bytes(const tri_update_call *call);

/* Returns the bytes of stored states per element, without states that have a shape of their own. */
double tri_update_kept_bytes(const tri_update_call *call);

/* ---- average of the weights -------------------------------------------------------------------------------------- */

#define TRI_AVERAGE_SUFFIX ".average" /* suffix of the name of the average's tensor in a checkpoint */

bool tri_average_is_kept(const tri_optimizer_settings *settings);

/* Returns whether the weights after update number `update` (from 1 on) are added to the average. */
bool tri_average_is_due(const tri_optimizer_settings *settings, int64_t update);
/* Returns the factor f with which weights are added to the average, average + f (weights - average), after `taken`
 * earlier additions. */
double tri_average_weight(const tri_optimizer_settings *settings, int64_t taken);

/* Returns the bytes that averaging reads and writes per element of `element` bytes, as a mean over all updates. */
double tri_average_element_bytes(const tri_optimizer_settings *settings, size_t element);

/* Fails with TRI_BAD_CONFIG if the run keeps a running average although `other`, an optimizer of the run, averages the
 * weights itself. `other` NULL: no optimizer of the run does. */
tri_status tri_average_check(const tri_optimizer_settings *settings, const tri_optimizer *other);

/* ---- reference --------------------------------------------------------------------------------------------------- */

bool tri_reference_is_kept(const tri_optimizer_settings *settings);

#endif
