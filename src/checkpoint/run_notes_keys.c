/* The configuration keys that the notes of a checkpoint repeat. */
#include "checkpoint/run_notes.h"

#include <string.h>

const char *const tri_run_notes_keys[TRI_NUM_NOTES] = {
    [TRI_NOTE_SEQUENCE] = "data.sequence",   [TRI_NOTE_IGNORE_TOKEN] = "data.ignore_token",
    [TRI_NOTE_DOCUMENTS] = "data.documents", [TRI_NOTE_PACKING] = "data.packing",
    [TRI_NOTE_TOO_LONG] = "data.too_long",
};

bool tri_run_notes_is_key(const char *key) {
  for (int k = 0; k < TRI_NUM_NOTES; k++) {
    if (strcmp(key, tri_run_notes_keys[k]) == 0) return true;
  }
  return false;
}
