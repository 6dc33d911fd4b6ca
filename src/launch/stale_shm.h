/* Cleans up after killed jobs on this host. */
#ifndef TRI_LAUNCH_STALE_SHM_H
#define TRI_LAUNCH_STALE_SHM_H

/* LOCAL. Removes what remains of Open MPI jobs when all their processes are killed: segments of memory in /dev/shm that
 * no process of this user has open or mapped, and session folders in $TMPDIR (/tmp) whose mpiexec is gone. A file is
 * only removed if this user owns it and its name contains this user and this host (with or without the host's domain).
 * Does nothing in a process namespace that is not the first, where other processes may be invisible. (MPICH unlinks its
 * segments as soon as all ranks have mapped them, and ranks share memory with each other through files without a name.)
 * Failures are ignored: the next start tries again. */
void tri_stale_shm_remove(void);

#endif
