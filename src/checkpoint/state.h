/* state.json and COMPLETE: the progress of a run, and sizes and checksums of the files of its checkpoint. Used by the
 * files of this folder only.
 *
 *   { "format": "trireme checkpoint", "version": 2, "step": 100, "samples": 3200, "tokens": 3276800, "seed": "1234",
 *     "config": "model: ...", "progress": {...},
 *     "files": {
 *       "config.json":       {"bytes": 812, "xxh3": "b1946ac92492d234"},
 *       "model.safetensors": {"bytes": 497774208, "header": "...", "tensors": {"transformer.wte.weight": "...", ...}} }
 * }
 *
 * Checksums are XXH3, 64 bits, and for tensors those of element_sum.h, in hexadecimal; the seed is a string since it
 * may not fit into a JSON integer. COMPLETE is one line: state.json BYTES XXH3. */
#ifndef TRI_CHECKPOINT_STATE_H
#define TRI_CHECKPOINT_STATE_H

#include "base/status.h"
#include "checkpoint/checkpoint.h"

/* LOCAL. Writes state.json and then COMPLETE into a folder. `files` is an object as above, borrowed. */
tri_status tri_state_save(const char *folder, const tri_checkpoint_state *state, json_t *files);

/* LOCAL. Reads and checks state.json and COMPLETE. The state points into *document, which the caller releases with
 * json_decref. Fails with TRI_BAD_FILE if a file is missing or damaged, or if the two do not match, and with
 * TRI_UNSUPPORTED for another version of the format. */
tri_status tri_state_load(const char *folder, json_t **document, tri_checkpoint_state *out);

/* LOCAL. Reads state.json and COMPLETE as tri_state_load does, if the folder has them; for a Hugging Face folder, which
 * has neither, *document is set to NULL. Fails with TRI_BAD_FILE if the folder has only one of state.json and COMPLETE.
 */
tri_status tri_state_load_any(const char *folder, json_t **document, tri_checkpoint_state *out);

/* The part of a checkpoint that a rank verifies. */
typedef struct tri_state_scope {
  int rank, ranks; /* the rank reads part `rank` of `ranks` nearly equal parts of the bytes, and all headers */
  bool tensors; /* whether to read the tensors; if not, only the sizes and headers of the tensors' files are compared */
  bool optimizer; /* whether to verify the optimizer's files as well; if not, these may be missing */
} tri_state_scope;

/* LOCAL. Compares the files of the folder with the document of its state. Fails with TRI_BAD_FILE if one differs, or if
 * a file that readers use is not in the document. */
tri_status tri_state_verify(const char *folder, const json_t *document, const tri_state_scope *scope);

/* LOCAL. Finds the entry of a file in the document, which owns it; fails with TRI_BAD_FILE if there is no entry. */
tri_status tri_state_facts(const char *folder, const json_t *document, const char *name, const json_t **out);

/* LOCAL. Compares the content of a file without tensors, which the caller has read, with the document; fails with
 * TRI_BAD_FILE if it differs. */
tri_status tri_state_verify_content(const char *folder, const json_t *document, const char *name, const void *content,
                                    size_t bytes);

/* LOCAL. Loads the document of a folder and compares the content of a file with it, as tri_state_verify_content does.
 * Does nothing for a Hugging Face folder, which has no document. */
tri_status tri_state_verify_read(const char *folder, const char *name, const void *content, size_t bytes);

/* tri_state_checksum converts a checksum to its form in state.json, and tri_state_parse_checksum converts it back; it
 * returns false if the value is not a checksum. */
json_t *tri_state_checksum(uint64_t checksum);
bool tri_state_parse_checksum(const json_t *value, uint64_t *out);

#endif
