/* Names and lifetimes of checkpoint folders below a root. Only the files of this folder change them; the board lists
 * them. */
#ifndef TRI_CHECKPOINT_FOLDER_H
#define TRI_CHECKPOINT_FOLDER_H

#include "base/status.h"
#include "files/file.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TRI_FILE_CONFIG "config.json"
#define TRI_FILE_ADAPTER_CONFIG "adapter_config.json"
#define TRI_FILE_MODEL "model.safetensors"
#define TRI_FILE_OPTIMIZER "optimizer.safetensors"
#define TRI_FILE_TOKENIZER "tokenizer.json"
#define TRI_FILE_STATE "state.json"
#define TRI_FILE_COMPLETE "COMPLETE"
#define TRI_FILE_PROVEN "PROVEN"       /* empty file: a later step, or an evaluation, from this state was finite */
#define TRI_FILE_BEST "BEST"           /* empty file: no earlier checkpoint was better by evaluation.metric */
#define TRI_LINK_BEST "best"           /* link below the root, to the newest folder that is marked BEST */
#define TRI_FILE_DISPROVED "DISPROVED" /* empty file: every step from this state was bad, until the run gave up */

typedef enum tri_folder_kind {
  TRI_FOLDER_FINAL,     /* step-00000100          */
  TRI_FOLDER_TEMPORARY, /* .tmp-step-00000100-PID */
  TRI_FOLDER_OLD,       /* .old-step-00000100-PID */
} tri_folder_kind;

typedef struct tri_folder {
  tri_folder_kind kind;
  int64_t step;
  char name[64];
} tri_folder;

/* Writes the path of a folder of that kind and step; names of temporary and old folders have the number of this
 * process.
 */
tri_status tri_folder_path(const char *root, tri_folder_kind kind, int64_t step, char path[TRI_PATH_BYTES]);

/* LOCAL. Lists all checkpoint folders below root: final ones first, each kind from the highest step down. The list of a
 * missing root is empty. Release *out with tri_free. */
tri_status tri_folder_list(const char *root, tri_folder **out, int64_t *count);
/* LOCAL. Lists the checkpoint folders in an open folder, as tri_folder_list does, and closes the folder. */
tri_status tri_folder_list_open(DIR *directory, tri_folder **out, int64_t *count);

/* LOCAL. Renames a final folder to an old one; tri_folder_clear removes it. */
tri_status tri_folder_retire(const char *root, int64_t step);

/* LOCAL, only for the one writer below root. Removes all folders of a kind (temporary or old). */
tri_status tri_folder_clear(const char *root, tri_folder_kind kind);

/* tri_folder_is_complete returns whether a folder is final, exists and has COMPLETE; tri_folder_has returns whether it
 * has a mark (TRI_FILE_PROVEN, ...). */
bool tri_folder_is_complete(const char *root, const tri_folder *folder);
bool tri_folder_has(const char *root, const tri_folder *folder, const char *mark);

/* LOCAL. Writes an empty file named `mark` to the final folder of a step, and flushes it; does nothing if the file
 * exists. */
tri_status tri_folder_mark(const char *root, int64_t step, const char *mark);

/* LOCAL. Updates ROOT/best, then removes all complete checkpoints but the newest `keep`, and all old folders. Three are
 * always kept, even if they are older: the one of `newest_step`, which counts as the first of the `keep`, the newest
 * proven one, and the newest one that is marked as the best. All others that are disproved are removed. keep 0 keeps
 * all. */
tri_status tri_folder_keep(const char *root, int64_t newest_step, int64_t keep);

#endif
