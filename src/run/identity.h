/* What a run is: a name that it gets when it begins, and what its answer depends on beside the numbers of its
 * configuration. The name stands in OUTPUT/run.json, and in all that belongs to the run: its checkpoints, its snapshots
 * in memory. So what another run left, under the same path or in the same memory, is never taken for this one's.
 *
 * What a run loads (a checkpoint, weights of Hugging Face's) is compared with the run: every setting of the model that
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
  bool is_new;                     /* it got its name just now */
  /* The folder with which `--resume FOLDER` last began it, and its step: until something later is saved, that is where
   * the run goes on. "" if it was none. */
  char from[TRI_PATH_BYTES];
  int64_t from_step;
  /* Fingerprints (data/fingerprint.h); "" if missing. Those of `train` are in the order of data.train. */
  char tokenizer[TRI_FINGERPRINT_BYTES], tokenizer_before[TRI_FINGERPRINT_BYTES],
      train[TRI_MOST_SOURCES][TRI_FINGERPRINT_BYTES];
  char validation[TRI_FINGERPRINT_BYTES];
  char base_type[16]; /* "bf16", ...: of the weights that `init` named when the run began; "" without them */
  /* Of a run with an adapter: where its base's weights lie, and what they are. */
  char base[TRI_PATH_BYTES];
  tri_base_signature signature;
  uint64_t base_files; /* names, sizes and times of its files when their checksums were computed (tensor_sums.h) */
} tri_identity;

/* COLLECTIVE. Fills in the name of the run in config->output and where it goes on from, from its run.json or, if
 * that is missing or with `anew`, a new one, which is written there. The fingerprints are the caller's, set before. */
tri_status tri_identity_open(const tri_group *world, const tri_run_config *config, bool anew, tri_identity *out);

/* LOCAL, on the first rank. Notes that the run goes on from this folder, at this step. */
tri_status tri_identity_note_from(tri_identity *identity, const tri_run_config *config, const char *folder,
                                  int64_t step);

/* LOCAL. What a checkpoint says of the run that made it. A new object. */
json_t *tri_identity_print(const tri_identity *identity, const tri_run_config *config);

typedef enum tri_resume_kind {
  TRI_RESUME_RUN,     /* the newest checkpoint of this output: it must be this run's */
  TRI_RESUME_BRANCH,  /* a checkpoint that was named, to go on from */
  TRI_RESUME_WEIGHTS, /* weights to begin with: the corpus may be any */
} tri_resume_kind;

/* LOCAL. Compares a checkpoint or a Hugging Face folder with the run. TRI_BAD_CONFIG names every key that differs and
 * is not allowed to. Differences that change no function are logged. */
tri_status tri_identity_compare(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint *checkpoint, tri_resume_kind how);

/* LOCAL. The number of the sample that a run goes on with from a checkpoint: that behind the last one taken, whatever
 * the batch was; where samples have become longer or shorter (`allow_change`), the one behind as many tokens. */
int64_t tri_identity_next_sample(const tri_run_config *config, const tri_checkpoint_state *state);

/* LOCAL. Sets `out` to the first key with which the validation loss is another measure than it was when the checkpoint
 * was saved (objective, metric, validation data), so that losses before and after do not compare; "": the same measure.
 */
enum { TRI_IDENTITY_KEY_BYTES = 64 };
void tri_identity_other_measure(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint_state *state, char out[TRI_IDENTITY_KEY_BYTES]);

/* LOCAL. Whether the checkpoint's optimizer states are of the run's optimizers. */
bool tri_identity_same_optimizer(const tri_run_config *config, const tri_checkpoint *checkpoint);

/* LOCAL. Checks that `allow_change` names keys that are compared; the message begins with the key. */
tri_status tri_identity_check_allowed(const char *allow_change);

#endif
