/* What weights say of the run that made them, beside their model: how its text became sequences, and the type of the
 * weights that it began with. A checkpoint has it in its state; an export, a merge and an adapter in an object
 * `trireme` of config.json or adapter_config.json, by the keys of a run file. */
#ifndef TRI_CHECKPOINT_RUN_NOTES_H
#define TRI_CHECKPOINT_RUN_NOTES_H

#include "checkpoint/merged.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_NOTE_BYTES = 24 };

typedef struct tri_run_notes {
  bool known; /* all below but base_type; else they are as nothing says them */
  int64_t sequence, ignore_token;
  char documents[TRI_NOTE_BYTES], packing[TRI_NOTE_BYTES], too_long[TRI_NOTE_BYTES]; /* words of the run file */
  char base_type[TRI_NOTE_BYTES]; /* "fp32", "bf16", "fp16": of the weights that `init` named, or of an adapter's base;
                                     "": no weights */
} tri_run_notes;

/* LOCAL. Of weights that are open. */
tri_status tri_run_notes_of(const tri_merged *weights, tri_run_notes *out);
/* LOCAL. The same of one checkpoint or adapter by itself. */
tri_status tri_run_notes_read(const tri_checkpoint *checkpoint, tri_run_notes *out);

/* What both say: of another model that is merged with the first. */
void tri_run_notes_join(tri_run_notes *notes, const tri_run_notes *other);

/* LOCAL. Puts the notes into the text of a config.json or adapter_config.json, which is replaced; *text is released
 * with tri_free. */
tri_status tri_run_notes_add(const tri_run_notes *notes, char **text);

/* The type of all weights of a folder that have a floating one, as above; the widest where they differ. */
const char *tri_run_notes_type(const tri_checkpoint *checkpoint);

/* Whether a key of the object is one of these. */
bool tri_run_notes_is_key(const char *key);

#endif
