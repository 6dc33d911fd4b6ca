#include "cli/topics.h"

#include "model/model_config.h"
#include "plan/cluster.h"
#include "plan/system.h"

#include <string.h>

static const tri_config_table *model_table(void) { return &tri_model_table; }
static const tri_config_table *cluster_table(void) { return &tri_cluster_table; }
static const tri_config_table *system_table(void) { return &tri_system_table; }

const tri_topic tri_topics[] = {
    {.name = "model",
     .summary = "keys of a model file",
     .about = "A model is a YAML file of these keys, or the section `model` of a run file. Presets are called by name; "
              "`trireme inspect NAME` describes one.",
     .example = "family: llama\nnum_layers: 16\nhidden_size: 1024\nnum_heads: 16\nnum_kv_heads: 4\nffn_size: 2816\n"
                "vocab_size: 32000\nmax_sequence: 2048\n",
     .table = model_table},
    {.name = "cluster",
     .summary = "keys of a cluster file",
     .about = "A cluster is the description of a machine for `trireme plan` and `trireme simulate`, a YAML file of "
              "these keys. `trireme calibrate` measures one; presets are called by name.",
     .example = "trireme calibrate this-machine.yaml -n 2\n",
     .table = cluster_table},
    {.name = "system",
     .summary = "keys of a system file",
     .about = "A system is the program whose execution of a layout is predicted (`--system`): Trireme itself, or "
              "another program.",
     .example = "trireme simulate --system megatron-lm-2021 --model gpt2-1.5b --cluster a100-node --devices 4 "
                "--layout tensor=1 --global-batch 64\n",
     .table = system_table},
    {.name = NULL},
};

const tri_topic *tri_topic_at(int index) {
  int own = 0, more = 0;
  while (tri_topics[own].name != NULL) own++;
  while (tri_topics_of_running[more].name != NULL) more++;
  if (index < more) return &tri_topics_of_running[index];
  return index - more < own ? &tri_topics[index - more] : NULL;
}

const tri_topic *tri_topic_find(const char *name) {
  const tri_topic *topic;
  for (int i = 0; (topic = tri_topic_at(i)) != NULL; i++) {
    if (strcmp(topic->name, name) == 0) return topic;
  }
  return NULL;
}
