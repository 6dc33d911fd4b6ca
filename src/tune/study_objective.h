/* The objectives of studies: their properties, and the checks of a study against its objective. */
#ifndef TRI_TUNE_STUDY_OBJECTIVE_H
#define TRI_TUNE_STUDY_OBJECTIVE_H

#include "config/yaml.h"
#include "run/run_config.h"
#include "tune/study.h"

/* The words of `objective:`, as TRI_CONFIG_WORDS takes them. */
#define TRI_OBJECTIVES(X)                                                                                              \
  X("tflops", TRI_OBJECTIVE_TFLOPS)                                                                                    \
  X("tokens_per_s", TRI_OBJECTIVE_TOKENS)                                                                              \
  X("cost", TRI_OBJECTIVE_COST)                                                                                        \
  X("time_to_loss", TRI_OBJECTIVE_TIME_TO_LOSS)                                                                        \
  X("validation_loss", TRI_OBJECTIVE_VALIDATION_LOSS)                                                                  \
  X("validation_accuracy", TRI_OBJECTIVE_VALIDATION_ACCURACY)

/* Returns the unit of a value, for reports. */
const char *tri_objective_unit(tri_objective objective);

/* Returns whether the objective is a result of learning, not the speed. The trials of such a study are real, and its
 * `space` may name keys that change what is learnt (tri_objective_is_setting). */
bool tri_objective_is_of_loss(tri_objective objective);

/* Returns whether the objective is the loss at the end of a trial: TRI_OBJECTIVE_VALIDATION_LOSS or _ACCURACY. */
bool tri_objective_is_last_loss(tri_objective objective);

/* Returns the name of a trial's loss for texts: "validation loss", "1 - validation accuracy". */
const char *tri_objective_loss_name(tri_objective objective);

/* Returns the value in reports for a trial's value (higher is better), or a trial's value for a value in reports: the
 * conversion is its own inverse. For a validation loss the value in reports is the loss itself. */
double tri_objective_shown(tri_objective objective, double value);

/* Returns whether a parameter of `space` is a key of the run file's `model`, `adapter`, `objective` or `optimizer`,
 * other than optimizer.name and optimizer.state. Only the run file's reader knows these keys. */
bool tri_objective_is_setting(const char *name);

/* Checks the objective, the trials and the space of a study file against the needs of the objective. `root` is the
 * file's tree, which is used for lines in messages and to find missing keys. Completes the defaults of `trial`. For a
 * validation loss or accuracy, trial.steps is 0 afterwards if the file does not set it. Fails with TRI_BAD_CONFIG. */
tri_status tri_objective_check(tri_study *study, const tri_yaml *root);

/* Fails with TRI_BAD_CONFIG if a study of a loss has no space. Call it before the table of keys is applied, because the
 * example in that table's message is for studies of speed. */
tri_status tri_objective_check_space(const char *source, const tri_yaml *root);

/* Appends to an error message "`space`: `NAME` ..." the number of the line of the parameter NAME. Returns `status`. */
tri_status tri_objective_add_line(tri_status status, const tri_yaml *root);

/* Checks that the study's run file, read as `config`, gives the loss that is the objective, and that the reader of run
 * files accepts all values of parameters that are keys of the run file. Fails with TRI_BAD_CONFIG otherwise. `scratch`
 * is used for reading. */
tri_status tri_objective_check_run(const tri_study *study, const tri_run_config *config, tri_run_config *scratch);

/* Sets trial.steps of a study of validation losses or accuracies to `steps`, which is the run file's, unless the
 * study's file sets it. Fails with TRI_BAD_CONFIG if `steps` is 0, because the run file has epochs, or too few for
 * halving. */
tri_status tri_objective_set_steps(tri_study *study, int64_t steps);

#endif
