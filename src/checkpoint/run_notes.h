/* Notes about the run that made some weights: how text became sequences, and the type of the initial weights. A
 * checkpoint has them in its state; an export, a merge and an adapter in an object `trireme` of config.json or
 * adapter_config.json, under the keys of a run file. */
#ifndef TRI_CHECKPOINT_RUN_NOTES_H
#define TRI_CHECKPOINT_RUN_NOTES_H

#include "checkpoint/merged.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_NOTE_BYTES = 24 };

/* The notes that are keys of a run file; tri_run_notes_keys has these keys ("data.sequence"). */
enum {
  TRI_NOTE_SEQUENCE,
  TRI_NOTE_IGNORE_TOKEN,
  TRI_NOTE_DOCUMENTS,
  TRI_NOTE_PACKING,
  TRI_NOTE_TOO_LONG,
  TRI_NUM_NOTES
};
extern const char *const tri_run_notes_keys[TRI_NUM_NOTES];

typedef struct tri_run_notes {
  bool known; /* whether the members below except base_type were found; if not, these have their defaults */
  int64_t sequence, ignore_token; /* values of the run file's keys data.sequence and data.ignore_token */
  char documents[TRI_NOTE_BYTES], packing[TRI_NOTE_BYTES],
      too_long[TRI_NOTE_BYTES];   /* values of data.documents, data.packing and data.too_long */
  char base_type[TRI_NOTE_BYTES]; /* type of the weights that `init` named, or of the adapter's base: "fp32", "bf16",
                                     "fp16"; "": no such weights */
} tri_run_notes;

/* LOCAL. Reads the notes of open weights; for an adapter without notes, those of its base. For every adapter, base_type
 * is the type of its base. */
tri_status tri_run_notes_of(const tri_merged *weights, tri_run_notes *out);
/* LOCAL. Reads the notes of one checkpoint, or of an adapter without its base. */
tri_status tri_run_notes_read(const tri_checkpoint *checkpoint, tri_run_notes *out);

/* Joins the notes of two models that are merged: unless all notes are equal, `notes` becomes unknown; base_type is kept
 * if it is equal in both. */
void tri_run_notes_join(tri_run_notes *notes, const tri_run_notes *other);

/* LOCAL. Adds the notes, if known, to the text of a config.json or adapter_config.json: frees *text, and sets it to the
 * new text. Release *text with tri_free. */
tri_status tri_run_notes_add(const tri_run_notes *notes, char **text);

/* Returns the type of a folder's floating-point weights, as in base_type: "bf16" or "fp16" if all have that type, else
 * "fp32". */
const char *tri_run_notes_type(const tri_checkpoint *checkpoint);

/* Returns whether a key of the object `trireme` is one of the notes. */
bool tri_run_notes_is_key(const char *key);

#endif
