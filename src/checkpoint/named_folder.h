/* A folder that has its name at the end alone: until then it is NAME.tmp-MARK, with a lock in it that says who writes
 * there. The next command that writes a folder of that name finds by the lock which of these no process writes any
 * more, and removes them; what is not locked, and not empty, is somebody else's and stays. */
#ifndef TRI_CHECKPOINT_NAMED_FOLDER_H
#define TRI_CHECKPOINT_NAMED_FOLDER_H

#include "base/file.h"
#include "base/folder_lock.h"

typedef struct tri_named_folder {
  char name[TRI_PATH_BYTES], temporary[TRI_PATH_BYTES];
  tri_folder_lock *lock;
} tri_named_folder;

/* LOCAL. Makes the temporary folder, and those above it that are missing. */
tri_status tri_named_folder_begin(const char *name, tri_named_folder *out);

/* LOCAL. Flushes the folder (its files are flushed already) and gives it its name. After a failure it is still there
 * under the other, and to be dropped. */
tri_status tri_named_folder_finish(tri_named_folder *folder);

/* LOCAL. Removes what was begun and not finished; anything else is ignored. */
tri_status tri_named_folder_drop(tri_named_folder *folder);

#endif
