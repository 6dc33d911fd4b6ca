/* Options shared by the commands that plan on described machines: model, cluster, batch and precision. */
#ifndef TRI_OPTIONS_PLAN_OPTIONS_H
#define TRI_OPTIONS_PLAN_OPTIONS_H

#include "model/model.h"
#include "options/lengths.h"
#include "plan/search.h"
#include "plan/training_options.h"

#include <getopt.h>

enum { TRI_PLAN_DEVICES = 32, TRI_PLAN_SETS = 64 };

typedef struct tri_plan_options {
  const char *model_name, *cluster_name, *system_name;
  int64_t devices, global_batch, sequence;
  int64_t devices_to, devices_step; /* end and step of a range; devices_to 0: no range; devices_step 0: doubles */
  int64_t
      listed[TRI_PLAN_DEVICES]; /* [num_listed], instead of a range: a list, ascending, from devices to devices_to */
  int64_t num_listed;
  double batch_tokens;   /* --global-batch in tokens, from which global_batch is computed; 0: given in sequences */
  bool assumed_sequence; /* --sequence was not given */
  double tokens;
  double price;            /* price of a device-hour, overrides the cluster's; 0: not given */
  double mtbf, node_power; /* hours, and watts, override the cluster's; 0 and -1: not given */
  tri_dtype precision;
  bool json;
  const char *fixed;   /* keys that all layouts of a search have; or NULL */
  const char *lengths; /* document lengths for masked attention: a corpus, or output of `inspect`; or NULL */
  bool packed;         /* documents are packed whole, not cut into windows */
  double masked_attention_fraction; /* fraction of attention that masks then leave */
  tri_length_draws drawn;           /* sampled micro-batches of such documents */
  double expert_imbalance;          /* tri_simulation_request; 0: not given */
  const char *optimizer;            /* "galore:128"; or NULL */
  const char *sets[TRI_PLAN_SETS];  /* "adapter.rank=16" */
  int64_t num_sets;

  tri_model model; /* with `trained` applied */
  tri_training_options trained;
  tri_cluster cluster;
  tri_system system;
} tri_plan_options;

enum {
  TRI_OPTION_MODEL = 800,
  TRI_OPTION_CLUSTER,
  TRI_OPTION_SYSTEM,
  TRI_OPTION_DEVICES,
  TRI_OPTION_GLOBAL_BATCH,
  TRI_OPTION_SEQUENCE,
  TRI_OPTION_TOKENS_TO_TRAIN,
  TRI_OPTION_PLAN_PRECISION,
  TRI_OPTION_PLAN_JSON,
  TRI_OPTION_LENGTHS,
  TRI_OPTION_PACKING,
  TRI_OPTION_EXPERT_IMBALANCE,
  TRI_OPTION_OPTIMIZER,
  TRI_OPTION_PLAN_SET,
  TRI_OPTION_PRICE,
  TRI_OPTION_MTBF,
  TRI_OPTION_NODE_POWER,
  TRI_OPTION_FIXED
};
/* For commands that search; in other commands "layout" is one layout. */
#define TRI_PLAN_OPTION_FIXED_ROW                                                                                      \
  { "layout", required_argument, NULL, TRI_OPTION_FIXED }
#define TRI_PLAN_OPTION_ROWS                                                                                           \
  {"model", required_argument, NULL, TRI_OPTION_MODEL}, {"cluster", required_argument, NULL, TRI_OPTION_CLUSTER},      \
      {"system", required_argument, NULL, TRI_OPTION_SYSTEM},                                                          \
      {"devices", required_argument, NULL, TRI_OPTION_DEVICES},                                                        \
      {"global-batch", required_argument, NULL, TRI_OPTION_GLOBAL_BATCH},                                              \
      {"sequence", required_argument, NULL, TRI_OPTION_SEQUENCE},                                                      \
      {"tokens", required_argument, NULL, TRI_OPTION_TOKENS_TO_TRAIN},                                                 \
      {"price", required_argument, NULL, TRI_OPTION_PRICE}, {"mtbf", required_argument, NULL, TRI_OPTION_MTBF},        \
      {"node-power", required_argument, NULL, TRI_OPTION_NODE_POWER},                                                  \
      {"lengths", required_argument, NULL, TRI_OPTION_LENGTHS},                                                        \
      {"packing", required_argument, NULL, TRI_OPTION_PACKING},                                                        \
      {"expert-imbalance", required_argument, NULL, TRI_OPTION_EXPERT_IMBALANCE},                                      \
      {"optimizer", required_argument, NULL, TRI_OPTION_OPTIMIZER},                                                    \
      {"set", required_argument, NULL, TRI_OPTION_PLAN_SET},                                                           \
      {"precision", required_argument, NULL, TRI_OPTION_PLAN_PRECISION}, {                                             \
    "json", no_argument, NULL, TRI_OPTION_PLAN_JSON                                                                    \
  }
/* Help of these options, in the order in which users need them. A command adds its own lines for --devices A..B and for
 * --layout between the parts. */
#define TRI_PLAN_OPTION_HELP                                                                                           \
  "  --model M           a preset (configs/models), a model file, or a checkpoint's, a run's or a Hugging Face "       \
  "folder\n"                                                                                                           \
  "  --cluster C         a preset (configs/clusters) or a cluster file\n"                                              \
  "  --devices N         how many devices; a part of one node, or whole nodes\n"
#define TRI_PLAN_BATCH_HELP                                                                                            \
  "  --global-batch B    sequences in one step; 16M-tokens: as many as come nearest to 16 x 2^20 tokens (also K, G)\n" \
  "  --sequence S        tokens of one; the model's max_sequence unless given, where that is 8192 or less\n"
#define TRI_PLAN_FURTHER_HELP                                                                                          \
  "  --tokens T          also print days and node-hours for T tokens: 300e9, 300B, 15T\n"                              \
  "  --price P           price of a device for an hour in the currency of the cluster's file (its `cost`); prints "    \
  "the "                                                                                                               \
  "cost of a step\n"                                                                                                   \
  "  --mtbf HOURS        mean time between failures of a node, instead of that in the cluster's file (its "            \
  "`failures`)\n"                                                                                                      \
  "  --node-power W      watts of a node without its devices, instead of those in the file (its `cost`)\n"             \
  "  --precision P       bf16 (the default, and fp16 too), fp32 or fp64\n"                                             \
  "  --system S          trireme (the default), or another system to predict (configs/systems)\n"                      \
  "  --optimizer NAME    optimizer.name of a run file (default adamw): its states, and its work; galore:RANK\n"        \
  "  --set KEY=VALUE     a run file's key of what is trained and how: adapter.rank=16, adapter.targets=[q_proj],\n"    \
  "                      freeze=[\"*norm*\"], optimizer.state=int8; may be repeated\n"                                 \
  "  --lengths L         length distribution of the documents (masked attention, data.documents: masked): a corpus, "  \
  "or\n"                                                                                                               \
  "                      what `inspect CORPUS --sequence S --json` printed\n"                                          \
  "  --packing P         windows (the default) or documents: how these documents are packed into sequences "           \
  "(data.packing)\n"                                                                                                   \
  "  --expert-imbalance X  rows of the busiest rank's experts: X times those under perfect balance "                   \
  "(1)\n"                                                                                                              \
  "  --json              one JSON document on standard output: `mfu` is of `model_tflops_per_device`, `hfu` of\n"      \
  "                      `hardware_tflops_per_device`, which counts recomputed products (older name: "                 \
  "tflops_per_device)\n"

tri_plan_options tri_plan_options_default(void);

/* Handles one of the rows above; *taken is false if `result` is not one of them. */
tri_status tri_plan_option(int result, const char *value, tri_plan_options *options, bool *taken);

/* After the last option: checks that required options are given, and reads the files. */
tri_status tri_plan_options_finish(const char *command, tri_plan_options *options);

/* Checks that this number is a part of one node, or whole nodes, and that the cluster has them. */
tri_status tri_plan_options_check_devices(const tri_plan_options *options, int64_t devices);

/* Returns the request of a search; the options must outlive it. */
tri_search_request tri_plan_options_search(const tri_plan_options *options);

void tri_plan_options_release(tri_plan_options *options);

/* Returns the simulation request for a layout; the options and the layout must outlive it. */
tri_simulation_request tri_plan_options_request(const tri_plan_options *options, const tri_layout *layout);

#endif
