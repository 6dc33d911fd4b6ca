/* Saving a run's state: what is saved after which step, and checkpoints, at once or in the background. */
#ifndef TRI_RECOVERY_SAVE_H
#define TRI_RECOVERY_SAVE_H

#include "base/folder_lock.h"
#include "recovery/snapshot.h"

typedef struct tri_saver tri_saver;

/* LOCAL. Saves go to OUTPUT/checkpoints. `tokenizer` is the path of a tokenizer.json or "". With checkpoint.async the
 * engine must have the room (tri_engine_options.saves, saves_in_background). `lock` is the output's, on the first rank
 * (NULL: not watched). All that is given outlives the saver; release with tri_saver_destroy. */
tri_status tri_saver_create(tri_engine *engine, const tri_run_config *config, const char *tokenizer,
                            const tri_identity *identity, const tri_folder_lock *lock, tri_saver **out);

/* LOCAL, on the first rank, before the first save, with `--resume FROM`. Copies the extra files of the model
 * (extra_files.h) to OUTPUT/companions, once in a run; every checkpoint gets them from there, and with them what says
 * which token ends a text. document_end: tri_extra_texts_make. */
tri_status tri_saver_keep_extra_files(tri_saver *saver, const char *from, int32_t document_end);

/* What is not saved yet, between two steps. {0} at the start of a process. */
typedef struct tri_save_pending {
  bool checkpoint_due;    /* it was due among bad steps, and is saved after the next good one */
  bool snapshot_unproven; /* no good step has been made from the newest snapshot */
} tri_save_pending;

/* A step that was made. */
typedef struct tri_save_moment {
  const tri_progress *progress;
  bool last;      /* the run ends or stops after it */
  bool evaluated; /* an evaluation found the state after it finite */
  /* COLLECTIVE, once earlier saves are over. Flushes what belongs to the checkpoint and lies beside it. */
  tri_status (*before_save)(void *context);
  void *context;
} tri_save_moment;

/* COLLECTIVE, after each step. Saves a checkpoint if one is due, or takes a snapshot (`snapshots` may be NULL). Among
 * bad steps nothing is saved: their state may be ruined, and what it would replace is not. */
tri_status tri_save_after_step(tri_saver *saver, tri_snapshots *snapshots, const tri_save_moment *moment,
                               tri_save_pending *pending);

/* COLLECTIVE. Begins to save the state between two steps, after an earlier save has ended. Without checkpoint.async the
 * checkpoint is there when this returns. With it the state has been copied, and a thread of each rank writes it. */
tri_status tri_saver_save(tri_saver *saver, const tri_progress *progress);

/* COLLECTIVE, between steps. Goes on with a save in the background; its failure is this one's. */
tri_status tri_saver_look(tri_saver *saver);

/* COLLECTIVE. Waits for the end of a save in the background. */
tri_status tri_saver_finish(tri_saver *saver);

/* COLLECTIVE. The same if what is saved is the best so far: before somebody notes elsewhere that there is such a one.
 */
tri_status tri_saver_finish_best(tri_saver *saver);

/* LOCAL, between steps, on every rank. The run goes on from the checkpoint of that step, which may lie in
 * OUTPUT/checkpoints. */
void tri_saver_resumed(tri_saver *saver, int64_t step);
/* LOCAL, between steps, on every rank. A step, or an evaluation, from the state that was saved last was finite: the
 * checkpoint is proven (checkpoint.h), once it is there. */
void tri_saver_prove(tri_saver *saver);
/* LOCAL. The run gives up. If it has made no good step from what it saved last, that checkpoint is disproved; one that
 * another run left is not: this run may have been told to do what that one would not have. */
void tri_saver_disprove(tri_saver *saver);

/* LOCAL. Of the newest save that has ended: its step (-1 before the first), which is known on all ranks at once; for
 * how long the steps waited, and how long it took from its beginning until the checkpoint was there (in the background:
 * until a step found that it was). 0 before the first. */
typedef struct tri_saver_times {
  double pause_s, whole_s;
  int64_t step;
} tri_saver_times;
tri_saver_times tri_saver_newest(const tri_saver *saver);

/* LOCAL. A save that has not ended is given up: its folder stays, unfinished, until the next save. */
void tri_saver_destroy(tri_saver *saver);

#endif
