/* Names and lifetimes of checkpoint folders below a root. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_FOLDER_H
#define TRI_CHECKPOINT_FOLDER_H

#include "base/file.h"
#include "base/status.h"

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
#define TRI_FILE_PROVEN "PROVEN"       /* empty: a later step, or an evaluation, from this state was finite */
#define TRI_FILE_BEST "BEST"           /* empty: no checkpoint before had so low a validation loss */
#define TRI_LINK_BEST "best"           /* below the root: to the newest folder that has the mark */
#define TRI_FILE_DISPROVED "DISPROVED" /* empty: every step from this state was bad, until the run gave up */

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

/* The path of a folder of this process. */
tri_status tri_folder_path(const char *root, tri_folder_kind kind, int64_t step, char path[TRI_PATH_BYTES]);

/* LOCAL. All checkpoint folders below root: final ones first, each kind from the highest step down. A root that does
 * not exist has none. Release *out with tri_free. */
tri_status tri_folder_list(const char *root, tri_folder **out, int64_t *count);
/* LOCAL. The same of a folder that is open, which it closes. */
tri_status tri_folder_list_open(DIR *directory, tri_folder **out, int64_t *count);

/* LOCAL. Moves a final folder out of sight; what is left to do is tri_folder_clear's. */
tri_status tri_folder_retire(const char *root, int64_t step);

/* LOCAL, by who alone writes below root. Removes all folders of a kind (temporary or old). */
tri_status tri_folder_clear(const char *root, tri_folder_kind kind);

/* Whether there is a final folder of that name with COMPLETE in it; with a mark (TRI_FILE_PROVEN, ...) beside it. */
bool tri_folder_is_complete(const char *root, const tri_folder *folder);
bool tri_folder_has(const char *root, const tri_folder *folder, const char *mark);

/* LOCAL. Puts an empty file of that name into the final folder of a step, and flushes it. */
tri_status tri_folder_mark(const char *root, int64_t step, const char *mark);

/* LOCAL. Retires complete checkpoints, oldest first, until `keep` are left, `newest_step` among them whatever its
 * number; then clears them. The newest that is proven stays whatever its number is, and so does the newest that is
 * marked as the best; those that are disproved go. keep 0 keeps all. */
tri_status tri_folder_keep(const char *root, int64_t newest_step, int64_t keep);

#endif
