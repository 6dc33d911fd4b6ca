/* The keys of Hugging Face's config.json for the models of a family, with the members of tri_model that they set.
 * checkpoint/huggingface.h reads and writes the rows; a family's own functions read and write everything else. */
#ifndef TRI_MODEL_HF_KEYS_H
#define TRI_MODEL_HF_KEYS_H

#include "files/json_reader.h"
#include "model/model.h"

#include <stddef.h>

typedef enum tri_hf_key_kind {
  TRI_HF_KEYS_SIZE,           /* int64_t of at least 1                                                        */
  TRI_HF_KEYS_SIZE_OR_NULL,   /* as SIZE, and null is read as 0; a missing key has the value of tri_hf_keys.absent */
  TRI_HF_KEYS_COUNT,          /* int64_t of at least 0; null is 0                                             */
  TRI_HF_KEYS_FIRST_LAYERS,   /* int64_t n, written as the list [0, 1, ..., n - 1]                            */
  TRI_HF_KEYS_NUMBER,         /* double                                                                       */
  TRI_HF_KEYS_NUMBER_OR_NULL, /* double; null is 0                                                          */
  TRI_HF_KEYS_POSITIVE,       /* double above 0, since 0 in a tri_model means a value that is not given       */
  TRI_HF_KEYS_BOOL,           /* bool                                                                         */
  TRI_HF_KEYS_ACTIVATION,     /* tri_activation                                                               */
  TRI_HF_KEYS_ROPE,           /* `rope_theta` and `rope_scaling`, in the forms of all versions                */
  TRI_HF_KEYS_WINDOW,         /* `sliding_window`, and the keys for its layers: tri_hf_keys_window            */
  TRI_HF_KEYS_FIXED,          /* not a member of tri_model; only one value is supported                       */
  TRI_HF_KEYS_BY_FUNCTION,    /* read and written by tri_hf_keys.read and write                               */
} tri_hf_key_kind;

typedef struct tri_hf_key {
  const char *key; /* NULL ends a table */
  size_t offset;   /* offset of the member in tri_model */
  tri_hf_key_kind kind;
  bool only_read, only_written;
  const char *value,
      *other_value; /* FIXED: `value`, as JSON, is written, and assumed for a missing key; `other_value` is also
                       accepted. ACTIVATION: `value` is the name of tanh GELU; NULL: "gelu_new" */
  const char *what; /* FIXED: the unsupported feature of other values, for the error message */
} tri_hf_key;

/* Sliding windows of a model_type. If `layer_types` is read, it decides; else full_layers, if it is read; else `usual`.
 * The comment of a bool member describes a model_type for which the member is true. */
typedef struct tri_hf_keys_window {
  bool known;          /* models of this type have sliding windows */
  bool switched;       /* the window is used only if `use_sliding_window` is true                              */
  bool by_layer;       /* `layer_types` may list the layers with the window                                    */
  bool layers_first;   /* windows in `layer_types` are used even if `use_sliding_window` is false              */
  bool reads_layers;   /* `layer_types` is read, as with by_layer, but not written                             */
  int64_t full_layers; /* 0: `max_window_layers` is not read. Above 0: the first `max_window_layers` layers have no
                          window; full_layers is the value of a missing key */
  const char *usual;   /* default of tri_model.window_layers; NULL: all                                        */
} tri_hf_keys_window;

/* Keys of rotary embeddings that have other names than in most model types. */
typedef struct tri_hf_keys_rope {
  const char *theta;    /* key of the base; NULL: "rope_theta" */
  const char *fraction; /* key of the share of each head that rotates; NULL: "partial_rotary_factor", which must be 1 */
  const char *local;    /* key of the base in layers with a window; NULL: all layers have the same base */
  /* Original length if the top level of the file has no `original_max_position_embeddings`, whatever the rope object
   * has. 0: the length is that of the rope object, else max_sequence. */
  int64_t original_length;
} tri_hf_keys_rope;

enum { TRI_HF_KEYS_TABLES = 8 };

/* The keys of one `model_type`. A family may have several model types, with other keys for the same models. */
typedef struct tri_hf_keys {
  const char *model_type, *architecture;
  bool (*is)(const tri_model *model); /* Returns whether a model is written with this model_type. NULL: every model is,
                                         unless an earlier entry matches */
  tri_status (*check)(
      const tri_model *model); /* Fails if these keys cannot describe the model. NULL: they can describe all models */
  tri_model absent;            /* values of keys that config.json does not have, as in transformers */
  tri_hf_keys_window window;
  tri_hf_keys_rope rope;
  const tri_hf_key *tables[TRI_HF_KEYS_TABLES]; /* tables of rows, up to NULL */
  /* Read and write values that have no row. `read` is called after the rows are read and before the model is completed.
   * NULL: all values have rows. */
  tri_status (*read)(const tri_json_reader *from, tri_model *out);
  void (*write)(const tri_model *model, json_t *to);
} tri_hf_keys;

#define TRI_HF_KEYS_FIELD(KEY, KIND, FIELD)                                                                            \
  { .key = KEY, .kind = TRI_HF_KEYS_##KIND, .offset = offsetof(tri_model, FIELD) }
/* A second name of a key, which is read but not written. Rows are read in order, so the later of two rows for a member
 * has precedence. */
#define TRI_HF_KEYS_ALSO(KEY, KIND, FIELD)                                                                             \
  { .key = KEY, .kind = TRI_HF_KEYS_##KIND, .offset = offsetof(tri_model, FIELD), .only_read = true }
#define TRI_HF_KEYS_ONLY(KEY, VALUE, WHAT)                                                                             \
  { .key = KEY, .kind = TRI_HF_KEYS_FIXED, .value = VALUE, .what = WHAT, .only_read = true }

#define TRI_HF_KEYS_READS(KEY)                                                                                         \
  { .key = KEY, .kind = TRI_HF_KEYS_BY_FUNCTION }

/* Tables of Llama's keys, which many model types share. Their subjects, in order: sizes of the model; ffn_size; layers
 * and heads; the activation; the epsilon of norms; other keys. */
extern const tri_hf_key tri_hf_keys_llama_sizes[], tri_hf_keys_ffn_size[];
extern const tri_hf_key tri_hf_keys_heads[], tri_hf_keys_hidden_act[], tri_hf_keys_rms_norm_eps[], tri_hf_keys_others[];
#define TRI_HF_KEYS_LLAMA_REST tri_hf_keys_heads, tri_hf_keys_hidden_act, tri_hf_keys_rms_norm_eps, tri_hf_keys_others
/* The key `attention_bias`. */
extern const tri_hf_key tri_hf_keys_attention_bias[];

#endif
