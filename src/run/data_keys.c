#include "run/data_keys.h"

#include "run/run_config.h"

#define DOCUMENT_USES(X)                                                                                               \
  X("auto", TRI_DOCUMENTS_AUTO) X("joined", TRI_DOCUMENTS_JOINED) X("masked", TRI_DOCUMENTS_MASKED)
TRI_CONFIG_WORDS(document_uses, tri_document_use, DOCUMENT_USES)
#define PACKING_USES(X)                                                                                                \
  X("auto", TRI_PACKING_AUTO) X("windows", TRI_PACKING_WINDOWS) X("documents", TRI_PACKING_DOCUMENTS)
TRI_CONFIG_WORDS(packing_uses, tri_packing_use, PACKING_USES)
#define TOO_LONG_USES(X)                                                                                               \
  X("auto", TRI_TOO_LONG_AUTO)                                                                                         \
  X("cut", TRI_TOO_LONG_CUT)                                                                                           \
  X("truncate", TRI_TOO_LONG_TRUNCATE)                                                                                 \
  X("drop", TRI_TOO_LONG_DROP)                                                                                         \
  X("refuse", TRI_TOO_LONG_REFUSE)                                                                                     \
  X("truncate_prompt", TRI_TOO_LONG_TRUNCATE_PROMPT)
TRI_CONFIG_WORDS(too_long_uses, tri_too_long, TOO_LONG_USES)

/* Offsets are into tri_run_config. */
#define KEY(NAME, MEMBER, TYPE) .name = NAME, .type = TYPE, .offset = offsetof(tri_run_config, MEMBER)
#define COUNT(NAME, MEMBER, LOW, HIGH) KEY(NAME, MEMBER, TRI_CONFIG_INT), .range = {.low = LOW, .high = HIGH}
#define PATH(NAME, MEMBER) KEY(NAME, MEMBER, TRI_CONFIG_PATH), .bytes = sizeof(((tri_run_config *)0)->MEMBER)
#define CHOICE(NAME, MEMBER, WORDS) KEY(NAME, MEMBER, TRI_CONFIG_CHOICE), .words = WORDS

static const tri_config_key source_keys[] = {
    {TRI_CONFIG_KEY(tri_train_source, path, TRI_CONFIG_PATH), .bytes = sizeof(((tri_train_source *)0)->path),
     .example = "corpus/train", .help = "prefix of a .bin and .idx"},
    {TRI_CONFIG_KEY(tri_train_source, weight, TRI_CONFIG_DOUBLE), .fallback = "0.0",
     .range = {.low = 0, .high = TRI_CONFIG_MOST},
     .help = "its share of the samples, as sequences, is weight / all weights; 0 for all: by their sizes"},
    {TRI_CONFIG_KEY(tri_train_source, label_weight, TRI_CONFIG_DOUBLE), .fallback = "1.0",
     .range = {.low = 1e-6, .high = 1e6}, .help = "loss weight of each of its labels, relative to other sources"},
};
static const tri_config_table source_table = TRI_CONFIG_TABLE("run file", source_keys);

static const tri_config_key chat_set_keys[] = {
    {TRI_CONFIG_KEY(tri_chat_variable, text, TRI_CONFIG_STRING), .bytes = sizeof(((tri_chat_variable *)0)->text),
     .example = "enable_thinking=false", .help = "NAME=VALUE"},
};
static const tri_config_table chat_set_table = TRI_CONFIG_TABLE("run file", chat_set_keys);

static const tri_config_key data_keys[] = {
    TRI_CONFIG_ROW(SAMPLES | TRI_CHANGE_CONTENT, KEY("train", data.train, TRI_CONFIG_LIST), .table = &source_table,
                   .plain = "path", .in_line = true, .bytes = sizeof(tri_train_source),
                   .count = offsetof(tri_run_config, data.num_train), .range = {.low = 0, .high = TRI_MOST_SOURCES},
                   .example = "corpus/train",
                   .help = "prefix of the .bin and .idx to train on, relative to the current directory, or several, "
                           "with weights or mixed by size"),
    TRI_CONFIG_ROW(LEARNING, PATH("validation", data.validation), .fallback = "",
                   .help = "prefix of the validation corpus; empty: none"),
    TRI_CONFIG_ROW(
        SAMPLES | TRI_CHANGE_ANSWERS | TRI_CHANGE_CONTENT, PATH("preferences", data.preferences), .fallback = "",
        .help = "instead of train: prefix of a corpus of preferences (trireme prepare --preferences), or their JSON "
                "lines; empty: none"),
    TRI_CONFIG_ROW(LEARNING, PATH("validation_preferences", data.validation_preferences), .fallback = "",
                   .help = "preferences that are held out, the same way; empty: none"),
    TRI_CONFIG_ROW(
        SAMPLES | TRI_CHANGE_CONTENT, PATH("prompts", data.prompts), .fallback = "",
        .help =
            "with objective.name grpo, instead of train: JSON lines {\"prompt\": TEXT or MESSAGES, \"answer\": TEXT}"),
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, PATH("validation_prompts", data.validation_prompts), .fallback = "",
                   .help = "prompts that are held out, in the same form; empty: none"),
    TRI_CONFIG_ROW(SAMPLES, KEY("skip_long", data.skip_long, TRI_CONFIG_BOOL), .fallback = "false",
                   .help = "leave out prompts for which data.sequence has no room; else they are errors"),
    TRI_CONFIG_ROW(SAMPLES, KEY("chat_set", data.chat_set, TRI_CONFIG_LIST), .table = &chat_set_table, .plain = "text",
                   .in_line = true, .bytes = sizeof(tri_chat_variable),
                   .count = offsetof(tri_run_config, data.num_chat_set),
                   .range = {.low = 0, .high = TRI_MOST_CHAT_VARIABLES}, .derived = "none",
                   .help = "variables of the chat template of prompts that are messages: [enable_thinking=false]"),
    TRI_CONFIG_ROW(ANSWERS | TRI_CHANGE_CONTENT, PATH("tokenizer", data.tokenizer), .fallback = "",
                   .help = "tokenizer.json; empty: the one in the folder of `train`, if it exists"),
    TRI_CONFIG_ROW(SAMPLES | TRI_CHANGE_ANSWERS | TRI_CHANGE_MEASURE, COUNT("sequence", data.sequence, 1, 1 << 30),
                   .is_length = true, .derived = "model.max_sequence",
                   .help = "tokens in one sample; required if max_sequence is above 8192"),
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, COUNT("ignore_token", data.ignore_token, -1, INT32_MAX),
                   .fallback = "-1", .help = "labels with this id (padding) do not count in the loss; -1: unused"),
    TRI_CONFIG_ROW(SAMPLES | TRI_CHANGE_ANSWERS, COUNT("max_samples", data.max_samples, 0, INT64_C(1) << 40),
                   .fallback = "0",
                   .help = "train on the first samples of the corpus only, as they are after packing; 0: on all"),
    TRI_CONFIG_ROW(
        SAMPLES | TRI_CHANGE_MEASURE, CHOICE("documents", data.documents, document_uses), .fallback = "auto",
        .help =
            "masked: documents of a sequence do not attend to each other, and each has positions from 0; or joined; "
            "auto: masked if a corpus has a mask (conversations)"),
    TRI_CONFIG_ROW(
        SAMPLES | TRI_CHANGE_MEASURE, CHOICE("packing", data.packing, packing_uses), .fallback = "auto",
        .help = "documents: whole documents are packed into sequences, best-fit; or windows of the text, cut anywhere; "
                "auto: documents if a corpus has a mask"),
    TRI_CONFIG_ROW(
        SAMPLES | TRI_CHANGE_ANSWERS | TRI_CHANGE_MEASURE, CHOICE("too_long", data.too_long, too_long_uses),
        .fallback = "auto",
        .help = "packing documents: what to do with documents longer than a sequence: cut into pieces, truncate (keeps "
                "the beginning) or drop; preferences: refuse, drop or truncate_prompt (cuts the beginning of prompts); "
                "auto: truncate if a corpus has a mask, refuse of preferences, else cut"),
    TRI_CONFIG_ROW(FREE, KEY("show_example", data.show_example, TRI_CONFIG_BOOL), .fallback = "true",
                   .help =
                       "print the first conversation or pair of preferences when a run begins, with the learnt text "
                       "marked"),
};
const tri_config_table tri_data_table = TRI_CONFIG_TABLE("run file", data_keys);

bool tri_run_config_find_documents(const char *word, tri_document_use *out) { return document_uses_find(word, out); }

bool tri_run_config_find_packing(const char *word, tri_packing_use *out) { return packing_uses_find(word, out); }

const char *tri_run_config_documents(tri_document_use use) { return document_uses_word(use); }

const char *tri_run_config_packing(tri_packing_use use) { return packing_uses_word(use); }

bool tri_run_config_find_too_long(const char *word, tri_too_long *out) { return too_long_uses_find(word, out); }

const char *tri_run_config_too_long(tri_too_long use) { return too_long_uses_word(use); }
