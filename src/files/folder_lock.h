/* One writer of a folder, on local and on shared file systems.
 *
 * FOLDER/LOCK names the writer: host, process and its start, batch job. The file survives the death of its owner, so a
 * process that finds a lock must decide whether its owner is alive:
 *
 *  - An owner on this host is looked up: a process with the owner's number and start is alive, even if stopped.
 *  - An owner on another host touches LOCK every few seconds. It is dead after a minute without a touch, by the clock
 *    of the file system, which is the only clock that both hosts share.
 *  - An owner of an earlier start of the same batch job is dead: the batch system (or `-n`) has ended it.
 *
 * A dead owner's lock is taken over, with a line in the log. An owner that was only disconnected finds its lock taken
 * at the next touch or check, and stops. */
#ifndef TRI_FILES_FOLDER_LOCK_H
#define TRI_FILES_FOLDER_LOCK_H

#include "base/status.h"

#include <stdbool.h>

typedef struct tri_folder_lock tri_folder_lock;

/* An environment variable by which a restarted job recognises locks of its earlier starts: "NAME START", set by the
 * program that restarts it. The job ids of Slurm, PBS, LSF and Flux are used as well. */
#define TRI_JOB_VARIABLE "TRIREME_JOB"

/* LOCAL. Takes the lock of an existing folder. Fails with TRI_BUSY, which names the owner, if the owner is alive; an
 * owner on this host first has ten seconds to end. A lock of another host is watched, for a minute at most, until its
 * owner touches it or counts as dead. A thread of this process then touches the lock every five seconds. Release with
 * tri_folder_lock_release. */
tri_status tri_folder_lock_acquire(const char *folder, tri_folder_lock **out);

/* LOCAL. Fails with TRI_BUSY if another process has taken the lock over, or the lock was removed: the caller must stop
 * writing. */
tri_status tri_folder_lock_check(const tri_folder_lock *lock);

/* Returns whether a touch has detected that the lock is lost; cheap enough for every step. */
bool tri_folder_lock_is_lost(const tri_folder_lock *lock);

/* LOCAL. Returns whether a folder that was once locked for writing is abandoned: its owner is dead, or is on another
 * host and has not touched the lock for ten minutes. A folder without a lock is abandoned if it is empty and at least
 * ten minutes old. Does not wait. */
bool tri_folder_lock_is_left(const char *folder);

/* LOCAL. Removes the lock if it still belongs to this process, and releases it. NULL is ignored. */
void tri_folder_lock_release(tri_folder_lock *lock);

#endif
