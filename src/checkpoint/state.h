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

/* LOCAL. The same of a folder that may be a plain Hugging Face one, of which *document is NULL. One that has either of
 * state.json and COMPLETE is not plain: TRI_BAD_FILE if it lacks the other. */
tri_status tri_state_load_any(const char *folder, json_t **document, tri_checkpoint_state *out);

/* What a rank compares of a checkpoint. */
typedef struct tri_state_scope {
  int rank, ranks; /* it reads the share of `rank` among `ranks` of the bytes              */
  bool tensors;    /* those of tensors too; else of their files sizes and headers              */
  bool optimizer;  /* the optimizer's files too; else they are not so much as looked for       */
} tri_state_scope;

/* LOCAL. Compares the files of the folder with what the document of its state says. A file that a reader would take
 * and that the document does not list is damage, too. */
tri_status tri_state_verify(const char *folder, const json_t *document, const tri_state_scope *scope);

/* LOCAL. What the document says of a file, borrowed; TRI_BAD_FILE if it says nothing. */
tri_status tri_state_facts(const char *folder, const json_t *document, const char *name, const json_t **out);

/* LOCAL. Compares the content of a file of no tensors, which the caller has read, with what the document says. */
tri_status tri_state_verify_content(const char *folder, const json_t *document, const char *name, const void *content,
                                    size_t bytes);

/* LOCAL. The same of a folder that may be a plain one, which says nothing of its files. */
tri_status tri_state_verify_read(const char *folder, const char *name, const void *content, size_t bytes);

/* A checksum as in the file, and back; false if there is none. */
json_t *tri_state_checksum(uint64_t checksum);
bool tri_state_parse_checksum(const json_t *value, uint64_t *out);

#endif
