/* Saves under many layouts and resumes under many, for tests/oracle/test_checkpoints.py: started once on as many ranks
 * as the layouts need.
 *
 *   checkpoint_tool RUN.yaml LAYOUTS save|resume FOLDER STEPS [SAVED]...
 *
 * LAYOUTS: a line each: a name, then overrides of the run file. `save` makes STEPS steps and saves into FOLDER/NAME;
 * `resume` loads FOLDER/SAVED for each of SAVED under each layout and makes STEPS more. A line of JSON on standard
 * output has the losses: {"layout": NAME, "from": SAVED or null, "losses": [...]}. Samples are functions of their
 * number. */
#include "base/memory.h"
#include "comm/agreement.h"
#include "recovery/resume.h"
#include "recovery/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OVERRIDES = 24, LINE_BYTES = 1024 };

typedef struct job {
  const char *run, *folder;
  bool saves;
  int64_t steps;
  char **saved;
  int num_saved;
} job;

static void make_batch(const tri_run_config *config, int64_t step, int32_t *ids, int32_t *labels) {
  int64_t tokens = config->optimizer.global_batch * config->data.sequence;
  for (int64_t i = 0; i < tokens; i++) {
    ids[i] = (int32_t)((step * 7919 + i * i * 31 + i * 17) % config->model.vocab_size);
    labels[i] = (int32_t)((step * 104729 + i * 13 + 5) % config->model.vocab_size);
  }
}

static tri_status make_steps(tri_engine *engine, const tri_run_config *config, int64_t steps, tri_progress *progress,
                             double *losses) {
  size_t tokens = (size_t)(config->optimizer.global_batch * config->data.sequence);
  int32_t *ids = NULL;
  TRI_TRY(tri_alloc("tokens", 2 * tokens, sizeof *ids, &ids));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < steps && status == TRI_OK; i++) {
    tri_step step = {0};
    make_batch(config, progress->step, ids, ids + tokens);
    status = tri_engine_step_on(engine, &(tri_tokens){.ids = ids, .labels = ids + tokens}, progress->step,
                                progress->updates, 1e-2, &step);
    losses[i] = step.loss;
    progress->step++;
    progress->updates += !step.skipped;
    progress->highest_lr = tri_engine_averaging(engine).highest_lr;
    progress->average_weights = tri_engine_averaging(engine).weights;
    progress->averaged = tri_engine_averaging(engine).taken;
  }
  tri_free(ids);
  return status;
}

static void print_losses(const char *layout, const char *from, const double *losses, int64_t count) {
  if (tri_comm_rank() > 0) return;
  printf("{\"layout\": \"%s\", \"from\": %s%s%s, \"losses\": [", layout, from == NULL ? "" : "\"",
         from == NULL ? "null" : from, from == NULL ? "" : "\"");
  for (int64_t i = 0; i < count; i++) printf("%s%.17g", i > 0 ? ", " : "", losses[i]);
  printf("]}\n");
}

static tri_status save(tri_engine *engine, tri_run_config *config, const tri_progress *progress) {
  tri_saver *saver = NULL;
  tri_identity nobody = {.is_new = true};
  TRI_TRY(tri_saver_create(engine, config, "", &nobody, NULL, &saver));
  tri_status status = tri_saver_save(saver, progress);
  if (status == TRI_OK) status = tri_saver_poll(saver);
  if (status == TRI_OK) status = tri_saver_finish(saver);
  tri_saver_destroy(saver);
  return status;
}

static tri_status on_engine(const job *j, const char *name, tri_run_config *config, tri_engine *engine,
                            const char *from) {
  double *losses = NULL;
  tri_progress progress = {0};
  tri_resumed resumed = TRI_RESUMED_NOTHING;
  const char *output = from == NULL ? name : from;
  if (snprintf(config->output, sizeof config->output, "%s/%s", j->folder, output) >= (int)sizeof config->output) {
    return tri_fail(TRI_BAD_USAGE, "the name %s is too long", j->folder);
  }
  TRI_TRY(tri_alloc("losses", (size_t)j->steps, sizeof *losses, &losses));
  const tri_resume_request request = {.engine = engine, .config = config, .from = "auto"};
  tri_status status = from == NULL ? TRI_OK : tri_resume(&request, &progress, &resumed);
  if (status == TRI_OK && from != NULL && resumed == TRI_RESUMED_NOTHING)
    status = tri_fail(TRI_BAD_FILE, "%s has no checkpoint", from);
  tri_engine_set_averaging(engine, (tri_averaging){progress.highest_lr, progress.average_weights, progress.averaged});
  if (status == TRI_OK) status = make_steps(engine, config, j->steps, &progress, losses);
  if (status == TRI_OK && j->saves) status = save(engine, config, &progress);
  if (status == TRI_OK) print_losses(name, from, losses, j->steps);
  tri_free(losses);
  return status;
}

static tri_status run_layout(const job *j, const char *name, tri_run_config *config, const char *from) {
  tri_mesh mesh;
  tri_device *device = NULL;
  tri_engine *engine = NULL;
  const tri_group world = tri_group_world();
  tri_mesh_shape shape = tri_layout_mesh_of(&config->layout, &config->model);
  TRI_TRY(tri_mesh_create(&world, &shape, &mesh));
  tri_status status = tri_device_create(config->device, 1, &device);
  tri_engine_options options = {.model = &config->model,
                                .layout = &config->layout,
                                .mesh = &mesh,
                                .global_batch = config->optimizer.global_batch,
                                .sequence = config->data.sequence,
                                .precision = config->precision,
                                .seed = config->seed,
                                .ignore_token = -1,
                                .optimizer = &config->optimizer.settings,
                                .clip = config->optimizer.clip,
                                .saves = true,
                                .saves_in_background = config->checkpoint.async};
  if (status == TRI_OK) status = tri_engine_create(&options, device, &engine);
  if (status == TRI_OK) status = on_engine(j, name, config, engine, from);
  tri_engine_destroy(engine);
  tri_device_destroy(device);
  tri_mesh_destroy(&mesh);
  return status;
}

/* Cuts a line into its words. */
static int cut(char *line, char **words, int most) {
  int count = 0;
  for (char *word = strtok(line, " \n"); word != NULL && count < most; word = strtok(NULL, " \n"))
    words[count++] = word;
  return count;
}

static tri_status run_line(const job *j, char *line, tri_run_config *config) {
  char *words[MOST_OVERRIDES];
  int count = cut(line, words, MOST_OVERRIDES);
  if (count == 0) return TRI_OK;
  TRI_TRY(tri_run_config_load(j->run, (const char *const *)words + 1, count - 1, config));
  TRI_TRY(tri_layout_resolve(&config->layout, &config->model, config->data.sequence, config->optimizer.global_batch,
                             tri_comm_size()));
  if (j->saves) return run_layout(j, words[0], config, NULL);
  for (int i = 0; i < j->num_saved; i++) TRI_TRY(run_layout(j, words[0], config, j->saved[i]));
  return TRI_OK;
}

static tri_status run_all(const job *j, const char *layouts) {
  char line[LINE_BYTES];
  tri_run_config *config = NULL;
  FILE *file = fopen(layouts, "r");
  if (file == NULL) return tri_fail(TRI_BAD_FILE, "cannot open %s", layouts);
  tri_status status = tri_alloc("a configuration", 1, sizeof *config, &config);
  while (status == TRI_OK && fgets(line, sizeof line, file) != NULL) status = run_line(j, line, config);
  fclose(file);
  tri_free(config);
  return status;
}

int main(int count, char **arguments) {
  if (count < 6) {
    fprintf(stderr, "usage: checkpoint_tool RUN.yaml LAYOUTS save|resume FOLDER STEPS [SAVED]...\n");
    return 2;
  }
  job j = {.run = arguments[1],
           .folder = arguments[4],
           .saves = strcmp(arguments[3], "save") == 0,
           .steps = strtol(arguments[5], NULL, 10),
           .saved = arguments + 6,
           .num_saved = count - 6};
  tri_status status = tri_comm_open();
  if (status == TRI_OK) status = run_all(&j, arguments[2]);
  if (status != TRI_OK) {
    if (tri_status_message()[0] != '\0') fprintf(stderr, "checkpoint_tool: %s\n", tri_status_message());
    fflush(stdout);
    tri_comm_abort(tri_status_exit(status));
  }
  tri_comm_close();
  return tri_status_exit(status);
}
