/* Saving a run's state: decides what is saved after a step, and saves checkpoints, at once or in the background. */
#ifndef TRI_RECOVERY_SAVE_H
#define TRI_RECOVERY_SAVE_H

#include "files/folder_lock.h"
#include "recovery/snapshot.h"

typedef struct tri_saver tri_saver;

/* LOCAL. Creates a saver for OUTPUT/checkpoints. `tokenizer` is the path of a tokenizer.json or "". The engine must
 * have planned the memory: tri_engine_options.saves, and saves_in_background if checkpoint.async is set. `lock` is the
 * output's lock on the first rank; NULL: it is not checked. All arguments must outlive the saver; release with
 * tri_saver_destroy. */
tri_status tri_saver_create(tri_engine *engine, const tri_run_config *config, const char *tokenizer,
                            const tri_identity *identity, const tri_folder_lock *lock, tri_saver **out);

/* LOCAL, on the first rank, before the first save. Copies the extra files of the model (extra_files.h) to
 * OUTPUT/companions, once per run. Every save copies them from there, and adds the description of the tokens that end a
 * text. `from`: the value of `--resume`. document_end: as in tri_extra_texts_make. */
tri_status tri_saver_keep_extra_files(tri_saver *saver, const char *from, int32_t document_end);

/* State of saving between steps; {0} at the start of a process. */
typedef struct tri_save_pending {
  bool checkpoint_due;    /* a checkpoint was due after a step without a good state; the next good step saves it */
  bool snapshot_unproven; /* no good step has followed the newest snapshot */
} tri_save_pending;

/* A step that has just ended. */
typedef struct tri_save_moment {
  const tri_progress *progress; /* after the step */
  bool last;                    /* the run ends or stops after it */
  bool evaluated;               /* the state after the step was evaluated, and the loss was finite */
  /* COLLECTIVE, called after earlier saves have ended. Flushes files outside of the checkpoint that belong to the saved
   * state. */
  tri_status (*before_save)(void *context);
  void *context; /* argument of before_save */
} tri_save_moment;

/* COLLECTIVE, after each step. Saves a checkpoint if one is due, else takes a snapshot if one is due (`snapshots` may
 * be NULL). Saves nothing after a bad step, whose state may be ruined and would replace a good one, and nothing before
 * the first update. */
tri_status tri_save_after_step(tri_saver *saver, tri_snapshots *snapshots, const tri_save_moment *moment,
                               tri_save_pending *pending);

/* COLLECTIVE, between two steps. Waits for an earlier save, then saves the state. Without checkpoint.async the
 * checkpoint is complete when this returns. With checkpoint.async the state has only been copied when this returns, and
 * a thread of each rank writes the copy. */
tri_status tri_saver_save(tri_saver *saver, const tri_progress *progress);

/* COLLECTIVE, between steps. Begins the next phase of a save in the background if its threads have ended on all ranks.
 * Does not wait for them. Returns the failure of the save. */
tri_status tri_saver_poll(tri_saver *saver);

/* COLLECTIVE. Waits for the end of a save in the background. Returns the failure of the save. */
tri_status tri_saver_finish(tri_saver *saver);

/* COLLECTIVE. Calls tri_saver_finish if the newest save is of the best checkpoint so far. Must be called before
 * the best step is recorded elsewhere, such as in a snapshot. */
tri_status tri_saver_finish_best(tri_saver *saver);

/* LOCAL, between steps, on every rank. Notes that the run has resumed from the checkpoint of that step. If this
 * checkpoint is in OUTPUT/checkpoints, and tri_saver_prove is called before the first save has ended, tri_saver_prove
 * marks this checkpoint as proven. */
void tri_saver_resumed(tri_saver *saver, int64_t step);
/* LOCAL, between steps, on every rank. Notes that the newest saved state is good: the next step, or an evaluation of
 * the state, was finite. Marks the checkpoint as proven (checkpoint.h), at once or when its save ends. */
void tri_saver_prove(tri_saver *saver);
/* LOCAL. Marks the run's newest checkpoint as disproved, if no good step has followed. Called when the run gives up. A
 * checkpoint that this process only resumed from is not marked: the fault may be in the settings of this process. */
void tri_saver_disprove(tri_saver *saver);

/* Times of the newest save that has ended. `step` is the same on all ranks. */
typedef struct tri_saver_times {
  double pause_s; /* seconds that tri_saver_save took, without its wait for an earlier save; 0 before the first */
  double whole_s; /* seconds from the start of the save until the checkpoint was complete (background: until a later
                     step noticed that) */
  int64_t step;   /* -1 before the first */
} tri_saver_times;
/* LOCAL. Returns the times of the newest save that has ended. */
tri_saver_times tri_saver_newest(const tri_saver *saver);

/* LOCAL. Waits for this rank's thread, and abandons a save that is still in progress: its unfinished folder remains
 * until the next save. */
void tri_saver_destroy(tri_saver *saver);

#endif
