/* One writer of a folder, on local and on shared file systems.
 *
 * FOLDER/LOCK says who writes there: host, process and its start, batch job. It survives the death of its owner, so
 * a process that finds one must decide whether it still counts:
 *
 *  - An owner on this host is looked up: a process of that number with that start is alive, stopped or not.
 *  - One of another host cannot be. Its owner touches LOCK every few seconds; the lock is dead once that has not
 *    happened for a minute, by the clock of the file system, which is the only one that both hosts see.
 *  - An earlier start of the same batch job is dead: the batch system (or `-n`) has ended it.
 *
 * A dead owner's lock is taken over, which is said. An owner that was only cut off finds its lock taken at the next
 * touch or check, and stops. */
#ifndef TRI_BASE_FOLDER_LOCK_H
#define TRI_BASE_FOLDER_LOCK_H

#include "base/status.h"

#include <stdbool.h>

typedef struct tri_folder_lock tri_folder_lock;

/* How a start of a job is known to later ones, in the environment: "NAME START", set by what restarts the same job.
 * If it is not set, Slurm's, PBS's, LSF's and Flux's own names are used. */
#define TRI_JOB_VARIABLE "TRIREME_JOB"

/* LOCAL. Takes the lock of an existing folder. Where somebody else is alive in it: TRI_BUSY, naming them. A lock of
 * another host that is not dead yet is watched until it is touched or dead, a minute at most. Release with
 * tri_folder_lock_release. */
tri_status tri_folder_lock_take(const char *folder, tri_folder_lock **out);

/* LOCAL. TRI_BUSY where somebody has taken it over: stop writing. */
tri_status tri_folder_lock_check(const tri_folder_lock *lock);

/* Whether that was found between checks; cheap, may be called at every step. */
bool tri_folder_lock_is_lost(const tri_folder_lock *lock);

/* LOCAL. Whether no process writes any more in a folder that was once locked for writing: its owner is dead, or of
 * another host and silent for ten minutes. One without a lock is left if it is empty and as old. Looks once, without
 * waiting. */
bool tri_folder_lock_is_left(const char *folder);

/* LOCAL. Removes the lock if it is still this one's. NULL is ignored. */
void tri_folder_lock_release(tri_folder_lock *lock);

#endif
