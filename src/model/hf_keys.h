/* How Hugging Face's config.json says the models of a family: which keys stand for which numbers. Rows are read and
 * written by checkpoint/huggingface.h; what takes more than a row, by functions of the family's own. */
#ifndef TRI_MODEL_HF_KEYS_H
#define TRI_MODEL_HF_KEYS_H

#include "base/json_reader.h"
#include "model/model.h"

#include <stddef.h>

typedef enum tri_hf_key_kind {
  TRI_HF_KEYS_SIZE,           /* int64_t of at least 1                                                        */
  TRI_HF_KEYS_SIZE_OR_NULL,   /* the same, and null is 0; where a key is missing it is as in `absent`         */
  TRI_HF_KEYS_COUNT,          /* int64_t of at least 0; null is 0                                             */
  TRI_HF_KEYS_FIRST_LAYERS,   /* int64_t n, as the list 0, 1, ..., n - 1                                      */
  TRI_HF_KEYS_NUMBER,         /* double                                                                       */
  TRI_HF_KEYS_NUMBER_OR_NULL, /* double; null is 0                                                          */
  TRI_HF_KEYS_POSITIVE,       /* double above 0: in a tri_model 0 stands for what is left out                 */
  TRI_HF_KEYS_BOOL,           /* bool                                                                         */
  TRI_HF_KEYS_ACTIVATION,     /* tri_activation                                                               */
  TRI_HF_KEYS_ROPE,           /* `rope_theta` and `rope_scaling`, in the forms that they had over time        */
  TRI_HF_KEYS_WINDOW,         /* `sliding_window` and what says which layers have it: tri_hf_keys_window      */
  TRI_HF_KEYS_FIXED,          /* no number of a model: only one value is supported                            */
  TRI_HF_KEYS_BY_FUNCTION,    /* read and written by the functions of the dialect                             */
} tri_hf_key_kind;

typedef struct tri_hf_key {
  const char *key; /* NULL ends a table */
  size_t offset;   /* in tri_model */
  tri_hf_key_kind kind;
  bool only_read, only_written;
  const char *value, *other_value; /* ACTIVATION: what GELU by tanh is called, if not gelu_new. FIXED: as JSON. The
                                      first is written, and means the same as none; others may not be but the second */
  const char *what;                /* FIXED: what any other value asks for */
} tri_hf_key;

typedef struct tri_hf_keys_window {
  bool known;
  bool switched;       /* only with `use_sliding_window`                                                       */
  bool by_layer;       /* `layer_types` may say which layers                                                   */
  bool layers_first;   /* what `layer_types` says holds without the switch, too                                  */
  bool reads_layers;   /* the same where they are read, but they are another dialect's to write                */
  int64_t full_layers; /* else the first `max_window_layers` have none; this if that key is missing; 0: not read */
  const char *usual;   /* else these (tri_model.window_layers); NULL: all                                          */
} tri_hf_keys_window;

/* Keys of rotary positions where they are not the usual ones. */
typedef struct tri_hf_keys_rope {
  const char *theta;    /* NULL: "rope_theta" */
  const char *fraction; /* of what rotates of each head; NULL: all of it, and "partial_rotary_factor" must be 1 */
  const char *local;    /* base in layers with a window; NULL: there is none */
  /* `original_max_position_embeddings` where the top of the file has none, whatever else says one; 0: as that says,
   * else the longest sequence. */
  int64_t original_length;
} tri_hf_keys_rope;

enum { TRI_HF_KEYS_TABLES = 8 };

/* One `model_type`. Families may have several, which say the same in other words. */
typedef struct tri_hf_keys {
  const char *model_type, *architecture;
  bool (*is)(const tri_model *model);          /* whether a model is called so; NULL: all that none before is */
  tri_status (*check)(const tri_model *model); /* whether these words suffice; may be empty */
  tri_model absent;                            /* what transformers takes for keys that are missing */
  tri_hf_keys_window window;
  tri_hf_keys_rope rope;
  const tri_hf_key *tables[TRI_HF_KEYS_TABLES]; /* NULL behind the last */
  /* Behind the rows, before the model is completed; and the same in the other direction. NULL: nothing. */
  tri_status (*read)(const tri_json_reader *from, tri_model *out);
  void (*write)(const tri_model *model, json_t *to);
} tri_hf_keys;

#define TRI_HF_KEYS_FIELD(KEY, KIND, FIELD)                                                                            \
  { .key = KEY, .kind = TRI_HF_KEYS_##KIND, .offset = offsetof(tri_model, FIELD) }
/* Another name of a key, which is read where the first is missing. */
#define TRI_HF_KEYS_ALSO(KEY, KIND, FIELD)                                                                             \
  { .key = KEY, .kind = TRI_HF_KEYS_##KIND, .offset = offsetof(tri_model, FIELD), .only_read = true }
#define TRI_HF_KEYS_ONLY(KEY, VALUE, WHAT)                                                                             \
  { .key = KEY, .kind = TRI_HF_KEYS_FIXED, .value = VALUE, .what = WHAT, .only_read = true }

#define TRI_HF_KEYS_READS(KEY)                                                                                         \
  { .key = KEY, .kind = TRI_HF_KEYS_BY_FUNCTION }

/* Of Llama and all that took its words: before and behind the widths of feed-forward parts. The rest is that of layers
 * and heads; the activation; the norm's epsilon; and all others. */
extern const tri_hf_key tri_hf_keys_llama_sizes[], tri_hf_keys_ffn_size[];
extern const tri_hf_key tri_hf_keys_heads[], tri_hf_keys_hidden_act[], tri_hf_keys_rms_norm_eps[], tri_hf_keys_others[];
#define TRI_HF_KEYS_LLAMA_REST tri_hf_keys_heads, tri_hf_keys_hidden_act, tri_hf_keys_rms_norm_eps, tri_hf_keys_others
/* Biases on all products of attention, or none. */
extern const tri_hf_key tri_hf_keys_attention_bias[];

#endif
