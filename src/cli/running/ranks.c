#include "cli/running/ranks.h"

#include "base/log.h"
#include "base/parent.h"
#include "base/stop.h"
#include "comm/agreement.h"
#include "comm/placement.h"
#include "launch/launcher.h"

#include <stdio.h>
#include <unistd.h>

static const double SILENCE_S = 600; /* hang_timeout_s of the job; ranks that are alive always send heartbeats */

tri_status tri_ranks_end(tri_status status) {
  if (status == TRI_OK || tri_comm_size() == 1) {
    tri_comm_close();
    return status;
  }
  if (status != TRI_INTERRUPTED) tri_comm_fail(status);
  if (tri_status_message()[0] != '\0') tri_log_failure(status, tri_status_message());
  tri_comm_close(); /* the message is logged first, because a launcher kills the other ranks after the first exit */
  return tri_fail(status, "%s", "");
}

void tri_ranks_defer_stop(void) {
  if (tri_comm_is_started_alone()) tri_stop_defer("interrupted twice, so it ends at once");
}

tri_status tri_ranks_agree(const tri_group *group, tri_status status) {
  if (status != TRI_OK && group->rank > 0 && tri_status_message()[0] != '\0')
    status = tri_fail(status, "rank %d: %s", group->rank, tri_status_message());
  return tri_common_status(group, status);
}

/* Discards the output and the logs of this rank. All ranks except the first call it. */
static void discard_output(void) {
  (void)!freopen("/dev/null", "we", stdout);
  tri_log_set_quiet();
}

static tri_status join_and_work(const tri_ranks_work *work) {
  int threads = 0;
  TRI_TRY(tri_comm_open());
  TRI_TRY(tri_placement_apply(&threads));
  const tri_group world = tri_group_world();
  tri_log_to_parent("rank %d %ld ", world.rank, (long)getpid());
  if (world.rank == 0) TRI_TRY(tri_parent_use_streams());
  if (world.rank > 0) discard_output();
  return work->work(work->context, &world, threads);
}

tri_status tri_ranks_run(const tri_ranks_work *work) {
  const bool unsaid = work->ranks == 0 && tri_comm_is_started_alone();
  const int64_t asked = unsaid && work->tensor > 1 ? work->tensor : work->ranks;
  const int64_t ranks = tri_launch_is_rank() ? 0 : asked;
  if (ranks > 1 && work->tensor > 1 && ranks % work->tensor != 0) {
    return tri_fail(TRI_BAD_USAGE, "-n %ld is not a multiple of --tensor %ld: a replica has %ld ranks", (long)ranks,
                    (long)work->tensor, (long)work->tensor);
  }
  if (ranks > 1) {
    const tri_launch_options options = {.ranks = ranks, .hang_timeout_s = SILENCE_S, .gives_streams = true};
    return tri_launch(&options, work->arguments);
  }
  TRI_TRY(tri_stop_listen(tri_comm_is_started_alone() ? work->stop_now : NULL));
  return tri_ranks_end(join_and_work(work));
}
