/* Identity of a run: its name, which it gets when it begins, the fingerprints of the files that its results depend on,
 * and the checkpoint from which it was last resumed. The name is stored in OUTPUT/run.json and in everything that
 * belongs to the run: its checkpoints and its snapshots in memory. So files or memory that another run left under the
 * same path are never used. */
#ifndef TRI_RUN_IDENTITY_H
#define TRI_RUN_IDENTITY_H

#include "base/clock.h"
#include "checkpoint/base_signature.h"
#include "checkpoint/checkpoint.h"
#include "data/fingerprint.h"
#include "data/mixture.h"
#include "run/run_config.h"

typedef struct tri_identity {
  char run[TRI_FINGERPRINT_BYTES];  /* the run's name: 32 hexadecimal digits */
  bool is_new;                      /* whether the run got its name in this process */
  char begun[TRI_CLOCK_TEXT_BYTES]; /* time of day when the run got its name (base/clock.h); "": unknown */
  /* The folder from which `--resume FOLDER` last resumed the run, and the step of that checkpoint. The run resumes
   * there again until it has saved a later checkpoint. "": none. */
  char from[TRI_PATH_BYTES];
  int64_t from_step;
  /* Fingerprints (data/fingerprint.h); "" if unknown. `tokenizer_before` is the fingerprint that older versions of the
   * program computed for the same tokenizer. `train` has one for each source, in the order of data.train. */
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

/* COLLECTIVE. Reads the identity of the run in config->output from its run.json. If that file is missing, takes the
 * name from the newest checkpoint; without a checkpoint, or with `anew`, creates a new name. With an adapter, computes
 * the signature of its base; fails with TRI_BAD_CONFIG if the base is itself an adapter, and with TRI_BAD_FILE if it
 * has changed and `allow_change` does not allow that. Then writes run.json. The caller has set the fingerprints. */
tri_status tri_identity_open(const tri_group *world, const tri_run_config *config, bool anew, tri_identity *out);

/* LOCAL, on the first rank. Records in run.json that the run resumes from the checkpoint `folder`, which has `step`
 * steps. */
tri_status tri_identity_note_from(tri_identity *identity, const tri_run_config *config, const char *folder,
                                  int64_t step);

/* LOCAL. Returns the object in which a checkpoint records the run that made it; recovery/save.c adds the base of an
 * adapter. The caller owns the object. */
json_t *tri_identity_print(const tri_identity *identity, const tri_run_config *config);

#endif
