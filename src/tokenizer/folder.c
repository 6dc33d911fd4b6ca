#include "tokenizer/folder.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/json_reader.h"
#include "tokenizer/tokenizer_class.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_BYTES = 64 << 20 };

#define TOKENIZER_CONFIG "tokenizer_config.json"
#define TOKENS_MAP "special_tokens_map.json"
#define ADDED_TOKENS "added_tokens.json"
#define MODEL_CONFIG "config.json"

/* Loads a file of a folder; sets *out to NULL if the file does not exist. Fails with TRI_BAD_FILE if it is not a JSON
 * object. Release *out with json_decref. */
static tri_status load(const char *folder, const char *name, json_t **out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  *out = NULL;
  TRI_TRY(tri_path_join(path, folder, name));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, LARGEST_BYTES, &text, &bytes));
  json_t *root = NULL; /* ids are integers; but a length in the file may be 10^30, which only parses as a real number */
  tri_status status = tri_json_parse(path, text, bytes, JSON_ALLOW_NUL, &root);
  if (status != TRI_OK) status = tri_json_parse(path, text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &root);
  tri_free(text);
  TRI_TRY(status);
  if (json_is_object(root)) {
    *out = root;
    return TRI_OK;
  }
  status = tri_fail(TRI_BAD_FILE, "%s is %s, not a JSON object", path, tri_json_kind(root));
  json_decref(root);
  return status;
}

/* Returns the text of a token: a string, or the "content" of an object; NULL otherwise. */
static const char *token_text(const json_t *value) {
  const json_t *content = json_object_get(value, "content");
  return json_string_value(content == NULL ? value : content);
}

/* ---- named tokens ------------------------------------------------------------------------------------------------ */

static bool is_named_token(const char *key) {
  static const char ending[] = "_token";
  const size_t length = strlen(key), of_ending = sizeof ending - 1;
  return length > of_ending && strcmp(key + length - of_ending, ending) == 0;
}

/* Loads special_tokens_map.json of older folders. transformers reads it if tokenizer_config.json has no
 * added_tokens_decoder, and its values, even null, replace those of tokenizer_config.json. Sets *map to NULL if the
 * file is not read. Release *map with json_decref. */
static tri_status load_map(const char *folder, const json_t *config, json_t **map) {
  *map = NULL;
  return json_object_get(config, "added_tokens_decoder") == NULL ? load(folder, TOKENS_MAP, map) : TRI_OK;
}

static void visit_named(const json_t *root, const json_t *before, tri_named_token_visit *visit, void *context) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)root, key, value) {
    const char *token = token_text(value);
    if (token == NULL || !is_named_token(key) || json_object_get(before, key) != NULL) continue;
    visit(context, key, token);
  }
}

/* Tokens of every tokenizer of transformers, in its order. Only the first IN_TEXTS of them occur in texts. */
static const char *const usual_tokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
enum { USUAL_TOKENS = sizeof usual_tokens / sizeof *usual_tokens, IN_TEXTS = 2 };

static bool is_usual(const char *key) {
  for (size_t i = 0; i < USUAL_TOKENS; i++) {
    if (strcmp(key, usual_tokens[i]) == 0) return true;
  }
  return false;
}

/* Keys of objects whose members are tokens, under any names: {"image_token": "<image>"}. */
static const char *const objects_of_tokens[] = {"model_specific_special_tokens", "extra_special_tokens"};
enum { OBJECTS = sizeof objects_of_tokens / sizeof *objects_of_tokens };

/* Returns whether the tokens of an object are used. The tokens of model_specific_special_tokens are used only if no
 * other key names a token that is not usual, and extra_special_tokens is not an object. */
static bool counts(const json_t *root, const char *object) {
  const char *key = NULL;
  json_t *value = NULL;
  if (strcmp(object, objects_of_tokens[0]) != 0) return true;
  json_object_foreach((json_t *)(uintptr_t)root, key, value) {
    if (is_named_token(key) && !is_usual(key) && token_text(value) != NULL) return false;
  }
  return !json_is_object(json_object_get(root, objects_of_tokens[1]));
}

static void visit_objects(const json_t *root, tri_named_token_visit *visit, void *context) {
  for (size_t i = 0; i < OBJECTS; i++) {
    const char *key = NULL;
    json_t *value = NULL;
    if (!counts(root, objects_of_tokens[i])) continue;
    json_object_foreach(json_object_get(root, objects_of_tokens[i]), key, value) {
      if (token_text(value) != NULL) visit(context, key, token_text(value));
    }
  }
}

/* Visits the default tokens of the class whose keys no file has, not even with null. */
static void visit_usual(const char *class, const json_t *config, const json_t *map, tri_named_token_visit *visit,
                        void *context) {
  const char *key = NULL, *token = NULL;
  for (int i = 0; (token = tri_tokenizer_class_token(class, i, &key)) != NULL; i++) {
    if (json_object_get(config, key) == NULL && json_object_get(map, key) == NULL) visit(context, key, token);
  }
}

tri_status tri_folder_named_tokens(const char *folder, tri_named_token_visit *visit, void *context) {
  json_t *config = NULL, *map = NULL, *model = NULL, *root = NULL;
  tri_status status = load(folder, TOKENIZER_CONFIG, &config);
  if (status == TRI_OK) status = load_map(folder, config, &map);
  if (status == TRI_OK) status = load(folder, MODEL_CONFIG, &model);
  const char *class = status == TRI_OK ? tri_tokenizer_class_of(config, model, NULL) : NULL;
  if (class != NULL && strcmp(class, "LlamaTokenizer") == 0) {
    /* This class is used only with a vocabulary of characters. Whether tokenizer.json has one is not known yet. */
    status = load(folder, "tokenizer.json", &root);
    class = tri_tokenizer_class_of(config, model, root);
  }
  if (status == TRI_OK) {
    visit_named(map, NULL, visit, context);
    visit_named(config, map, visit, context);
    visit_objects(map, visit, context);
    visit_objects(config, visit, context);
    visit_usual(class, config, map, visit, context);
  }
  json_decref(root);
  json_decref(model);
  json_decref(map);
  json_decref(config);
  return status;
}

/* ---- tokens that tokenizer.json lacks ---------------------------------------------------------------------------- */

/* A token of another file. */
typedef struct extra {
  const char *file, *content; /* borrowed */
  const json_t *facts;        /* {"lstrip": ...}; NULL: none */
  int64_t id;                 /* -1: not given */
  bool special;
  bool takes_id; /* whether the token only takes an id: it is not searched for in texts, but transformers gives it an id
                    before the tokens that are */
} extra;

typedef struct extras {
  extra *list;
  int64_t count, room;
} extras;

static tri_status add_extra(extras *to, extra one) {
  if (one.content == NULL || one.content[0] == '\0') return TRI_OK;
  for (int64_t i = 0; i < to->count; i++) {
    if (strcmp(to->list[i].content, one.content) != 0) continue;
    if (one.id >= 0 && to->list[i].id >= 0 && one.id != to->list[i].id) {
      char shown[TRI_SHOWN_BYTES];
      return tri_fail(TRI_BAD_FILE, "%s gives the token \"%s\" the id %lld, and %s gives it %lld; make them agree",
                      one.file, tri_tokenizer_show(one.content, strlen(one.content), shown), (long long)one.id,
                      to->list[i].file, (long long)to->list[i].id);
    }
    if (to->list[i].id < 0) to->list[i].id = one.id;
    to->list[i].special = to->list[i].special || one.special;
    to->list[i].takes_id = to->list[i].takes_id && one.takes_id;
    return TRI_OK;
  }
  TRI_TRY(tri_grow("added tokens", sizeof *to->list, to->count, &to->room, &to->list));
  to->list[to->count++] = one;
  return TRI_OK;
}

/* Adds the tokens of added_tokens_decoder, {"260": {"content": "<|turn|>", "special": true, ...}}. Fails with
 * TRI_BAD_FILE for a wrong id or content. */
static tri_status add_decoder(extras *to, const json_t *decoder) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)decoder, key, value) {
    char *end = NULL;
    const long long id = strtoll(key, &end, 10);
    const char *content = token_text(value);
    if (end == key || *end != '\0' || id < 0 || id >= TRI_MAX_VOCABULARY || content == NULL) {
      return tri_fail(TRI_BAD_FILE, TOKENIZER_CONFIG
                      ": \"added_tokens_decoder\" must have ids as keys, and in each an object with \"content\"");
    }
    TRI_TRY(add_extra(
        to, (extra){TOKENIZER_CONFIG, content, value, id, json_is_true(json_object_get(value, "special")), false}));
  }
  return TRI_OK;
}

/* Adds the tokens of added_tokens.json, {"<|turn|>": 260}. Fails with TRI_BAD_FILE for a wrong id. */
static tri_status add_numbered(extras *to, const json_t *added) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)added, key, value) {
    const json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= TRI_MAX_VOCABULARY) {
      char shown[TRI_SHOWN_BYTES];
      return tri_fail(TRI_BAD_FILE, ADDED_TOKENS ": the id of \"%s\" must be a whole number below %d, not %s",
                      tri_tokenizer_show(key, strlen(key), shown), TRI_MAX_VOCABULARY, tri_json_kind(value));
    }
    TRI_TRY(add_extra(to, (extra){ADDED_TOKENS, key, NULL, id, false, false}));
  }
  return TRI_OK;
}

static tri_status add_named(extras *to, const char *file, const json_t *value, bool takes_id) {
  return add_extra(to, (extra){file, token_text(value), json_is_object(value) ? value : NULL, -1, true, takes_id});
}

static tri_status add_list(extras *to, const char *file, const json_t *list) {
  const char *key = NULL;
  json_t *value = NULL;
  for (size_t i = 0; i < json_array_size(list); i++) TRI_TRY(add_named(to, file, json_array_get(list, i), false));
  json_object_foreach((json_t *)(uintptr_t)list, key, value) TRI_TRY(add_named(to, file, value, false));
  return TRI_OK;
}

/* Adds special tokens without a number, after all others, in the order of transformers. Usual tokens after the first
 * IN_TEXTS only take an id (`takes_id`). */
static tri_status add_special(extras *to, const char *file, const json_t *root) {
  const char *key = NULL;
  json_t *value = NULL;
  for (size_t i = 0; i < USUAL_TOKENS; i++) {
    TRI_TRY(add_named(to, file, json_object_get(root, usual_tokens[i]), i >= IN_TEXTS));
  }
  json_object_foreach((json_t *)(uintptr_t)root, key, value) {
    if (is_named_token(key) && !is_usual(key)) TRI_TRY(add_named(to, file, value, false));
  }
  if (counts(root, objects_of_tokens[0])) TRI_TRY(add_list(to, file, json_object_get(root, objects_of_tokens[0])));
  TRI_TRY(add_list(to, file, json_object_get(root, "additional_special_tokens")));
  return add_list(to, file, json_object_get(root, objects_of_tokens[1]));
}

static int compare_extras(const void *left, const void *right) {
  const extra *a = left, *b = right;
  if ((a->id < 0) != (b->id < 0)) return a->id < 0 ? 1 : -1;
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  return a < b ? -1 : a > b;
}

/* Returns the id of a token in tokenizer.json; -1 if the file does not have it. Sets *is_added to whether it is an
 * added token. */
static int64_t known_id(const json_t *root, const char *content, bool *is_added) {
  const json_t *added = json_object_get(root, "added_tokens");
  *is_added = false;
  for (size_t i = 0; i < json_array_size(added); i++) {
    const json_t *entry = json_array_get(added, i);
    const char *own = json_string_value(json_object_get(entry, "content"));
    if (own == NULL || strcmp(own, content) != 0) continue;
    *is_added = true;
    return (int64_t)json_integer_value(json_object_get(entry, "id"));
  }
  const json_t *id = json_object_get(json_object_get(json_object_get(root, "model"), "vocab"), content);
  return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
}

static int64_t highest_id(const json_t *root) {
  const json_t *added = json_object_get(root, "added_tokens");
  int64_t highest = (int64_t)json_object_size(json_object_get(json_object_get(root, "model"), "vocab")) - 1;
  for (size_t i = 0; i < json_array_size(added); i++) {
    const int64_t id = (int64_t)json_integer_value(json_object_get(json_array_get(added, i), "id"));
    if (id > highest) highest = id;
  }
  return highest;
}

static json_t *flag(const json_t *facts, const char *key, bool otherwise) {
  const json_t *value = json_object_get(facts, key);
  return json_boolean(json_is_boolean(value) ? json_is_true(value) : otherwise);
}

/* Sets the flags of an added token of tokenizer.json to those of added_tokens_decoder if they differ, because
 * transformers adds the token a second time with the flags of added_tokens_decoder. Sets *changed if they differ. */
static tri_status set_flags(const char *file, const extra *one, json_t *root, bool *changed) {
  static const char *const keys[] = {"single_word", "lstrip", "rstrip", "normalized"};
  const json_t *list = json_object_get(root, "added_tokens");
  if (one->facts == NULL || one->id < 0) return TRI_OK; /* a named token has no flags */
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_t *entry = json_array_get(list, i);
    const char *content = json_string_value(json_object_get(entry, "content"));
    if (content == NULL || strcmp(content, one->content) != 0) continue;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      const bool otherwise = strcmp(keys[k], "normalized") == 0 && !one->special;
      json_t *value = flag(one->facts, keys[k], otherwise);
      if (json_is_true(value) == json_is_true(json_object_get(entry, keys[k]))) continue;
      if (json_object_set(entry, keys[k], value) != 0) {
        return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the added tokens of %s", file);
      }
      *changed = true;
    }
  }
  return TRI_OK;
}

static tri_status insert_extra(const char *file, const extra *one, json_t *root, bool *changed) {
  bool is_added = false;
  const int64_t known = known_id(root, one->content, &is_added), next = highest_id(root) + 1;
  char shown[TRI_SHOWN_BYTES];
  tri_tokenizer_show(one->content, strlen(one->content), shown);
  if (known >= 0 && one->id >= 0 && one->id != known) {
    return tri_fail(TRI_BAD_FILE, "%s gives the token \"%s\" the id %lld, and %s gives it %lld; make them agree",
                    one->file, shown, (long long)one->id, file, (long long)known);
  }
  if (is_added) return set_flags(file, one, root, changed);
  if (known < 0 && one->id >= 0 && one->id != next) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has the token \"%s\" with the id %lld, which is not in %s, where the next free id is %lld; "
                    "save the tokenizer again with transformers, which writes all tokens to tokenizer.json",
                    one->file, shown, (long long)one->id, file, (long long)next);
  }
  json_t *list = json_object_get(root, "added_tokens");
  if (!json_is_array(list)) {
    list = json_array();
    json_object_set_new(root, "added_tokens", list);
  }
  json_t *entry = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:b}", "id", (json_int_t)(known >= 0 ? known : next),
                            "content", one->content, "single_word", flag(one->facts, "single_word", false), "lstrip",
                            flag(one->facts, "lstrip", false), "rstrip", flag(one->facts, "rstrip", false),
                            "normalized", flag(one->facts, "normalized", !one->special), "special", (int)one->special);
  if (entry == NULL || json_array_append_new(list, entry) != 0) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the added tokens of %s", file);
  }
  *changed = true;
  return TRI_OK;
}

/* Sets add_prefix_space of GPT2Tokenizer, which reads it from tokenizer_config.json only; without the key it is false.
 * Sets *changed if it was different. */
static tri_status set_prefix_space(const json_t *config, const json_t *model, json_t *root, bool *changed) {
  static const char key[] = "add_prefix_space";
  json_t *stage = json_object_get(root, "pre_tokenizer");
  const char *class = tri_tokenizer_class_of(config, model, root);
  const char *type = json_string_value(json_object_get(stage, "type"));
  if (class == NULL || type == NULL || strcmp(type, "ByteLevel") != 0 || strcmp(class, "GPT2Tokenizer") != 0) {
    return TRI_OK;
  }
  const bool wanted = json_is_true(json_object_get(config, key));
  if (wanted == json_is_true(json_object_get(stage, key))) return TRI_OK;
  *changed = true;
  return json_object_set_new(stage, key, json_boolean(wanted)) == 0
             ? TRI_OK
             : tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the tokenizer of " TOKENIZER_CONFIG);
}

/* Adds the tokens to the document, and sets *changed if it changes. A token that only takes an id (`takes_id`) is left
 * out if no token after it has to be added. */
static tri_status insert_extras(const char *file, const extras *found, json_t *root, bool *changed) {
  bool is_added = false;
  int64_t needed = found->count;
  while (needed > 0 &&
         (found->list[needed - 1].takes_id || known_id(root, found->list[needed - 1].content, &is_added) >= 0))
    needed--;
  for (int64_t i = 0; i < found->count; i++) {
    const extra *one = &found->list[i];
    if (i >= needed && one->takes_id && known_id(root, one->content, &is_added) < 0) continue;
    TRI_TRY(insert_extra(file, one, root, changed));
  }
  return TRI_OK;
}

tri_status tri_folder_add_tokens(const char *folder, const char *file, json_t *root, bool *changed) {
  json_t *config = NULL, *model = NULL, *map = NULL, *added = NULL;
  extras found = {0};
  tri_status status = load(folder, TOKENIZER_CONFIG, &config);
  *changed = false;
  if (status == TRI_OK) status = load(folder, MODEL_CONFIG, &model);
  if (status == TRI_OK) status = load_map(folder, config, &map);
  if (status == TRI_OK) status = load(folder, ADDED_TOKENS, &added);
  if (status == TRI_OK) status = add_decoder(&found, json_object_get(config, "added_tokens_decoder"));
  if (status == TRI_OK) status = add_numbered(&found, added);
  if (status == TRI_OK) status = add_special(&found, TOKENIZER_CONFIG, config);
  if (status == TRI_OK) status = add_special(&found, TOKENS_MAP, map);
  if (found.count > 0) qsort(found.list, (size_t)found.count, sizeof *found.list, compare_extras);
  if (status == TRI_OK) status = insert_extras(file, &found, root, changed);
  if (status == TRI_OK) status = set_prefix_space(config, model, root, changed);
  tri_free(found.list);
  json_decref(added);
  json_decref(map);
  json_decref(model);
  json_decref(config);
  return status;
}

tri_status tri_folder_other_class(const char *folder, const json_t *root, const char **out) {
  json_t *config = NULL, *model = NULL;
  tri_status status = load(folder, TOKENIZER_CONFIG, &config);
  if (status == TRI_OK) status = load(folder, MODEL_CONFIG, &model);
  if (status == TRI_OK) {
    const char *class = tri_tokenizer_class_of(config, model, root);
    *out = class != NULL && tri_tokenizer_class_differs(class, config, root) ? class : NULL;
  }
  json_decref(model);
  json_decref(config);
  return status;
}

/* ---- ends of texts ----------------------------------------------------------------------------------------------- */

static int32_t id_of_token(const tri_tokenizer *tokenizer, const char *token) {
  for (int64_t i = 0; i < tokenizer->added_count; i++) {
    if (strcmp(tokenizer->added[i].content, token) == 0) return tokenizer->added[i].id;
  }
  return tri_vocabulary_find(&tokenizer->vocabulary, token, strlen(token));
}

/* Adds a token that ends texts: the number or the name in `value`. -1 and null mean none, as in files of other
 * programs. Fails with TRI_BAD_FILE for other values, and for more than TRI_MOST_ENDS tokens. */
static tri_status add_end(const char *folder, const char *name, const json_t *value, tri_tokenizer *tokenizer) {
  char shown[TRI_SHOWN_BYTES];
  json_int_t id = json_integer_value(value);
  if (json_is_null(value) || (json_is_integer(value) && id == -1)) return TRI_OK;
  if (json_is_string(value)) {
    const char *token = json_string_value(value);
    id = id_of_token(tokenizer, token);
    if (id < 0) {
      return tri_fail(TRI_BAD_FILE, "%s/%s: \"eos_token_id\" names \"%s\", which is not a token of the tokenizer",
                      folder, name, tri_tokenizer_show(token, strlen(token), shown));
    }
  } else if (!json_is_integer(value) || id < 0 || id >= TRI_MAX_VOCABULARY) {
    return tri_fail(TRI_BAD_FILE,
                    "%s/%s: \"eos_token_id\" must be a token's number or name, a list of them, null or -1, not %s",
                    folder, name, json_is_integer(value) ? "such a number" : tri_json_kind(value));
  }
  if (tokenizer->num_ends == TRI_MOST_ENDS) {
    return tri_fail(TRI_BAD_FILE, "%s/%s: \"eos_token_id\" has more than %d tokens", folder, name, TRI_MOST_ENDS);
  }
  for (int i = 0; i < tokenizer->num_ends; i++) {
    if (tokenizer->ends[i] == (int32_t)id) return TRI_OK;
  }
  tokenizer->ends[tokenizer->num_ends++] = (int32_t)id;
  return TRI_OK;
}

static tri_status read_ids(const char *folder, const char *name, tri_tokenizer *tokenizer) {
  json_t *root = NULL;
  TRI_TRY(load(folder, name, &root));
  const json_t *value = json_object_get(root, "eos_token_id");
  tri_status status = TRI_OK;
  if (value != NULL && !json_is_array(value)) status = add_end(folder, name, value, tokenizer);
  for (size_t i = 0; i < json_array_size(value) && status == TRI_OK; i++) {
    status = add_end(folder, name, json_array_get(value, i), tokenizer);
  }
  json_decref(root);
  return status;
}

static tri_status read_name(const char *folder, const char *name, tri_tokenizer *tokenizer) {
  json_t *root = NULL, *config = NULL;
  if (strcmp(name, TOKENS_MAP) == 0) {
    TRI_TRY(load(folder, TOKENIZER_CONFIG, &config));
    tri_status status = load_map(folder, config, &root);
    json_decref(config);
    TRI_TRY(status);
  } else {
    TRI_TRY(load(folder, name, &root));
  }
  const char *token = token_text(json_object_get(root, "eos_token"));
  const int32_t id = token == NULL ? -1 : id_of_token(tokenizer, token);
  if (id >= 0) tokenizer->ends[tokenizer->num_ends++] = id;
  json_decref(root);
  return TRI_OK;
}

/* The ends of texts in a folder's files: the first file with a value decides which tokens end a text, and the first
 * with a token of this tokenizer decides which token separates documents. */
typedef struct said_ends {
  int32_t ends[TRI_MOST_ENDS];
  int num_ends;
  int32_t end_of_text;
  const char *source;
} said_ends;

static tri_status find_said(const char *folder, tri_tokenizer *tokenizer, said_ends *out) {
  static const struct {
    const char *name;
    tri_status (*read)(const char *folder, const char *name, tri_tokenizer *tokenizer);
  } files[] = {{"generation_config.json", read_ids},
               {MODEL_CONFIG, read_ids},
               {TOKENS_MAP, read_name},
               {TOKENIZER_CONFIG, read_name}};
  for (size_t i = 0; i < sizeof files / sizeof *files && out->end_of_text < 0; i++) {
    tokenizer->num_ends = 0;
    TRI_TRY(files[i].read(folder, files[i].name, tokenizer));
    for (int k = 0; k < tokenizer->num_ends && out->end_of_text < 0; k++) {
      /* config.json may belong to a model with more tokens. */
      if (tokenizer->ends[k] >= tokenizer->vocabulary.size) continue;
      out->end_of_text = tokenizer->ends[k];
      out->source = files[i].name;
    }
    if (out->num_ends > 0) continue;
    out->num_ends = tokenizer->num_ends;
    memcpy(out->ends, tokenizer->ends, sizeof out->ends);
  }
  return TRI_OK;
}

tri_status tri_tokenizer_find_ends(tri_tokenizer *tokenizer, const char *folder) {
  said_ends before = {.num_ends = tokenizer->num_ends}, said = {.end_of_text = -1};
  memcpy(before.ends, tokenizer->ends, sizeof before.ends);
  tri_status status = find_said(folder, tokenizer, &said);
  if (status == TRI_OK && said.end_of_text >= 0) {
    tokenizer->end_of_text = said.end_of_text;
    tokenizer->end_source = said.source;
  }
  if (status != TRI_OK || said.num_ends == 0) said = before;
  tokenizer->num_ends = said.num_ends;
  memcpy(tokenizer->ends, said.ends, sizeof said.ends);
  return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static tri_status set_end(const tri_tokenizer *tokenizer, int32_t end, json_t *config) {
  if (end < 0 || token_text(json_object_get(config, "eos_token")) != NULL) return TRI_OK;
  for (int64_t i = 0; i < tokenizer->added_count; i++) {
    if (tokenizer->added[i].id != end) continue;
    json_t *text = json_string(tokenizer->added[i].content);
    if (text == NULL || json_object_set_new(config, "eos_token", text) != 0) {
      return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: " TOKENIZER_CONFIG);
    }
  }
  return TRI_OK;
}

/* Copies the tokens of special_tokens_map.json of an older folder to tokenizer_config.json, so that one file is
 * enough. */
static tri_status merge_map(const char *folder, json_t *config) {
  json_t *map = NULL, *value = NULL;
  const char *key = NULL;
  TRI_TRY(load_map(folder, config, &map));
  json_object_foreach(map, key, value) {
    if (is_named_token(key)) json_object_set(config, key, value);
  }
  json_decref(map);
  return TRI_OK;
}

/* Sets bos_token in `config` to the class's default, if no file names one and the tokenizer has the default: a reader
 * of the written folder may use a different class, which has another default. */
static tri_status set_beginning(const char *folder, bool has_config, const tri_tokenizer *tokenizer, json_t *config) {
  static const char beginning[] = "bos_token";
  json_t *model = NULL;
  const char *key = NULL, *token = NULL;
  if (json_object_get(config, beginning) != NULL) return TRI_OK;
  TRI_TRY(load(folder, MODEL_CONFIG, &model));
  const char *class = tri_tokenizer_class_of(has_config ? config : NULL, model, NULL);
  const bool is_llama = class != NULL && strcmp(class, "LlamaTokenizer") == 0;
  for (int i = 0; (token = tri_tokenizer_class_token(class, i, &key)) != NULL; i++) {
    if (strcmp(key, beginning) != 0 || id_of_token(tokenizer, token) < 0) continue;
    if (!is_llama || tokenizer->vocabulary.characters) json_object_set_new(config, beginning, json_string(token));
  }
  json_decref(model);
  return TRI_OK;
}

tri_status tri_folder_config_text(const char *folder, const tri_tokenizer *tokenizer, int32_t end,
                                  const json_t *chat_template, char **out) {
  json_t *config = NULL;
  if (folder != NULL) TRI_TRY(load(folder, TOKENIZER_CONFIG, &config));
  const bool has_config = config != NULL;
  if (!has_config) {
    config = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
  }
  tri_status status = folder == NULL ? TRI_OK : merge_map(folder, config);
  if (status == TRI_OK && folder != NULL) status = set_beginning(folder, has_config, tokenizer, config);
  if (status == TRI_OK) status = set_end(tokenizer, end, config);
  if (chat_template != NULL) json_object_set(config, "chat_template", (json_t *)(uintptr_t)chat_template);
  char *text = status == TRI_OK ? json_dumps(config, JSON_INDENT(2)) : NULL;
  json_decref(config);
  TRI_TRY(status);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: " TOKENIZER_CONFIG);
  status = tri_strdup(text, out);
  free(text);
  return status;
}
