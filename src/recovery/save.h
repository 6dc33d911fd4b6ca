/* Saves the state of a run: decides what to save after a step, and saves checkpoints, at once or in the background. */
#ifndef TRI_RECOVERY_SAVE_H
#define TRI_RECOVERY_SAVE_H

#include "files/folder_lock.h"
#include "recovery/snapshot.h"

typedef struct tri_saver tri_saver;

/* LOCAL. Creates a saver for OUTPUT/checkpoints. `tokenizer`: path of a tokenizer.json, or "". `lock`: lock of the
 * output on the first rank; NULL: not checked. The memory plan of the engine must include saves:
 * tri_engine_options.saves, and with checkpoint.async also saves_in_background. All arguments must outlive the
 * saver. Release with tri_saver_destroy. */
tri_status tri_saver_create(tri_engine *engine, const tri_run_config *config, const char *tokenizer,
                            const tri_identity *identity, const tri_folder_lock *lock, tri_saver **out);

/* LOCAL, on the first rank, before the first save. Copies the extra files of the model (extra_files.h) to
 * OUTPUT/companions, once per run. Every save copies them from there. It also makes the texts
 * of the files that name the tokens that end a text (tri_extra_texts_make), if the extra files do not include them;
 * every save writes these texts, and a config.json with the ids of these tokens. `from`: value of `--resume`; with
 * `never`, OUTPUT/companions is removed first. document_end: token that separated the documents of the training corpus;
 * -1: none. `chat`: whether the corpus was rendered by the chat template in the tokenizer's folder, which then replaces
 * the model's. */
tri_status tri_saver_keep_extra_files(tri_saver *saver, const char *from, int32_t document_end, bool chat);

/* State of saving between steps. Begins as {0} at the start of a process. */
typedef struct tri_save_pending {
  /* Whether a checkpoint was due after a step whose state is not saved: a bad step, a step before the first update, or
   * a step with tri_save_moment.inside. The checkpoint is saved after the next step that may be saved. */
  bool checkpoint_due;
  bool snapshot_unproven; /* whether no good step has followed the newest snapshot */
} tri_save_pending;

/* A step that has just ended. */
typedef struct tri_save_moment {
  const tri_progress *progress; /* progress after the step */
  bool last;                    /* whether the run ends or stops after this step */
  /* Whether the step is one of several updates from a batch of completions, and not the last of them. The run cannot
   * resume from the state after such a step, so nothing is saved until a later one. */
  bool inside;
  bool evaluated; /* whether the state after the step was evaluated, and its loss (or its reward, by evaluation.metric)
                     is finite */
  /* COLLECTIVE. Flushes files outside of the checkpoint that belong to the saved state. Called before each checkpoint,
   * after earlier saves have ended. */
  tri_status (*before_save)(void *context);
  void *context; /* argument of before_save */
} tri_save_moment;

/* COLLECTIVE, after each step. Saves a checkpoint if one is due, else takes a snapshot if one is due (`snapshots`
 * may be NULL). Saves nothing before the first update, after a step with moment->inside, and after a bad step, whose
 * state may be ruined and would replace a good one; a checkpoint that is due is then postponed
 * (pending->checkpoint_due). Continues a save in the background, and after the last step waits for its end. Returns the
 * failure of a save or snapshot; fails with TRI_BUSY if another process has taken over the output. */
tri_status tri_save_after_step(tri_saver *saver, tri_snapshots *snapshots, const tri_save_moment *moment,
                               tri_save_pending *pending);

/* COLLECTIVE, between two steps. Waits for an earlier save, and saves the state. Without checkpoint.async the
 * checkpoint is complete when the function returns. With checkpoint.async the function copies the state, and a thread
 * of each rank then writes the copy. Returns the failure of either save. */
tri_status tri_saver_save(tri_saver *saver, const tri_progress *progress);

/* COLLECTIVE, between steps. Begins the next phase of a save in the background (save.c) if the threads of the phase
 * in progress have ended on all ranks. Does not wait for them. Returns the failure of the save. */
tri_status tri_saver_poll(tri_saver *saver);

/* COLLECTIVE. Waits for the end of a save in the background. Returns the failure of the save. */
tri_status tri_saver_finish(tri_saver *saver);

/* COLLECTIVE. Calls tri_saver_finish if the newest save is that of the best checkpoint so far. Must be called before
 * the best step is recorded elsewhere, such as in a snapshot. */
tri_status tri_saver_finish_best(tri_saver *saver);

/* LOCAL, between steps, on every rank. Notes that the run has resumed from the checkpoint of a step. If this
 * checkpoint is in OUTPUT/checkpoints, the next tri_saver_prove marks it as proven, unless a save has ended before. */
void tri_saver_resumed(tri_saver *saver, int64_t step);
/* LOCAL, between steps, on every rank. Notes that the newest saved state is good: the next step, or an evaluation of
 * the state, was finite. Marks its checkpoint as proven (checkpoint.h), at once, or when its save ends. */
void tri_saver_prove(tri_saver *saver);
/* LOCAL. Marks the newest checkpoint of this process as disproved if no good step has followed it. Called when the
 * run gives up. Two checkpoints are not marked: one that this process only resumed from, because the fault may be in
 * the settings of this process, and one whose save in the background has not ended. */
void tri_saver_disprove(tri_saver *saver);

/* Times of the newest save that has ended. All ranks have the same `step`. */
typedef struct tri_saver_times {
  double pause_s; /* seconds of tri_saver_save, without its wait for an earlier save; 0 before the first save */
  /* Seconds from the start of the save until the checkpoint was complete (in the background: until a later step
   * noticed this). */
  double whole_s;
  int64_t step; /* step whose state was saved; -1 before the first save */
} tri_saver_times;
/* LOCAL. Returns the times of the newest save that has ended. */
tri_saver_times tri_saver_newest(const tri_saver *saver);

/* LOCAL. Returns the step of a save in the background whose ranks are still writing, and sets `folder` to the temporary
 * folder of this save. The folder has every file without tensors, and the headers of the others, until the next
 * collective call with the saver. Returns -1 if there is no such save. */
int64_t tri_saver_writes(const tri_saver *saver, char folder[TRI_PATH_BYTES]);

/* LOCAL. Waits for the thread of this rank. In a job of one rank, ends a save that is still in progress. In other jobs
 * abandons it; its unfinished folder remains until the next save. */
void tri_saver_destroy(tri_saver *saver);

#endif
