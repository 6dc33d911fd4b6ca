/* Parts of a config.json that several keys describe: rotary embeddings and sliding windows. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_PARTS_H
#define TRI_CHECKPOINT_HUGGINGFACE_PARTS_H

#include "files/json_reader.h"
#include "model/hf_keys.h"
#include "model/model.h"

/* The usual keys of the rotary base and of the share of each head that rotates, at the top of the file and in the
 * object that tri_huggingface_rope_key names. */
#define TRI_HUGGINGFACE_THETA "rope_theta"
#define TRI_HUGGINGFACE_FRACTION "partial_rotary_factor"

/* Returns the key of the object with the scaling of rotary embeddings: "rope_scaling" or "rope_parameters". If the file
 * has both, the first is used unless it is empty, as in transformers (convert_rope_params_to_dict). */
const char *tri_huggingface_rope_key(const tri_json_reader *from);
/* Returns the object with the scaling for layers without a window: the object that tri_huggingface_rope_key names, or,
 * for models whose kinds of layers have their own bases, the entry full_attention of `rope_parameters`. NULL if the
 * file has no such object. */
const json_t *tri_huggingface_rope_object(const tri_json_reader *from, const tri_hf_keys *hf_keys);
/* Returns whether the key `type`, the former name of `rope_type`, is ignored in the object that
 * tri_huggingface_rope_object returns. It is ignored if the object is `rope_scaling` and the model's kinds of layers
 * have their own bases. */
bool tri_huggingface_rope_passes_type(const tri_json_reader *from, const tri_hf_keys *hf_keys);

/* Reads `rope_theta` and `rope_scaling`, or `rope_parameters`; max_sequence and windows must have been read before.
 * Fails with TRI_UNSUPPORTED for a scaling that is not supported, and with TRI_BAD_FILE for a wrong or missing value.
 */
tri_status tri_huggingface_read_rope(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out);
void tri_huggingface_write_rope(const tri_model *model, const tri_hf_keys *hf_keys, json_t *to);

/* Reads `sliding_window` and related keys; num_layers must have been read before. Fails with TRI_UNSUPPORTED for kinds
 * of layers that are not supported, and with TRI_BAD_FILE for a wrong value, or if the keys contradict each other. */
tri_status tri_huggingface_read_window(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out);
void tri_huggingface_write_window(const tri_model *model, const tri_hf_keys *hf_keys, json_t *to);

/* Prints JSON with the fewest digits (15 to 17) with which all numbers are read back exactly: 1e-5, not
 * 1.0000000000000001e-5. Returns NULL if the document cannot be printed; release with free. */
char *tri_huggingface_text(const json_t *document);

#endif
