/* Options shared by the commands that plan on described machines: model, cluster, batch and precision. */
#ifndef TRI_OPTIONS_PLAN_OPTIONS_H
#define TRI_OPTIONS_PLAN_OPTIONS_H

#include "model/model.h"
#include "options/lengths.h"
#include "options/option_rows.h"
#include "plan/search.h"
#include "plan/training_options.h"

enum { TRI_PLAN_DEVICES = 32, TRI_PLAN_SETS = 64 };

typedef struct tri_plan_options {
  const char *model_name, *cluster_name, *system_name;
  /* Number of devices, sequences of a step, and tokens of a sequence; 0: not given. */
  int64_t devices, global_batch, sequence;
  int64_t devices_to, devices_step; /* devices_to: end of a range of devices; 0: no range; devices_step: step of the
                                       range; 0: the number doubles */
  int64_t listed[TRI_PLAN_DEVICES]; /* [num_listed], in place of a range: numbers of devices, ascending, from `devices`
                                       to `devices_to` */
  int64_t num_listed;
  double batch_tokens; /* --global-batch in tokens, from which global_batch is computed; 0: --global-batch was given in
                          sequences */
  bool assumed_sequence;   /* whether --sequence was not given */
  double tokens;           /* number of tokens of the run, for days and costs; 0: not given */
  double price;            /* price of a device-hour, in place of the cluster's price; 0: not given */
  double mtbf, node_power; /* mtbf: mean time between failures in hours, 0: not given; node_power: power in watts, -1:
                              not given; both are in place of the cluster's numbers */
  double storage;          /* bytes per second at which each node writes checkpoints, in place of the cluster's
                              node_storage_bandwidth; 0: not given */
  /* Memory of a device to keep free in addition to the cluster's reserved_bytes, in bytes and as a share; 0: not given
   */
  double margin_bytes, margin_share;
  tri_dtype precision;
  bool json;
  const char *fixed;   /* keys that all layouts of a search have; NULL if there are none */
  const char *lengths; /* source of document lengths for masked attention: a corpus, or output of `inspect`; NULL if
                          there is none */
  bool packed;         /* whether the documents of `lengths` are packed whole; otherwise they are cut into windows */
  double masked_attention_fraction; /* fraction of attention that masks leave for the documents of `lengths` */
  tri_length_draws drawn;           /* sampled micro-batches of these documents */
  double expert_imbalance;          /* expert_imbalance of tri_simulation_request; 0: not given */
  const char *optimizer;            /* such as "galore:128"; NULL if not given */
  const char *sets[TRI_PLAN_SETS];  /* [num_sets]: settings such as "adapter.rank=16" */
  int64_t num_sets;

  tri_model model; /* the model after `trained` was applied */
  tri_training_options trained;
  tri_cluster cluster;
  tri_system system;
} tri_plan_options;

/* Rows of these options, in the order in which users need them: the model and the machine; the batch; the keys that all
 * layouts of a search have; and the others. tri_plan_fixed_rows is for commands that search; other commands have their
 * own option --layout, for a single layout. */
extern const tri_option tri_plan_machine_rows[], tri_plan_batch_rows[], tri_plan_fixed_rows[], tri_plan_further_rows[];

/* Returns options that are not given, with their defaults. */
tri_plan_options tri_plan_options_default(void);

/* Checks that the required options are given, reads the files that the options name, and completes the other members:
 * the length of sequences, the batch, the model with its trained parameters, and the facts about document lengths. Logs
 * the number of sequences of a batch that was given in tokens. Fails with TRI_BAD_USAGE if an option is missing or does
 * not fit the model or the cluster. Call it after the last option. `command` begins messages about missing options.
 * Release the options with tri_plan_options_release, also after a failure. */
tri_status tri_plan_options_finish(const char *command, tri_plan_options *options);

/* Checks that `devices` is at most the number of devices of a node, or a number of whole nodes, and that the cluster
 * has as many devices. Fails with TRI_BAD_USAGE. */
tri_status tri_plan_options_check_devices(const tri_plan_options *options, int64_t devices);

/* Returns the request of a search for the best layout on `devices` devices, which shows its progress. The options must
 * outlive the request. */
tri_search_request tri_plan_options_search(const tri_plan_options *options);

void tri_plan_options_release(tri_plan_options *options);

/* Returns the simulation request for a layout. The options and the layout must outlive the request. */
tri_simulation_request tri_plan_options_request(const tri_plan_options *options, const tri_layout *layout);

#endif
