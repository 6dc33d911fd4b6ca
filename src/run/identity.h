/* Identity of a run: its name, which it gets when it begins, and all that its results depend on in addition to the
 * numbers of its configuration. The name is stored in OUTPUT/run.json and in everything that belongs to the run: its
 * checkpoints and its snapshots in memory. So files or memory that another run left under the same path are never used.
 *
 * A checkpoint or Hugging Face weights that a run loads are compared with the run: every setting of the model that
 * changes its function, the tokenizer, the corpus. A difference is refused by its key, with both values, unless the run
 * names the key in `allow_change`. */
#ifndef TRI_RUN_IDENTITY_H
#define TRI_RUN_IDENTITY_H

#include "checkpoint/base_signature.h"
#include "checkpoint/checkpoint.h"
#include "data/fingerprint.h"
#include "data/mixture.h"
#include "run/run_config.h"

typedef struct tri_identity {
  char run[TRI_FINGERPRINT_BYTES]; /* the run's name: 32 hexadecimal digits */
  bool is_new;                     /* the run got its name in this process */
  /* The folder from which `--resume FOLDER` last resumed the run, and its step: the run resumes there until something
   * later is saved. "": none. */
  char from[TRI_PATH_BYTES];
  int64_t from_step;
  /* Fingerprints (data/fingerprint.h); "" if missing. `train` has them in the order of data.train. */
  char tokenizer[TRI_FINGERPRINT_BYTES], tokenizer_before[TRI_FINGERPRINT_BYTES],
      train[TRI_MOST_SOURCES][TRI_FINGERPRINT_BYTES];
  char validation[TRI_FINGERPRINT_BYTES];
  char base_type[16]; /* type of the weights that `init` named when the run began, such as "bf16"; "" without `init` */
  /* Members of a run with an adapter: the folder of its base's weights, and their signature. */
  char base[TRI_PATH_BYTES];
  tri_base_signature signature;
  uint64_t base_files; /* hash of the names, sizes and times of the base's files when their checksums were computed
                          (tensor_sums.h) */
} tri_identity;

/* COLLECTIVE. Sets the name of the run in config->output and where it resumes, from its run.json. If that is missing,
 * or with `anew`, creates a new name and writes it there. The caller has set the fingerprints. */
tri_status tri_identity_open(const tri_group *world, const tri_run_config *config, bool anew, tri_identity *out);

/* LOCAL, on the first rank. Records that the run resumes from this folder, at this step. */
tri_status tri_identity_note_from(tri_identity *identity, const tri_run_config *config, const char *folder,
                                  int64_t step);

/* LOCAL. Returns what a checkpoint records about the run that made it. The caller owns the object. */
json_t *tri_identity_print(const tri_identity *identity, const tri_run_config *config);

typedef enum tri_resume_kind {
  TRI_RESUME_RUN,     /* newest checkpoint of this output, which must be this run's */
  TRI_RESUME_BRANCH,  /* a named checkpoint to resume from */
  TRI_RESUME_WEIGHTS, /* weights to begin with; the corpus may be any */
} tri_resume_kind;

/* LOCAL. Compares a checkpoint or a Hugging Face folder with the run. TRI_BAD_CONFIG names every key that differs and
 * is not allowed to. Differences that change no function are logged. */
tri_status tri_identity_compare(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint *checkpoint, tri_resume_kind how);

/* LOCAL. Returns the number of the sample with which a run continues after a checkpoint: the one after the last sample
 * read, with any batch size. If the length of samples has changed (`allow_change`), it is the sample after the same
 * number of tokens. */
int64_t tri_identity_next_sample(const tri_run_config *config, const tri_checkpoint_state *state);

/* LOCAL. Sets `out` to the first key that makes the validation loss a different measure than when the checkpoint was
 * saved (objective, metric, validation data), so that losses before and after cannot be compared; "": the same measure.
 */
enum { TRI_IDENTITY_KEY_BYTES = 64 };
void tri_identity_other_measure(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint_state *state, char out[TRI_IDENTITY_KEY_BYTES]);

/* LOCAL. Returns whether the checkpoint's optimizer states belong to the run's optimizers. */
bool tri_identity_same_optimizer(const tri_run_config *config, const tri_checkpoint *checkpoint);

/* LOCAL. Checks that `allow_change` names keys that are compared; the message begins with the key. */
tri_status tri_identity_check_allowed(const char *allow_change);

#endif
