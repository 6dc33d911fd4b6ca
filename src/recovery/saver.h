/* Saving a run's state as checkpoints, at once or in the background. */
#ifndef TRI_RECOVERY_SAVER_H
#define TRI_RECOVERY_SAVER_H

#include "base/folder_lock.h"
#include "engine/engine.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"

typedef struct tri_saver tri_saver;

/* LOCAL. Saves go to OUTPUT/checkpoints. `tokenizer` is the path of a tokenizer.json or "". With checkpoint.async the
 * engine must have the room (tri_engine_options.saves, saves_in_background). `lock` is the output's, on the first rank
 * (NULL: nobody looks). All that is given outlives the saver; release with tri_saver_destroy. */
tri_status tri_saver_create(tri_engine *engine, const tri_run_config *config, const char *tokenizer,
                            const tri_identity *identity, const tri_folder_lock *lock, tri_saver **out);

/* LOCAL, on the first rank, before the first save. What travels with the model (extra_files.h) lies in that folder, and
 * goes with every checkpoint, and so does what says which token ends a text; document_end: tri_companion_texts_make. */
tri_status tri_saver_set_companions(tri_saver *saver, const char *folder, int32_t document_end);

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
