/* Finds a job that is stuck, and says which rank it is stuck on.
 *
 * Every rank has a thread that looks at its flight recorder. Where nothing has begun or ended for `timeout_s` seconds,
 * that thread asks all others, through files in a folder that all ranks see, what they are doing; the others' threads
 * answer whatever their ranks are stuck in, unless the process is gone, or stopped. From the answers it follows who
 * waits for whom to the rank that does not wait, says so, and ends the job. */
#ifndef TRI_RECOVERY_WATCHDOG_H
#define TRI_RECOVERY_WATCHDOG_H

#include "comm/mesh.h"

typedef struct tri_watchdog tri_watchdog;

/* COLLECTIVE. `folder` is made; what was in it is moved to FOLDER-last. With one rank or a timeout_s of 0 nothing
 * watches, and *out is NULL. The mesh outlives the watchdog; stop it with tri_watchdog_stop. */
tri_status tri_watchdog_start(const tri_mesh *mesh, const char *folder, double timeout_s, tri_watchdog **out);
void tri_watchdog_stop(tri_watchdog *watchdog);

#endif
