/* Detects that a job hangs, and names the rank that it waits for.
 *
 * Every rank has a thread that looks at its flight recorder. If nothing has begun or ended for `timeout_s` seconds, the
 * thread asks the threads of all other ranks for a flight report, through files in a folder that all ranks see. These
 * answer even while their ranks hang, unless the process is gone or stopped. The thread then follows the chain of ranks
 * that wait for each other to its end. If the rank at the end is only slow, the thread waits for another `timeout_s`
 * seconds; else it reports this rank and ends the job. */
#ifndef TRI_RECOVERY_WATCHDOG_H
#define TRI_RECOVERY_WATCHDOG_H

#include "comm/mesh.h"

typedef struct tri_watchdog tri_watchdog;

/* COLLECTIVE. Creates `folder`, and starts the thread of this rank. An existing folder that is not empty is renamed
 * to FOLDER-last. With timeout_s 0, no thread is started and *out is NULL; with one rank, no folder is created,
 * either. The mesh must outlive the watchdog. Stop it with tri_watchdog_stop. */
tri_status tri_watchdog_start(const tri_mesh *mesh, const char *folder, double timeout_s, tri_watchdog **out);
void tri_watchdog_stop(tri_watchdog *watchdog);

#endif
