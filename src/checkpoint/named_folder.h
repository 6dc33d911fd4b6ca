/* A folder that gets its name only when it is complete. Until then it is called NAME.tmp-MARK, and has a lock that
 * names the writing process. The next command that writes a folder of that name removes the temporary folders of dead
 * processes; a non-empty folder without a lock is not Trireme's, and is left. */
#ifndef TRI_CHECKPOINT_NAMED_FOLDER_H
#define TRI_CHECKPOINT_NAMED_FOLDER_H

#include "files/file.h"
#include "files/folder_lock.h"

typedef struct tri_named_folder {
  char name[TRI_PATH_BYTES], temporary[TRI_PATH_BYTES];
  tri_folder_lock *lock;
} tri_named_folder;

/* Fails with TRI_BAD_USAGE for a name with the extension of a single file of weights (.gguf, .bin, .pt, .safetensors
 * and others). */
tri_status tri_named_folder_check(const char *name);

/* LOCAL. Removes temporary folders of dead processes; makes the temporary folder and missing folders above it, and
 * takes the lock of the temporary folder. */
tri_status tri_named_folder_begin(const char *name, tri_named_folder *out);

/* LOCAL. Flushes the folder (its files must be flushed already) and renames it. If that fails, the temporary
 * folder still exists, and must be dropped. */
tri_status tri_named_folder_finish(tri_named_folder *folder);

/* LOCAL. Removes the temporary folder; does nothing after it was renamed. */
tri_status tri_named_folder_drop(tri_named_folder *folder);

#endif
