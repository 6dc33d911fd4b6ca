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
  int64_t devices, global_batch, sequence;
  int64_t devices_to, devices_step; /* end and step of a range; devices_to 0: no range; devices_step 0: doubles */
  int64_t
      listed[TRI_PLAN_DEVICES]; /* [num_listed], instead of a range: a list, ascending, from devices to devices_to */
  int64_t num_listed;
  double batch_tokens;     /* --global-batch in tokens, from which global_batch is computed; 0: given in sequences */
  bool assumed_sequence;   /* --sequence was not given */
  double tokens;           /* tokens of the run, for days and costs; 0: not given */
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

/* Rows of these options, in the order in which users need them: the model and the machine, the batch, the keys that all
 * layouts of a search have (for commands that search; elsewhere "layout" is one layout), and the others. */
extern const tri_option tri_plan_machine_rows[], tri_plan_batch_rows[], tri_plan_fixed_rows[], tri_plan_further_rows[];

tri_plan_options tri_plan_options_default(void);

/* Checks that the required options are given, and reads the files. Called after the last option. */
tri_status tri_plan_options_finish(const char *command, tri_plan_options *options);

/* Checks that `devices` is a part of one node or a number of whole nodes, and that the cluster has that many. */
tri_status tri_plan_options_check_devices(const tri_plan_options *options, int64_t devices);

/* Returns the request of a search; the options must outlive it. */
tri_search_request tri_plan_options_search(const tri_plan_options *options);

void tri_plan_options_release(tri_plan_options *options);

/* Returns the simulation request for a layout; the options and the layout must outlive it. */
tri_simulation_request tri_plan_options_request(const tri_plan_options *options, const tri_layout *layout);

#endif
