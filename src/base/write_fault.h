/* Why the system refused a write. */
#ifndef TRI_BASE_WRITE_FAULT_H
#define TRI_BASE_WRITE_FAULT_H

/* What follows "cannot write PATH: ", for an errno: the system's words, and what to do where a limit or a disk is
 * reached. Valid until the next call of strerror in this thread. */
const char *tri_write_fault(int error);

#endif
