/* The files of one `trireme prepare` belong together, but no file system can rename ten files at once. They replace the
 * older files as one generation:
 *
 *   FOLDER/.prepare-PID-N/    the files are written here, under their final names
 *   FOLDER/.prepare-whole/    the new name of that folder when all files are on the disk: from then on the new
 *                             generation is valid. Its file `members` lists the files.
 *
 * Then the members are moved to FOLDER one by one, and files that only the old generation had and .prepare-whole are
 * removed. If the process is killed before the rename, the old generation is unchanged; if it is killed later, the next
 * process that reads or writes FOLDER finishes the moves first. */
#ifndef TRI_FILES_FILE_TRANSACTION_H
#define TRI_FILES_FILE_TRANSACTION_H

#include "base/status.h"

#define TRI_FILE_TRANSACTION_TRAIN "train"
#define TRI_FILE_TRANSACTION_VALIDATION "validation"

/* Names of members, "train.bin" and so on, with NULL at the end. A folder may have other files as well. */
extern const char *const tri_file_transaction_names[];

typedef struct tri_file_transaction tri_file_transaction;

/* Creates FOLDER if it does not exist, locks it (fails with TRI_BAD_USAGE if another writer has the lock), finishes the
 * transaction of a killed process, removes temporary files of killed processes, and makes the folder for the new files.
 */
tri_status tri_file_transaction_begin(const char *folder, tri_file_transaction **out);

/* Returns the folder for the new files. Only files with a name of tri_file_transaction_names are members. */
const char *tri_file_transaction_folder(const tri_file_transaction *generation);

/* Replaces the old generation. All members must be on the disk. After a failure the old generation is kept, or, if
 * members were moved already, the next process that uses FOLDER finishes the moves. */
tri_status tri_file_transaction_commit(tri_file_transaction *generation);

/* Removes files that were not committed, releases the lock, and removes FOLDER if tri_file_transaction_begin made it
 * and it is empty. NULL is ignored. */
void tri_file_transaction_destroy(tri_file_transaction *generation);

/* Finishes, for a reader, the moves of a generation in FOLDER whose writer was killed. Fails with TRI_IO_FAILED if that
 * is impossible (a read-only file system); FOLDER then has files of two generations, and the message has advice. A
 * writer that is moving files is awaited, 30 s at most; then fails with TRI_BAD_FILE. Several processes may call this
 * at once. */
tri_status tri_file_transaction_finish(const char *folder);

/* Calls tri_file_transaction_finish for the folder of `path`, if the last part of `path` with `suffix` after it is the
 * name of a member. */
tri_status tri_file_transaction_finish_for(const char *path, const char *suffix);

#endif
