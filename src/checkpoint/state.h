/* state.json and COMPLETE: where a run stood, and what the files beside them must be. Used by the files of this folder
 * only.
 *
 *   { "format": "trireme checkpoint", "version": 2, "step": 100, "samples": 3200, "tokens": 3276800, "seed": "1234",
 *     "config": "model: ...", "progress": {...},
 *     "files": {
 *       "config.json":       {"bytes": 812, "xxh3": "b1946ac92492d234"},
 *       "model.safetensors": {"bytes": 497774208, "header": "...", "tensors": {"transformer.wte.weight": "...", ...}} }
 * }
 *
 * Checksums are XXH3, 64 bits, and of tensors those of element_sum.h, in hexadecimal; the seed is a string since it may
 * not fit into a JSON integer. COMPLETE is one line: state.json BYTES XXH3. */
#ifndef TRI_CHECKPOINT_STATE_H
#define TRI_CHECKPOINT_STATE_H

#include "base/status.h"
#include "checkpoint/checkpoint.h"

/* LOCAL. Writes state.json and then COMPLETE into a folder. `files` is an object as above, borrowed. */
tri_status tri_state_save(const char *folder, const tri_checkpoint_state *state, json_t *files);

/* LOCAL. Reads and checks both. The state points into *document, which the caller releases with json_decref. */
tri_status tri_state_load(const char *folder, json_t **document, tri_checkpoint_state *out);

/* LOCAL. Compares the files of the folder with what the document of its state says: sizes and headers of all of them,
 * and of the bytes the share of `rank` of so many; those of tensors only with `tensors`. */
tri_status tri_state_verify(const char *folder, const json_t *document, int rank, int ranks, bool tensors);

/* A checksum as in the file, and back; false where there is none. */
json_t *tri_state_checksum(uint64_t checksum);
bool tri_state_parse_checksum(const json_t *value, uint64_t *out);

#endif
