/* The files that one `trireme prepare` leaves in a folder belong together, and no file system renames ten files at
 * once. They are put in place as one generation:
 *
 *   FOLDER/.prepare-PID-N/    where they are written, under the names that they will have
 *   FOLDER/.prepare-whole/    that folder once all of them are on the disk: from here on the new generation counts.
 *                             The file `members` in it lists them.
 *
 * Then the members are moved to FOLDER one by one, what the old generation had and the new one has not is removed, and
 * the folder goes. A process killed before the rename leaves the old generation as it was; one killed after it has left
 * all that is needed to finish, and the next process that reads or writes FOLDER does so first. */
#ifndef TRI_BASE_FILE_TRANSACTION_H
#define TRI_BASE_FILE_TRANSACTION_H

#include "base/status.h"

#define TRI_FILE_TRANSACTION_TRAIN "train"
#define TRI_FILE_TRANSACTION_VALIDATION "validation"

/* The names that a member may have, "train.bin" and so on; NULL ends them. A folder may hold other files too. */
extern const char *const tri_file_transaction_names[];

typedef struct tri_file_transaction tri_file_transaction;

/* Creates FOLDER if it is not there, locks it against others who write to it (TRI_BAD_USAGE if one does), finishes what
 * one that was killed had begun, removes what else it left, and makes the folder to write to. */
tri_status tri_file_transaction_begin(const char *folder, tri_file_transaction **out);

/* The folder to write to; what has a name of tri_file_transaction_names is a member. */
const char *tri_file_transaction_folder(const tri_file_transaction *generation);

/* When all members are on the disk: puts them in place of the old generation. */
tri_status tri_file_transaction_commit(tri_file_transaction *generation);

/* Removes what was not committed, and FOLDER if tri_file_transaction_begin made it and it is empty. */
void tri_file_transaction_destroy(tri_file_transaction *generation);

/* For readers: if FOLDER holds a generation whose writer was killed while it was put in place, finishes that. Where
 * this cannot be done (a file system that may only be read) what is in FOLDER is a mix of two: the message says what to
 * do. Many may call it at once. */
tri_status tri_file_transaction_finish(const char *folder);

/* The same for the folder in which a path lies, if its last part is a member's name followed by `suffix`. */
tri_status tri_file_transaction_finish_for(const char *path, const char *suffix);

#endif
