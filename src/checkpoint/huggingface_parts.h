/* The parts of a config.json that take more than a key: rotary positions and sliding windows. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_PARTS_H
#define TRI_CHECKPOINT_HUGGINGFACE_PARTS_H

#include "base/json_reader.h"
#include "model/hf_keys.h"
#include "model/model.h"

/* The usual keys of the base and of what rotates of each head, at the top of the file and in that object. */
#define TRI_HUGGINGFACE_THETA "rope_theta"
#define TRI_HUGGINGFACE_FRACTION "partial_rotary_factor"

/* The key of the object that holds how positions are stretched: "rope_scaling" or "rope_parameters". Of both the first
 * counts unless it is empty, as in transformers (convert_rope_params_to_dict). */
const char *tri_huggingface_rope_key(const tri_json_reader *from);
/* What says it of layers without a window, NULL if nothing does: that object, or where kinds of layers have bases of
 * their own the one that `rope_parameters` has for full_attention. */
const json_t *tri_huggingface_rope_object(const tri_json_reader *from, const tri_hf_keys *dialect);
/* Whether that object's `type`, the former name of `rope_type`, is passed over: in `rope_scaling` beside such bases. */
bool tri_huggingface_rope_passes_type(const tri_json_reader *from, const tri_hf_keys *dialect);

/* `rope_theta` and `rope_scaling`, or `rope_parameters`; the longest sequence and windows have been read before. */
tri_status tri_huggingface_read_rope(const tri_json_reader *from, const tri_hf_keys *dialect, tri_model *out);
void tri_huggingface_write_rope(const tri_model *model, const tri_hf_keys *dialect, json_t *to);

/* `sliding_window` and its like; the number of layers has been read before. */
tri_status tri_huggingface_read_window(const tri_json_reader *from, const tri_hf_keys *dialect, tri_model *out);
void tri_huggingface_write_window(const tri_model *model, const tri_hf_keys *dialect, json_t *to);

/* JSON as text, with as few digits as read back to the same numbers: 1e-5, not 1.0000000000000001e-5. NULL if that
 * cannot be; release with free. */
char *tri_huggingface_text(const json_t *document);

#endif
