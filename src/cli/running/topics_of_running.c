/* Topics of `trireme help` that are only in builds that run models. */
#include "cli/topics.h"
#include "run/run_config.h"
#include "tune/study.h"

const tri_topic tri_topics_of_running[] = {
    {.name = "run",
     .summary = "keys of a run file",
     .about = "A run file describes in YAML what `trireme train` does. Any key can be given on the command line too, "
              "`--set layout.tensor=2`, and each run writes the file as it was resolved into its output folder. Paths "
              "are relative to the current directory; `~/` is the home folder.",
     .example =
         "model: gpt2-124m\ndata:\n  train: corpus/train\n  validation: corpus/validation\n  sequence: 1024\n"
         "layout:\n  micro_batch: 4\noptimizer:\n  global_batch: 32\n  steps: 1000\n  lr: 6e-4\noutput: runs/gpt2\n",
     .elsewhere = "model",
     .table = tri_run_config_table},
    {.name = "study",
     .summary = "keys of a study file",
     .about = "A study is a YAML file with the parameters that `trireme tune` varies and the value to optimize. With "
              "the key `run` its trials are real, otherwise they are simulated.",
     .example = "trireme tune configs/studies/frontier-175b.yaml --store /tmp/frontier.db\n",
     .table = tri_study_table},
    {.name = NULL},
};
