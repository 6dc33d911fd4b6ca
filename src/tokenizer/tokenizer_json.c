/* Hugging Face's tokenizer.json: the model (vocabulary and merges) and the added tokens. Normalizer and pre-tokenizer
 * are in tokenizer_stages.c, the decoder in tokenizer_decoder.c. If ByteLevel is among the
 * pre-tokenizers, the vocabulary is one of bytes, else one of characters. Truncation, padding and the post-processor do
 * not affect documents and are ignored, except the tokens with which a text begins, which are kept for callers.
 * Unsupported features that would change ids are refused, never ignored. */
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "files/file_kind.h"
#include "tokenizer/folder.h"

#include <stdlib.h>
#include <string.h>

typedef struct json_reader {
  const char *file;
  json_t *root, *model, *vocab;
  json_t *contents; /* the added tokens by content (borrowed values) */
  int64_t largest_added;
  char where[512]; /* "FILE: key" of the current key, for messages */
} json_reader;

static const char *at_key(json_reader *reader, const char *key) {
  snprintf(reader->where, sizeof reader->where, "%s: %s", reader->file, key);
  return reader->where;
}

static const char *at_added(json_reader *reader, size_t index) {
  snprintf(reader->where, sizeof reader->where, "%s: added_tokens[%zu]", reader->file, index);
  return reader->where;
}

static tri_status find_model(json_reader *reader) {
  const char *type = NULL, *prefix = NULL, *suffix = NULL;
  reader->model = json_object_get(reader->root, "model");
  if (!json_is_object(reader->model)) {
    const tri_file_kind *kind = tri_file_kind_find(reader->file);
    if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, reader->file, kind, "a tokenizer.json");
    return tri_fail(TRI_BAD_FILE, "%s: the object \"model\" is missing; is this a tokenizer.json?", reader->file);
  }
  const char *where = at_key(reader, "model");
  TRI_TRY(tri_json_string(where, reader->model, "type", "BPE", &type));
  if (strcmp(type, "BPE") != 0) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_UNSUPPORTED, "%s: the type %s is not supported; only BPE is", where,
                    tri_tokenizer_show(type, strlen(type), shown));
  }
  const json_t *dropout = json_object_get(reader->model, "dropout");
  if (dropout != NULL && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0.0)) {
    return tri_fail(TRI_UNSUPPORTED, "%s: dropout makes ids random; set it to null", where);
  }
  TRI_TRY(tri_json_string(where, reader->model, "continuing_subword_prefix", "", &prefix));
  TRI_TRY(tri_json_string(where, reader->model, "end_of_word_suffix", "", &suffix));
  if (prefix[0] != '\0' || suffix[0] != '\0') {
    return tri_fail(TRI_UNSUPPORTED, "%s: continuing_subword_prefix and end_of_word_suffix are not supported", where);
  }
  reader->vocab = json_object_get(reader->model, "vocab");
  if (json_is_object(reader->vocab)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: \"vocab\" must be an object of tokens and their ids", where);
}

/* Collects the added tokens by content and finds the largest of their ids. Fails with TRI_BAD_FILE for a wrong
 * entry. */
static tri_status index_added(json_reader *reader) {
  json_t *list = json_object_get(reader->root, "added_tokens");
  reader->largest_added = -1;
  if (list == NULL || json_is_null(list)) return TRI_OK;
  if (!json_is_array(list)) return tri_fail(TRI_BAD_FILE, "%s: \"added_tokens\" must be an array", reader->file);
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(list, index, entry) {
    const char *where = at_added(reader, index);
    const json_t *content = json_object_get(entry, "content");
    const json_t *id = json_object_get(entry, "id");
    if (!json_is_string(content)) return tri_fail(TRI_BAD_FILE, "%s: \"content\" must be a string", where);
    if (!json_is_integer(id)) return tri_fail(TRI_BAD_FILE, "%s: \"id\" must be a whole number", where);
    json_int_t value = json_integer_value(id);
    if (value < 0 || value >= TRI_MAX_VOCABULARY) {
      return tri_fail(TRI_BAD_FILE, "%s: the id is %lld; ids must be between 0 and %d", where, (long long)value,
                      TRI_MAX_VOCABULARY - 1);
    }
    if (value > reader->largest_added) reader->largest_added = value;
    char shown[TRI_SHOWN_BYTES];
    const char *text = json_string_value(content);
    if (json_object_get(reader->contents, text) != NULL) {
      return tri_fail(TRI_BAD_FILE, "%s: \"%s\" is listed twice", where, tri_tokenizer_show(text, strlen(text), shown));
    }
    if (json_object_set(reader->contents, text, entry) != 0) {
      return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading the added tokens of %s", reader->file);
    }
  }
  return TRI_OK;
}

/* Checks the id of an added token and adds it to the vocabulary. If the vocabulary has a token of this name, the id
 * must be that token's. Otherwise it must be the next free id, because Hugging Face assigns that one even if the file
 * has another, and the ids of the two programs would differ. *largest: the largest id of an added token so far. */
static tri_status enter_added(json_reader *reader, const char *where, const char *content, size_t bytes, int32_t id,
                              int64_t *largest, tri_vocabulary *vocabulary) {
  const json_t *known = json_object_get(reader->vocab, content);
  int64_t count = (int64_t)json_object_size(reader->vocab);
  int64_t expected = known != NULL ? json_integer_value(known) : *largest >= count ? *largest + 1 : count;
  char shown[TRI_SHOWN_BYTES];
  tri_tokenizer_show(content, bytes, shown);
  if (id != expected) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" has id %d, but %s %lld", where, shown, id,
                    known != NULL ? "in model.vocab it has" : "the next free id is", (long long)expected);
  }
  if (id > *largest) *largest = id;
  if (known != NULL) return TRI_OK;
  if (vocabulary->tokens[id].bytes > 0) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" has id %d, which another token has", where, shown, id);
  }
  return tri_tokenizer_enter_added(vocabulary, id, content, bytes);
}

static tri_status read_added_entry(json_reader *reader, const char *where, const json_t *entry, int64_t *largest,
                                   tri_stepper *stepper, tri_tokenizer *tokenizer) {
  const json_t *value = json_object_get(entry, "content");
  const char *content = json_string_value(value);
  size_t bytes = json_string_length(value);
  if (bytes == 0) return TRI_OK; /* an empty token is ignored, as in Hugging Face */
  tri_added_token token = {.id = (int32_t)json_integer_value(json_object_get(entry, "id"))};
  TRI_TRY(tri_json_bool(where, entry, "special", false, &token.special));
  TRI_TRY(tri_json_bool(where, entry, "single_word", false, &token.single_word));
  TRI_TRY(tri_json_bool(where, entry, "lstrip", false, &token.lstrip));
  TRI_TRY(tri_json_bool(where, entry, "rstrip", false, &token.rstrip));
  TRI_TRY(tri_json_bool(where, entry, "normalized", !token.special, &token.normalized));
  TRI_TRY(enter_added(reader, where, content, bytes, token.id, largest, &tokenizer->vocabulary));
  if (token.normalized) {
    tri_text_place place = {.first = true};
    tri_text_range own = {0, bytes};
    TRI_TRY(tri_stepper_run(stepper, &tokenizer->normalizer, place, content, bytes, &content, &bytes));
    tri_stepper_follow(stepper, &tokenizer->normalizer, &own, 1);
    token.prepended = own.begin;
    if (bytes == 0) return tri_fail(TRI_UNSUPPORTED, "%s: the normalizer makes \"content\" empty", where);
  }
  return tri_tokenizer_add_token(tokenizer, &token, content, bytes);
}

static tri_status read_added(json_reader *reader, tri_tokenizer *tokenizer) {
  tri_stepper stepper = {.keep_parts = true};
  tri_status status = TRI_OK;
  int64_t largest = -1;
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(json_object_get(reader->root, "added_tokens"), index, entry) {
    status = read_added_entry(reader, at_added(reader, index), entry, &largest, &stepper, tokenizer);
    if (status != TRI_OK) break;
  }
  tri_stepper_release(&stepper);
  return status;
}

static tri_status read_merges(json_reader *reader, tri_tokenizer *tokenizer) {
  json_t *list = json_object_get(reader->model, "merges");
  if (!json_is_array(list)) return tri_fail(TRI_BAD_FILE, "%s: \"merges\" must be an array", at_key(reader, "model"));
  tri_merge_reader merges = {
      .vocabulary = &tokenizer->vocabulary, .file = at_key(reader, "model.merges"), .kind = "entry"};
  tri_status status = TRI_OK;
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(list, index, entry) {
    const json_t *left = json_array_get(entry, 0), *right = json_array_get(entry, 1);
    merges.number = (int64_t)index;
    if (json_is_string(entry)) {
      status = tri_merge_reader_add_line(&merges, json_string_value(entry), json_string_length(entry));
    } else if (json_array_size(entry) == 2 && json_is_string(left) && json_is_string(right)) {
      status = tri_merge_reader_add(&merges, json_string_value(left), json_string_length(left),
                                    json_string_value(right), json_string_length(right));
    } else {
      status = tri_fail(TRI_BAD_FILE, "%s: entry %zu is neither \"left right\" nor [\"left\", \"right\"]", merges.file,
                        index);
    }
    if (status != TRI_OK) break;
  }
  tri_free(merges.scratch);
  return status;
}

static tri_status read_model_options(json_reader *reader, tri_tokenizer *tokenizer) {
  const char *where = at_key(reader, "model");
  const char *unknown = NULL;
  TRI_TRY(tri_json_bool(where, reader->model, "ignore_merges", false, &tokenizer->ignore_merges));
  TRI_TRY(tri_json_bool(where, reader->model, "byte_fallback", false, &tokenizer->byte_fallback));
  TRI_TRY(tri_json_bool(where, reader->model, "fuse_unk", false, &tokenizer->fuse_unknown));
  TRI_TRY(tri_json_string(where, reader->model, "unk_token", NULL, &unknown));
  if (unknown == NULL) return TRI_OK;
  const json_t *id = json_object_get(reader->vocab, unknown);
  char shown[TRI_SHOWN_BYTES];
  if (id == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s: the unk_token \"%s\" is not in the vocabulary", where,
                    tri_tokenizer_show(unknown, strlen(unknown), shown));
  }
  tokenizer->unknown = (int32_t)json_integer_value(id);
  return TRI_OK;
}

/* ---- begins of texts --------------------------------------------------------------------------------------------- */

static tri_status add_beginning(json_reader *reader, const json_t *id, tri_tokenizer *tokenizer) {
  const json_int_t value = json_integer_value(id);
  if (tokenizer->num_beginning == TRI_MOST_BEGINNING || !json_is_integer(id) || value < 0 ||
      value >= tokenizer->vocabulary.size) {
    return tri_fail(TRI_BAD_FILE, "%s begins texts with token %lld, or with more than %d",
                    at_key(reader, "post_processor"), (long long)value, TRI_MOST_BEGINNING);
  }
  tokenizer->beginning[tokenizer->num_beginning++] = (int32_t)value;
  return TRI_OK;
}

static tri_status add_special(json_reader *reader, const json_t *special, const json_t *ids, tri_tokenizer *tokenizer) {
  const char *name = json_string_value(json_object_get(special, "id"));
  const json_t *list = json_object_get(name == NULL ? NULL : json_object_get(ids, name), "ids");
  if (!json_is_array(list)) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_BAD_FILE, "%s: \"special_tokens\" has no \"ids\" for \"%s\", which \"single\" names",
                    at_key(reader, "post_processor"),
                    name == NULL ? "" : tri_tokenizer_show(name, strlen(name), shown));
  }
  for (size_t k = 0; k < json_array_size(list); k++) {
    TRI_TRY(add_beginning(reader, json_array_get(list, k), tokenizer));
  }
  return TRI_OK;
}

/* Reads the special tokens before the text in {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id":
 * "<s>"}}, {"Sequence": {"id": "A"}}, ...], "special_tokens": {"<s>": {"ids": [1]}}}. Fails with TRI_UNSUPPORTED unless
 * the Sequence "A" occurs exactly once. */
static tri_status read_template(json_reader *reader, const json_t *processor, tri_tokenizer *tokenizer) {
  const json_t *parts = json_object_get(processor, "single"), *ids = json_object_get(processor, "special_tokens");
  int texts = 0;
  for (size_t i = 0; i < json_array_size(parts); i++) {
    const json_t *part = json_array_get(parts, i), *special = json_object_get(part, "SpecialToken");
    const char *text = json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
    if (special == NULL && (text == NULL || strcmp(text, "A") != 0)) {
      return tri_fail(TRI_UNSUPPORTED, "%s: \"single\" takes SpecialToken and the Sequence \"A\" alone",
                      at_key(reader, "post_processor"));
    }
    texts += special == NULL;
    if (special != NULL && texts == 0) TRI_TRY(add_special(reader, special, ids, tokenizer));
  }
  if (texts == 1) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: \"single\" has the Sequence \"A\" %d times; only 1 is supported",
                  at_key(reader, "post_processor"), texts);
}

/* Reads a post-processor, such as {"type": "RobertaProcessing", "cls": ["<s>", 0], ...}, or all members of a Sequence.
 * *frames: number of post-processors so far that put tokens around a text. A second one is refused, because it would
 * put its tokens around the text with the tokens of the first. Fails with TRI_UNSUPPORTED for other types. */
static tri_status read_processor(json_reader *reader, const json_t *processor, int depth, int *frames,
                                 tri_tokenizer *tokenizer) {
  const char *type = json_string_value(json_object_get(processor, "type"));
  const json_t *list = json_object_get(processor, "processors");
  char shown[TRI_SHOWN_BYTES];
  if (type == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s: a post-processor has no \"type\"", at_key(reader, "post_processor"));
  }
  if (strcmp(type, "ByteLevel") == 0) return TRI_OK; /* only changes offsets */
  if (strcmp(type, "Sequence") == 0 && json_is_array(list) && depth < TRI_DEEPEST_SEQUENCE) {
    for (size_t i = 0; i < json_array_size(list); i++) {
      TRI_TRY(read_processor(reader, json_array_get(list, i), depth + 1, frames, tokenizer));
    }
    return TRI_OK;
  }
  const bool template = strcmp(type, "TemplateProcessing") == 0;
  if (!template && strcmp(type, "RobertaProcessing") != 0 && strcmp(type, "BertProcessing") != 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the post-processor %s is not supported; TemplateProcessing, RobertaProcessing, "
                    "BertProcessing, ByteLevel and a Sequence of these are",
                    at_key(reader, "post_processor"), tri_tokenizer_show(type, strlen(type), shown));
  }
  if (++*frames > 1) {
    return tri_fail(TRI_UNSUPPORTED, "%s: two post-processors put tokens around a text; only 1 is supported",
                    at_key(reader, "post_processor"));
  }
  if (template) return read_template(reader, processor, tokenizer);
  return add_beginning(reader, json_array_get(json_object_get(processor, "cls"), 1), tokenizer);
}

static tri_status read_beginning(json_reader *reader, tri_tokenizer *tokenizer) {
  const json_t *processor = json_object_get(reader->root, "post_processor");
  int frames = 0;
  if (processor == NULL || json_is_null(processor)) return TRI_OK;
  return read_processor(reader, processor, 0, &frames, tokenizer);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static tri_status keep_text(tri_tokenizer *tokenizer, const char *text, size_t bytes) {
  TRI_TRY(tri_alloc("a tokenizer", bytes, 1, &tokenizer->json));
  memcpy(tokenizer->json, text, bytes);
  tokenizer->json_bytes = bytes;
  return TRI_OK;
}

/* Keeps the document, which other files of the folder have changed, for saving. */
static tri_status keep_document(tri_tokenizer *tokenizer, const json_t *root) {
  char *text = json_dumps(root, JSON_INDENT(2));
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a tokenizer");
  const tri_status status = keep_text(tokenizer, text, strlen(text));
  free(text);
  return status;
}

tri_status tri_tokenizer_parse_json(const char *file, const char *text, size_t bytes, tri_tokenizer **out) {
  return tri_tokenizer_parse_json_in(NULL, file, text, bytes, out);
}

tri_status tri_tokenizer_parse_json_in(const char *folder, const char *file, const char *text, size_t bytes,
                                       tri_tokenizer **out) {
  tri_status status = TRI_OK;
  tri_tokenizer *tokenizer = NULL;
  bool changed = false;
  json_reader reader = {.file = file, .contents = json_object()};
  TRI_TRY_GOTO(tri_tokenizer_load_json(file, text, bytes, &reader.root), release);
  TRI_TRY_GOTO(find_model(&reader), release);
  if (folder != NULL) TRI_TRY_GOTO(tri_folder_add_tokens(folder, file, reader.root, &changed), release);
  TRI_TRY_GOTO(index_added(&reader), release);
  tri_vocabulary_options options = {.added = reader.contents,
                                    .least_size = reader.largest_added + 1,
                                    .characters = !tri_tokenizer_is_byte_level(reader.root)};
  TRI_TRY_GOTO(tri_tokenizer_begin_vocabulary(at_key(&reader, "model.vocab"), reader.vocab, &options, &tokenizer),
               release);
  TRI_TRY_GOTO(read_merges(&reader, tokenizer), release);
  TRI_TRY_GOTO(read_model_options(&reader, tokenizer), release);
  TRI_TRY_GOTO(tri_tokenizer_read_stages(file, reader.root, tokenizer), release);
  TRI_TRY_GOTO(tri_tokenizer_read_decoder(file, reader.root, tokenizer), release);
  TRI_TRY_GOTO(read_added(&reader, tokenizer), release);
  TRI_TRY_GOTO(tri_tokenizer_end(tokenizer, at_key(&reader, "model.vocab")), release);
  TRI_TRY_GOTO(read_beginning(&reader, tokenizer), release);
  if (folder != NULL) TRI_TRY_GOTO(tri_folder_other_class(folder, reader.root, &tokenizer->other_class), release);
  TRI_TRY_GOTO(changed ? keep_document(tokenizer, reader.root) : keep_text(tokenizer, text, bytes), release);
  *out = tokenizer;
  tokenizer = NULL;
release:
  tri_tokenizer_destroy(tokenizer);
  json_decref(reader.contents);
  json_decref(reader.root);
  return status;
}
