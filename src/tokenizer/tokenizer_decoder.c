/* The decoder of a tokenizer.json. A byte-level vocabulary has ByteLevel, and Fuse may follow. A vocabulary of
 * characters has Metaspace, or a Sequence of Replace, ByteFallback, Fuse and Strip. Decoders before Fuse
 * process each token, and decoders after it the whole text, so the order matters; other orders than those of known
 * files are refused. */
#include "tokenizer/tokenizer_internal.h"

#include "base/log.h"
#include "tokenizer/utf8.h"

#include <string.h>

typedef struct decoder_reader {
  const char *where;
  tri_decoding *decoding;
  bool fused;
} decoder_reader;

static tri_status refuse(const decoder_reader *reader, const char *type, const char *reason) {
  char shown[TRI_SHOWN_BYTES];
  return tri_fail(TRI_UNSUPPORTED, "%s: the decoder %s is not supported%s", reader->where,
                  tri_tokenizer_show(type, strlen(type), shown), reason);
}

static tri_status decode_metaspace(decoder_reader *reader, const json_t *object) {
  tri_metaspace space = {0};
  TRI_TRY(tri_metaspace_read(reader->where, object, &space));
  TRI_TRY(
      tri_text_steps_add_replace(&reader->decoding->replaced, reader->where, space.mark, strlen(space.mark), " ", 1));
  if (!space.prepends) return TRI_OK;
  reader->decoding->first_differs = true;
  return tri_text_steps_add_replace(&reader->decoding->first_replaced, reader->where, space.mark, strlen(space.mark),
                                    "", 0);
}

static tri_status decode_strip(decoder_reader *reader, const json_t *object) {
  const char *content = NULL;
  uint32_t code = 0;
  const json_t *start = json_object_get(object, "start"), *stop = json_object_get(object, "stop");
  TRI_TRY(tri_json_string(reader->where, object, "content", "", &content));
  size_t bytes = strlen(content);
  if (bytes == 0 || tri_utf8_decode(content, bytes, &code) != bytes) {
    return tri_fail(TRI_BAD_FILE, "%s: the \"content\" of Strip must be one character", reader->where);
  }
  if (!json_is_integer(start) || !json_is_integer(stop) || json_integer_value(start) < 0) {
    return tri_fail(TRI_BAD_FILE, "%s: \"start\" and \"stop\" of Strip must be whole numbers", reader->where);
  }
  if (!reader->fused) return refuse(reader, "Strip", " before Fuse");
  if (json_integer_value(stop) != 0) return refuse(reader, "Strip", " at the end of a text: \"stop\" must be 0");
  if (reader->decoding->stripped_bytes > 0) return refuse(reader, "Strip", " twice");
  memcpy(reader->decoding->stripped, content, bytes);
  reader->decoding->stripped_bytes = bytes;
  reader->decoding->stripped_most = json_integer_value(start);
  return TRI_OK;
}

static tri_status decode_replace(decoder_reader *reader, const json_t *object) {
  if (reader->fused || reader->decoding->bytes) return refuse(reader, "Replace", " after ByteFallback or Fuse");
  return tri_text_steps_read_replace(reader->where, object, &reader->decoding->replaced);
}

static tri_status read_one(decoder_reader *reader, const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  if (type == NULL) return tri_fail(TRI_BAD_FILE, "%s: a decoder has no \"type\"", reader->where);
  if (strcmp(type, "Replace") == 0) return decode_replace(reader, object);
  if (strcmp(type, "Strip") == 0) return decode_strip(reader, object);
  if (strcmp(type, "ByteFallback") == 0 && !reader->fused) {
    reader->decoding->bytes = true;
    return TRI_OK;
  }
  if (strcmp(type, "Fuse") == 0) {
    reader->fused = true;
    return TRI_OK;
  }
  return refuse(reader, type,
                " with a vocabulary that is not byte-level; Metaspace and a Sequence of Replace, ByteFallback, Fuse "
                "and Strip are");
}

/* Checks a decoder of a byte-level vocabulary. Fails with TRI_UNSUPPORTED unless it is ByteLevel, or Fuse after
 * ByteLevel, which have no effect because the tokens are bytes; and with TRI_BAD_FILE if it has no type. */
static tri_status read_byte_decoder(decoder_reader *reader, const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  if (type == NULL) return tri_fail(TRI_BAD_FILE, "%s: a decoder has no \"type\"", reader->where);
  if (strcmp(type, reader->fused ? "Fuse" : "ByteLevel") != 0) {
    return refuse(reader, type, " here with a byte-level vocabulary; ByteLevel is, and Fuse after it");
  }
  reader->fused = true;
  return TRI_OK;
}

/* Reads one decoder, or each of a Sequence. */
static tri_status read_all(decoder_reader *reader, const json_t *object, bool characters) {
  const json_t *list = json_object_get(object, "decoders");
  const char *type = json_string_value(json_object_get(object, "type"));
  size_t index = 0;
  json_t *entry = NULL;
  if (type == NULL || strcmp(type, "Sequence") != 0 || !json_is_array(list)) {
    return characters ? read_one(reader, object) : read_byte_decoder(reader, object);
  }
  json_array_foreach(list, index, entry) {
    TRI_TRY(characters ? read_one(reader, entry) : read_byte_decoder(reader, entry));
  }
  if (characters || reader->fused) return TRI_OK;
  return refuse(reader, type, " without ByteLevel with a byte-level vocabulary");
}

tri_status tri_tokenizer_read_decoder(const char *file, const json_t *root, tri_tokenizer *tokenizer) {
  char where[512];
  snprintf(where, sizeof where, "%s: decoder", file);
  decoder_reader reader = {.where = where, .decoding = &tokenizer->decoding};
  const json_t *object = json_object_get(root, "decoder");
  const char *type = json_string_value(json_object_get(object, "type"));
  const bool characters = tokenizer->vocabulary.characters;
  if (object == NULL || json_is_null(object)) {
    tri_log("%s: the file has no decoder; tokens become text without the spaces that `tokenizers` puts between them",
            where);
    return TRI_OK;
  }
  if (characters && type != NULL && strcmp(type, "Metaspace") == 0) return decode_metaspace(&reader, object);
  return read_all(&reader, object, characters);
}
