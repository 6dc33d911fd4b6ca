/* What a study maximises, and what each objective asks of the study: one table of all that is known of them. */
#ifndef TRI_TUNE_STUDY_OBJECTIVE_H
#define TRI_TUNE_STUDY_OBJECTIVE_H

#include "config/yaml.h"
#include "tune/study.h"

/* The words of `objective:`, as TRI_CONFIG_WORDS takes them. */
#define TRI_OBJECTIVES(X)                                                                                              \
  X("tflops", TRI_OBJECTIVE_TFLOPS)                                                                                    \
  X("tokens_per_s", TRI_OBJECTIVE_TOKENS)                                                                              \
  X("cost", TRI_OBJECTIVE_COST)                                                                                        \
  X("time_to_loss", TRI_OBJECTIVE_TIME_TO_LOSS)                                                                        \
  X("validation_loss", TRI_OBJECTIVE_VALIDATION_LOSS)

/* What a value counts, for reports. */
const char *tri_objective_unit(tri_objective objective);

/* Whether it is about the validation loss: trials are real, and `space` may name keys of the optimizer. */
bool tri_objective_is_of_loss(tri_objective objective);

/* A trial's value, of which higher is better, as reports show it, and back: of a validation loss the loss itself. */
double tri_objective_shown(tri_objective objective, double value);

/* Whether a parameter of `space` is a key of the optimizer that the run file's reader alone knows. */
bool tri_objective_is_setting(const char *name);

/* What the study file says of its objective, its trials and its space, against what the objective needs; `root` is the
 * file's tree, for lines and for what was left out. Completes the defaults of `trial`:
 * of a validation loss trial.steps is then 0 where the file does not say it. */
tri_status tri_objective_check(tri_study *study, const tri_yaml *root);

/* A study of a loss has something to vary: said before the file is read, since the usual example is of speed. */
tri_status tri_objective_check_space(const char *source, const tri_yaml *root);

/* Puts the line of the parameter that a message begins with ("`space`: `NAME` ...") behind it; returns `status`. */
tri_status tri_objective_add_line(tri_status status, const tri_yaml *root);

/* The steps of a trial where the study does not say them: those of the run file, 0 if it counts epochs. */
tri_status tri_objective_take_steps(tri_study *study, int64_t steps);

#endif
