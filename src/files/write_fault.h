/* The reason why the system refused a write. */
#ifndef TRI_FILES_WRITE_FAULT_H
#define TRI_FILES_WRITE_FAULT_H

/* Returns the text after "cannot write PATH: " for an errno: strerror's, and what to do if the disk is full or a limit
 * is reached. Valid until the next strerror in this thread. */
const char *tri_write_fault(int error);

#endif
