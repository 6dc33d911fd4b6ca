/* Identifies this rank to the parent process and in error messages, so that a failure names the rank and the step. */
#include "train/train_internal.h"

#include "base/log.h"
#include "files/file.h"
#include "recovery/flight_report.h"

#include <unistd.h>

/* Adds the rank, its mesh position and the step to the error message, on the first rank too. Does nothing for an empty
 * message (the rank only waited for the failed one) or for a job of one rank. */
static tri_status name_rank(const tri_training *t, tri_status status) {
  char where[128];
  if (status == TRI_OK || t->mesh.world.size == 1 || tri_status_message()[0] == '\0') return status;
  return tri_fail(status, "rank %d (%s), at step %ld: %s", t->mesh.world.rank,
                  tri_mesh_describe(&t->mesh.shape, t->mesh.world.rank, where, sizeof where),
                  (long)t->progress.step + 1, tri_status_message());
}

/* Sends the rank's number, process and place in the mesh to the parent process, in case the rank dies without a
 * message. The first rank also sends the current step. */
static void introduce(const tri_training *t) {
  char place[128];
  tri_log_to_parent("rank %d %ld %s", t->mesh.world.rank, (long)getpid(),
                    tri_mesh_describe(&t->mesh.shape, t->mesh.world.rank, place, sizeof place));
  if (tri_training_is_rank0(t)) tri_log_to_parent("step %ld", (long)t->progress.step);
}

tri_status tri_training_watch(tri_training *t) {
  introduce(t);
  TRI_TRY(tri_timing_plan(&t->timing, &t->mesh, t->device, t->config->precision, t->progress.step,
                          tri_training_last_step(t)));
  TRI_TRY(tri_path_join(t->flight, t->config->output, "flight"));
  return tri_watchdog_start(&t->mesh, t->flight, t->config->hang_timeout, &t->watchdog);
}

/* Only warns if the flight report cannot be written. */
tri_status tri_training_name_failure(const tri_training *t, tri_status status) {
  tri_saved_error failure = {TRI_OK, ""};
  tri_error_save(&failure, name_rank(t, status));
  if (t->mesh.world.size == 1 || status == TRI_BUSY) return status; /* the output is locked by another run */
  if (tri_flight_report_write(&t->mesh, t->flight, "") != TRI_OK)
    tri_warn("no flight record: %s", tri_status_message());
  return tri_saved_error_restore(&failure);
}
