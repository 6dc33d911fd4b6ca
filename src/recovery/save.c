/* The phases of a save, and the threads that execute them.
 *
 * The problem: a checkpoint is as large as the state of the run, and all ranks write it together. Steps should not wait
 * until it is written. A failure of one rank must fail the save on all ranks. And a checkpoint of a state that has
 * diverged must not replace a good one.
 *
 * The idea: a checkpoint passes through these phases.
 *
 *   due       after each step tri_save_after_step decides what to save: a checkpoint (checkpoint.every,
 *             checkpoint.best, the end), a snapshot, or nothing
 *   begin     the description of the state is made; for a save in the background the state is copied
 *   write     every rank writes its slices
 *   join      the ranks agree that all have written (join_and_publish)
 *   publish   the first rank renames the folder to its final name, and removes checkpoints beyond checkpoint.keep
 *   prove     a later good step or an evaluation marks the checkpoint as good; a run that diverges marks it as bad
 *
 * In the background a thread of each rank does `write`, and a thread of the first rank does `publish`. Between steps
 * (tri_saver_poll) the ranks check together whether the threads of all have ended, and then begin the next phase.
 *
 * Invariants:
 * - at most one save is in progress; the next one waits for it;
 * - all ranks are in the same `stage`, and change it in the same collective call. Only the main thread communicates;
 * - steps change the memory of the engine while a thread writes, so the thread reads only the copy (`staged`) and the
 *   description that `begin` has made;
 * - a folder has its final name only if all ranks have written their slices without an error.
 *
 * Example: checkpoint.every 100 with checkpoint.async. After step 100 each rank copies its slices, and the steps
 * continue. After step 103 the last rank has written, and the thread of the first rank starts to publish. After step
 * 104 this thread has ended: the checkpoint is complete. A good step has already followed the state of step 100
 * (`proven`), so the checkpoint is marked at once. */
#include "recovery/save.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "chat/format.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"
#include "comm/agreement.h"
#include "engine/checkpoint_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef enum stage { STAGE_IDLE, STAGE_WRITING, STAGE_PUBLISHING } stage;

struct tri_saver {
  tri_engine *engine;
  const tri_run_config *config;
  const char *tokenizer;
  const tri_identity *identity;
  const tri_folder_lock *lock; /* lock of the output; NULL: not checked */
  tri_checkpoint_map map;
  void *buffers; /* memory of the engine for saves: write buffers, then the copy of the state */
  /* Slices of the copy of the state [map.num_slices]; NULL without checkpoint.async. */
  tri_checkpoint_slice *staged;
  char root[TRI_PATH_BYTES], extra_files[TRI_PATH_BYTES]; /* OUTPUT/checkpoints; OUTPUT/companions, "" if missing */
  /* Texts of the configuration of the run, and of config.json. */
  char *run_config, *model_config;
  tri_extra_texts extra_texts;
  char *adapter_config; /* text of adapter_config.json; NULL without an adapter */

  /* The save in progress, or if none is, the newest one. */
  stage stage;
  json_t *progress;
  tri_checkpoint_saving *saving;
  pthread_t thread;
  bool has_thread;
  atomic_bool thread_done;
  tri_saved_error thread_failure;
  int64_t step;
  bool proven;             /* whether a good step or evaluation has followed the saved state */
  bool saves_best;         /* whether the saved state is the best so far (checkpoint.best) */
  double begun_s, pause_s; /* time when the save began (tri_clock_s); seconds that steps waited for it */
  /* Step of the newest complete checkpoint, which this run has saved or resumed from; -1 if it is proven, or if there
   * is no such checkpoint. */
  int64_t unproven;
  tri_saver_times newest;
};

static const tri_group *world_of(const tri_saver *saver) { return &tri_engine_mesh(saver->engine)->world; }

/* ---- setup ------------------------------------------------------------------------------------------------------- */

static tri_status stage_slices(tri_saver *saver) {
  size_t room = 0;
  saver->buffers = tri_engine_staging(saver->engine, &room);
  char *to = (char *)saver->buffers + TRI_CHECKPOINT_BUFFER_BYTES;
  int64_t count = saver->map.num_slices;
  bool copies = saver->config->checkpoint.async;
  size_t wanted = TRI_CHECKPOINT_BUFFER_BYTES + (copies ? tri_checkpoint_map_bytes(&saver->map) : 0);
  if (wanted > room) {
    return tri_fail_internal("a save needs %zu bytes of memory, and %zu were planned", wanted, room);
  }
  memset(saver->buffers, 0, wanted); /* touched now, so that the first save does not pause longer than later ones */
  if (!copies) return TRI_OK;
  TRI_TRY(tri_alloc("the slices of a checkpoint", (size_t)count, sizeof *saver->staged, &saver->staged));
  for (int64_t i = 0; i < count; i++) {
    saver->staged[i] = saver->map.slices[i];
    saver->staged[i].data = to;
    saver->staged[i].memory = NULL;
    to += tri_checkpoint_map_slice_bytes(&saver->map, &saver->staged[i]);
  }
  return TRI_OK;
}

static tri_status print_adapter(tri_saver *saver) {
  tri_peft *peft = NULL;
  const tri_model *model = &saver->config->model;
  if (model->tuning.adapter.rank == 0) return TRI_OK;
  TRI_TRY(tri_alloc("an adapter's description", 1, sizeof *peft, &peft));
  peft->adapter = model->tuning.adapter;
  if (saver->identity != NULL) {
    peft->signature = saver->identity->signature;
    memcpy(peft->base, saver->identity->base, sizeof peft->base);
  }
  tri_status status = tri_peft_print(peft, model, &saver->adapter_config);
  tri_free(peft);
  return status;
}

/* Returns the description of the run for a checkpoint; with an adapter, also of its base. */
static json_t *print_identity(const tri_saver *saver) {
  const tri_identity *identity = saver->identity;
  json_t *out = tri_identity_print(identity, saver->config);
  if (saver->adapter_config == NULL) return out;
  json_object_set_new(out, "base",
                      json_pack("{s:s, s:s, s:s}", "path", identity->base, "signature", identity->signature.frame,
                                "values", identity->signature.values));
  return out;
}

static tri_status saver_set_up(tri_saver *saver) {
  const tri_run_config *config = saver->config;
  TRI_TRY(tri_path_join(saver->root, config->output, "checkpoints"));
  TRI_TRY(tri_run_config_print(config, &saver->run_config));
  TRI_TRY(tri_huggingface_print(&config->model, tri_dtype_wide(config->precision), -1, NULL, &saver->model_config));
  TRI_TRY(print_adapter(saver));
  TRI_TRY(tri_checkpoint_map_create(saver->engine, TRI_CHECKPOINT_MAP_SAVE, &saver->map));
  return stage_slices(saver);
}

tri_status tri_saver_create(tri_engine *engine, const tri_run_config *config, const char *tokenizer,
                            const tri_identity *identity, const tri_folder_lock *lock, tri_saver **out) {
  tri_saver *saver = NULL;
  TRI_TRY(tri_alloc("a saver", 1, sizeof *saver, &saver));
  saver->engine = engine;
  saver->config = config;
  saver->tokenizer = tokenizer;
  saver->identity = identity;
  saver->lock = lock;
  saver->step = saver->unproven = saver->newest.step = -1;
  tri_status status = saver_set_up(saver);
  if (status != TRI_OK) {
    tri_saver_destroy(saver);
    return status;
  }
  *out = saver;
  return TRI_OK;
}

/* ---- extra files ------------------------------------------------------------------------------------------------- */

/* Finds the folder to copy extra files from: the one that `--resume` names (`from`), else the one that `init` names,
 * else that of the tokenizer. Sets `out` to "" if neither names a folder and the tokenizer's path has no slash. */
static tri_status find_extra_files(const tri_saver *saver, const char *from, char out[TRI_PATH_BYTES]) {
  const tri_checkpoint_use use = {.settings_only = true};
  const bool named = strcmp(from, "auto") != 0 && strcmp(from, "never") != 0;
  const char *init = saver->config->init;
  if (named || init[0] != '\0') return tri_checkpoint_find(named ? from : init, &use, out);
  const char *slash = strrchr(saver->tokenizer, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - saver->tokenizer);
  memcpy(out, saver->tokenizer, length);
  out[length] = '\0';
  return TRI_OK;
}

static tri_status set_extra_files(tri_saver *saver, const char *folder, int32_t document_end) {
  const tri_run_config *config = saver->config;
  const char *kept = tri_path_exists(folder) ? folder : NULL;
  tri_extra_texts *texts = &saver->extra_texts;
  char *text = NULL;
  tri_extra_texts_release(texts);
  TRI_TRY(tri_extra_texts_make(kept, saver->tokenizer, document_end, texts));
  const tri_dtype type = tri_dtype_wide(config->precision);
  TRI_TRY(tri_huggingface_print(&config->model, type, texts->end_of_text, kept, &text));
  tri_free(saver->model_config);
  saver->model_config = text;
  if (kept != NULL) snprintf(saver->extra_files, sizeof saver->extra_files, "%s", folder);
  return TRI_OK;
}

/* Returns the chat template in a tokenizer's folder as tri_chat_format_json does; NULL if it has none, or a bad one. */
static json_t *template_of(const char *tokenizer) {
  const tri_chat_format_options options = {.tokenizer = tokenizer, .optional = true};
  tri_chat_format format;
  json_t *out = tri_chat_format_create(&options, &format) == TRI_OK ? tri_chat_format_json(&format) : NULL;
  tri_chat_format_release(&format);
  return out;
}

/* Copies the extra files of the folder `source` to the folder `kept`. With `chat` (a corpus of conversations), the chat
 * template of the tokenizer's folder replaces another one, and this is logged. Such a corpus has one template or, from
 * the model's folder, the same named ones as the model. */
static tri_status keep_extra_files(const tri_saver *saver, const char *source, const char *kept, bool chat) {
  json_t *trained = chat ? template_of(saver->tokenizer) : NULL, *own = chat ? template_of(source) : NULL;
  const bool replaces = json_is_string(trained) && !json_equal(trained, own);
  if (replaces) tri_log("checkpoints have the chat template of the corpus, not that of %s", source);
  const tri_status status = tri_extra_files_keep(source, kept, replaces ? json_string_value(trained) : NULL);
  json_decref(trained);
  json_decref(own);
  return status;
}

tri_status tri_saver_keep_extra_files(tri_saver *saver, const char *from, int32_t document_end, bool chat) {
  char source[TRI_PATH_BYTES], kept[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(kept, saver->config->output, "companions"));
  if (strcmp(from, "never") == 0) TRI_TRY(tri_directory_remove(kept)); /* files that another run has left */
  if (!tri_path_exists(kept)) {
    TRI_TRY(find_extra_files(saver, from, source));
    if (source[0] != '\0') TRI_TRY(keep_extra_files(saver, source, kept, chat));
  }
  return set_extra_files(saver, kept, document_end);
}

/* ---- thread ------------------------------------------------------------------------------------------------------ */

static void *work(void *argument) {
  tri_saver *saver = argument;
  bool writes = saver->stage == STAGE_WRITING;
  tri_error_save(&saver->thread_failure,
                 writes ? tri_checkpoint_save_write(saver->saving) : tri_checkpoint_save_publish(saver->saving));
  atomic_store(&saver->thread_done, true);
  return NULL;
}

static tri_status start_thread(tri_saver *saver, stage next) {
  saver->stage = next;
  saver->thread_failure.status = TRI_OK;
  atomic_store(&saver->thread_done, false);
  TRI_TRY(tri_thread_start("the thread that saves", work, saver, &saver->thread));
  saver->has_thread = true;
  return TRI_OK;
}

/* Waits for the thread and returns its status. */
static tri_status end_thread(tri_saver *saver) {
  if (!saver->has_thread) return TRI_OK;
  pthread_join(saver->thread, NULL);
  saver->has_thread = false;
  return tri_saved_error_restore(&saver->thread_failure);
}

/* ---- one save ---------------------------------------------------------------------------------------------------- */

/* Checks that the output still belongs to this run. Called before a checkpoint is saved, published or marked as
 * proven: while this process was suspended, another one may have taken over the output. */
static tri_status check_lock(const tri_saver *saver) {
  return saver->lock == NULL ? TRI_OK : tri_folder_lock_check(saver->lock);
}

/* Marks checkpoint `unproven` as proven, on the first rank, and sets `unproven` to -1. Only logs a failure, since marks
 * matter only for the next start and for the removal of old checkpoints. */
static void mark_proven(tri_saver *saver) {
  tri_status status = check_lock(saver);
  if (status == TRI_OK && world_of(saver)->rank == 0) {
    status = tri_checkpoint_prove(saver->root, saver->unproven, saver->config->checkpoint.keep);
  }
  if (status != TRI_OK) {
    tri_warn("the checkpoint of step %ld is not marked as proven: %s", (long)saver->unproven, tri_status_message());
  }
  saver->unproven = -1;
}

static void end_save(tri_saver *saver, bool good) {
  tri_checkpoint_save_end(saver->saving, good);
  json_decref(saver->progress);
  saver->saving = NULL;
  saver->progress = NULL;
  saver->stage = STAGE_IDLE;
  if (!good) return;
  saver->newest = (tri_saver_times){saver->pause_s, tri_clock_s() - saver->begun_s, saver->step};
  saver->unproven = saver->step;
  if (saver->proven) mark_proven(saver);
}

static tri_status begin_save(tri_saver *saver, const tri_progress *progress, const tri_checkpoint_slice *slices) {
  const tri_run_config *config = saver->config;
  saver->step = progress->step;
  saver->proven = false;
  saver->saves_best = config->checkpoint.best && progress->best_step == progress->step;
  saver->progress = tri_progress_print(progress);
  if (saver->progress != NULL && json_object_set_new(saver->progress, "identity", print_identity(saver)) != 0) {
    json_decref(saver->progress);
    saver->progress = NULL;
  }
  if (saver->progress == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the progress of a checkpoint");
  tri_checkpoint_request request = {
      .group = world_of(saver),
      .root = saver->root,
      .state = {.step = progress->step,
                .samples = progress->samples,
                .tokens = progress->tokens,
                .seed = config->seed,
                .run_config = saver->run_config,
                .progress = saver->progress},
      .weights = saver->map.weights,
      .optimizer = saver->map.optimizer,
      .num_weights = saver->map.num_weights,
      .num_optimizer = saver->map.num_optimizer,
      .slices = slices,
      .num_slices = saver->map.num_slices,
      .buffers = saver->buffers,
      .shard_bytes = config->checkpoint.shard_bytes,
      .model_config = saver->model_config,
      .stem = saver->adapter_config == NULL ? NULL : TRI_PEFT_STEM,
      .adapter_config = saver->adapter_config,
      .tokenizer = saver->tokenizer[0] == '\0' ? NULL : saver->tokenizer,
      .extra_files = saver->extra_files[0] == '\0' ? NULL : saver->extra_files,
      .extra_texts = &saver->extra_texts,
      .keep = config->checkpoint.keep,
      .best = saver->saves_best,
  };
  return tri_checkpoint_save_begin(&request, &saver->saving);
}

/* COLLECTIVE. Begins to publish on the first rank if all ranks have written (`written`: this rank's status). Fails on
 * all ranks if any rank failed; that rank keeps its own error message. */
static tri_status join_and_publish(tri_saver *saver, tri_status written) {
  TRI_TRY(tri_checkpoint_save_join(saver->saving, written));
  tri_status status = check_lock(saver);
  saver->stage = STAGE_PUBLISHING; /* on all ranks, although only the first starts a thread */
  if (status == TRI_OK && world_of(saver)->rank == 0) status = start_thread(saver, STAGE_PUBLISHING);
  return tri_first_rank_status(world_of(saver), status);
}

static tri_status save_at_once(tri_saver *saver, const tri_progress *progress) {
  tri_status status = tri_common_failure(world_of(saver), tri_engine_finish(saver->engine));
  if (status == TRI_OK) status = begin_save(saver, progress, saver->map.slices);
  if (status == TRI_OK) {
    status = tri_checkpoint_save_join(saver->saving, tri_checkpoint_save_write(saver->saving));
    if (status == TRI_OK) status = tri_first_rank_status(world_of(saver), check_lock(saver));
    if (status == TRI_OK) status = tri_first_rank_status(world_of(saver), tri_checkpoint_save_publish(saver->saving));
  }
  end_save(saver, status == TRI_OK);
  return status;
}

/* COLLECTIVE. Copies the state, and starts the thread of this rank that writes it. Steps wait only for the copy. Ends
 * the save if a rank fails. */
static tri_status save_in_background(tri_saver *saver, const tri_progress *progress) {
  tri_status status =
      tri_checkpoint_map_download(saver->engine, &saver->map, (char *)saver->buffers + TRI_CHECKPOINT_BUFFER_BYTES);
  status = tri_common_failure(world_of(saver), status);
  if (status == TRI_OK) status = begin_save(saver, progress, saver->staged);
  if (status == TRI_OK) status = tri_common_status(world_of(saver), start_thread(saver, STAGE_WRITING));
  if (status != TRI_OK) {
    tri_saved_error failure = {TRI_OK, ""};
    tri_error_save(&failure, status);
    (void)end_thread(saver);
    end_save(saver, false);
    status = tri_saved_error_restore(&failure);
  }
  return status;
}

tri_status tri_saver_save(tri_saver *saver, const tri_progress *progress) {
  TRI_TRY(tri_saver_finish(saver));
  tri_record record = tri_record_make(TRI_RECORD_WORK, "save a checkpoint");
  uint64_t ticket = tri_recorder_begin(&record);
  saver->begun_s = tri_clock_s();
  bool background = saver->staged != NULL;
  tri_status status = background ? save_in_background(saver, progress) : save_at_once(saver, progress);
  saver->pause_s = tri_clock_s() - saver->begun_s;
  if (!background && status == TRI_OK) saver->newest.pause_s = saver->pause_s;
  tri_recorder_end(ticket);
  return status;
}

/* ---- between steps ----------------------------------------------------------------------------------------------- */

/* COLLECTIVE. Sets *out to whether the threads of all ranks have ended. */
static tri_status all_done(tri_saver *saver, bool *out) {
  int64_t busy = saver->has_thread && !atomic_load(&saver->thread_done);
  TRI_TRY(tri_all_sum_int64(world_of(saver), 1, &busy));
  *out = busy == 0;
  return TRI_OK;
}

/* COLLECTIVE. Waits for the thread of this rank. Then begins to publish if all ranks have written, or ends the save if
 * it is published or has failed. */
static tri_status advance(tri_saver *saver) {
  tri_status status = end_thread(saver);
  bool publishing = saver->stage == STAGE_PUBLISHING;
  status = publishing ? tri_first_rank_status(world_of(saver), status) : join_and_publish(saver, status);
  if (publishing || status != TRI_OK) end_save(saver, status == TRI_OK);
  return status;
}

tri_status tri_saver_poll(tri_saver *saver) {
  bool done = false;
  if (saver->stage == STAGE_IDLE) return TRI_OK;
  TRI_TRY(all_done(saver, &done));
  return done ? advance(saver) : TRI_OK;
}

tri_status tri_saver_finish(tri_saver *saver) {
  /* Each call waits for the thread of the phase in progress. */
  while (saver->stage != STAGE_IDLE) TRI_TRY(advance(saver));
  return TRI_OK;
}

tri_status tri_saver_finish_best(tri_saver *saver) { return saver->saves_best ? tri_saver_finish(saver) : TRI_OK; }

/* ---- after each step --------------------------------------------------------------------------------------------- */

static tri_status save_checkpoint(tri_saver *saver, const tri_save_moment *moment, tri_save_pending *pending) {
  TRI_TRY(tri_first_rank_status(world_of(saver), check_lock(saver)));
  pending->checkpoint_due = false;
  TRI_TRY(tri_saver_finish(saver));
  TRI_TRY(moment->before_save(moment->context));
  TRI_TRY(tri_saver_save(saver, moment->progress));
  if (moment->evaluated) tri_saver_prove(saver);
  return moment->last ? tri_saver_finish(saver) : TRI_OK;
}

tri_status tri_save_after_step(tri_saver *saver, tri_snapshots *snapshots, const tri_save_moment *moment,
                               tri_save_pending *pending) {
  const tri_run_config *config = saver->config;
  const tri_progress *progress = moment->progress;
  const bool best = config->checkpoint.best && progress->best_step == progress->step;
  const bool every = config->checkpoint.every > 0 && progress->step % config->checkpoint.every == 0;
  const bool due = best || every || pending->checkpoint_due;
  TRI_TRY(tri_saver_poll(saver));
  /* Do not save the state after a bad step, the initial state, or a state from which the run cannot resume. */
  if (progress->bad_in_row > 0 || progress->updates == 0 || moment->inside) {
    pending->checkpoint_due = due;
    return moment->last ? tri_saver_finish(saver) : TRI_OK;
  }
  if (due || (moment->last && config->checkpoint.at_end)) return save_checkpoint(saver, moment, pending);
  if (moment->last) return tri_saver_finish(saver);
  if (snapshots == NULL || progress->step % config->checkpoint.snapshot_every != 0) return TRI_OK;
  TRI_TRY(tri_saver_finish_best(saver)); /* the snapshot's best_step may name a checkpoint in progress */
  pending->snapshot_unproven = true;
  return tri_snapshots_make(snapshots, progress);
}

/* ---- after the save ---------------------------------------------------------------------------------------------- */

void tri_saver_resumed(tri_saver *saver, int64_t step) {
  if (tri_checkpoint_is_there(saver->root, step)) saver->unproven = step;
}

void tri_saver_prove(tri_saver *saver) {
  saver->proven = true;
  if (saver->unproven >= 0) mark_proven(saver);
}

void tri_saver_disprove(tri_saver *saver) {
  if (saver->unproven < 0 || saver->unproven != saver->step || world_of(saver)->rank > 0) return;
  if (tri_checkpoint_disprove(saver->root, saver->unproven) != TRI_OK) {
    tri_warn("the checkpoint of step %ld is not marked: %s", (long)saver->unproven, tri_status_message());
  }
}

tri_saver_times tri_saver_newest(const tri_saver *saver) { return saver->newest; }

int64_t tri_saver_writes(const tri_saver *saver, char folder[TRI_PATH_BYTES]) {
  if (saver->stage != STAGE_WRITING) return -1;
  snprintf(folder, TRI_PATH_BYTES, "%s", tri_checkpoint_save_folder(saver->saving));
  return saver->step;
}

void tri_saver_destroy(tri_saver *saver) {
  if (saver == NULL) return;
  const bool alone = world_of(saver)->size == 1;
  tri_saved_error failure = {TRI_OK, ""};
  tri_error_save(&failure, TRI_IO_FAILED); /* the message of the caller's failure; the code does not matter */
  saver->proven = false;                   /* so that end_save marks no checkpoint */
  if (alone && saver->saving != NULL) (void)tri_saver_finish(saver);
  (void)end_thread(saver);
  if (saver->saving != NULL) end_save(saver, true); /* `true` keeps the folder: other ranks may still write into it */
  (void)tri_saved_error_restore(&failure);
  tri_free(saver->staged);
  tri_free(saver->adapter_config);
  tri_extra_texts_release(&saver->extra_texts);
  tri_free(saver->model_config);
  tri_free(saver->run_config);
  tri_checkpoint_map_release(&saver->map);
  tri_free(saver);
}
