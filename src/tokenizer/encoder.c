/* From text to ids, step by step as Hugging Face's tokenizers do it, so that the ids are the same:
 *
 *   text -> added tokens cut out -> normalized -> more added tokens cut out -> words -> ids of each word
 *
 * Most words of a text are words it has had before, so the ids of short words are kept in a cache: a table of fixed
 * size, one cache line a word, no chains; a new word takes the place of an old one with the same hash. */
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"

#include <string.h>

enum { CACHE_PLACES = 1 << 16, CACHED_BYTES = 24, CACHED_IDS = 9 };

typedef struct cached_word {
  uint64_t bytes[CACHED_BYTES / 8]; /* padded with zeros */
  uint8_t length;                   /* 0: free */
  uint8_t count;
  int32_t ids[CACHED_IDS];
} cached_word;

_Static_assert(sizeof(cached_word) == 64, "a cached word fills a cache line");

struct tri_encoder {
  const tri_tokenizer *tokenizer;
  tri_splitter splitter;
  tri_normalizer normalizer;
  tri_bpe bpe;
  cached_word *cache;
  int32_t whole;        /* the token that a whole word is */
  tri_token_list *out;  /* where the call at hand appends */
  tri_token_ends *ends; /* the same for where tokens end; NULL: nobody asks */
  const char *level;    /* the text that ends are counted in: the given one, or a piece of it after normalization */
};

tri_status tri_encoder_create(const tri_tokenizer *tokenizer, tri_encoder **out) {
  tri_status status = TRI_OK;
  tri_encoder *encoder = NULL;
  TRI_TRY(tri_alloc("a text encoder", 1, sizeof *encoder, &encoder));
  encoder->tokenizer = tokenizer;
  encoder->bpe = (tri_bpe){
      .vocabulary = &tokenizer->vocabulary, .unknown = tokenizer->unknown, .fuse_unknown = tokenizer->fuse_unknown};
  TRI_TRY_GOTO(tri_alloc("the words of a text encoder", CACHE_PLACES, sizeof *encoder->cache, &encoder->cache), fail);
  TRI_TRY_GOTO(tri_splitter_create(&encoder->splitter, &tokenizer->pretokenizer), fail);
  *out = encoder;
  return TRI_OK;
fail:
  tri_encoder_destroy(encoder);
  return status;
}

void tri_encoder_destroy(tri_encoder *encoder) {
  if (encoder == NULL) return;
  tri_splitter_release(&encoder->splitter);
  tri_normalizer_release(&encoder->normalizer);
  tri_bpe_release(&encoder->bpe);
  tri_free(encoder->cache);
  tri_free(encoder);
}

static tri_status reserve(tri_token_list *list, size_t more) {
  if ((size_t)(list->capacity - list->count) >= more) return TRI_OK;
  size_t capacity = ((size_t)list->count + more) * 2 + 1024;
  TRI_TRY(tri_realloc("token ids", capacity, sizeof *list->ids, &list->ids));
  list->capacity = (int64_t)capacity;
  return TRI_OK;
}

static tri_status encoder_append(tri_token_list *list, const int32_t *ids, size_t count) {
  TRI_TRY(reserve(list, count));
  memcpy(list->ids + list->count, ids, count * sizeof *ids);
  list->count += (int64_t)count;
  return TRI_OK;
}

/* The ids of a word that is not in the cache; valid until the next call. */
static tri_status encode_new_word(tri_encoder *encoder, const char *word, size_t bytes, const int32_t **ids,
                                  size_t *count) {
  if (encoder->tokenizer->ignore_merges) {
    encoder->whole = tri_vocabulary_find(&encoder->tokenizer->vocabulary, word, bytes);
    if (encoder->whole >= 0) {
      *ids = &encoder->whole;
      *count = 1;
      return TRI_OK;
    }
  }
  TRI_TRY(tri_bpe_encode(&encoder->bpe, word, bytes, count));
  *ids = encoder->bpe.ids;
  return TRI_OK;
}

/* The place of a word in the cache, and the word as it would stand there. */
static cached_word *cache_place(const tri_encoder *encoder, const char *word, size_t bytes, uint64_t key[3]) {
  key[0] = key[1] = key[2] = 0;
  memcpy(key, word, bytes);
  uint64_t hash = (key[0] ^ (key[1] * UINT64_C(0x94D049BB133111EB)) ^ (key[2] * UINT64_C(0xD6E8FEB86659FD93)) ^ bytes) *
                  UINT64_C(0xBF58476D1CE4E5B9);
  return &encoder->cache[(hash ^ hash >> 32) >> 16 & (CACHE_PLACES - 1)];
}

static tri_status encode_word(void *context, const char *word, size_t bytes) {
  tri_encoder *encoder = context;
  const int32_t *ids = NULL;
  size_t count = 0;
  if (bytes > CACHED_BYTES) {
    TRI_TRY(encode_new_word(encoder, word, bytes, &ids, &count));
    return encoder_append(encoder->out, ids, count);
  }
  uint64_t key[3];
  cached_word *place = cache_place(encoder, word, bytes, key);
  bool same = place->bytes[0] == key[0] && place->bytes[1] == key[1] && place->bytes[2] == key[2];
  if (!same || place->length != bytes) {
    TRI_TRY(encode_new_word(encoder, word, bytes, &ids, &count));
    if (count > CACHED_IDS) return encoder_append(encoder->out, ids, count);
    memcpy(place->bytes, key, sizeof key);
    memcpy(place->ids, ids, count * sizeof *ids);
    place->length = (uint8_t)bytes;
    place->count = (uint8_t)count;
  }
  TRI_TRY(reserve(encoder->out, CACHED_IDS));
  memcpy(encoder->out->ids + encoder->out->count, place->ids, sizeof place->ids); /* all: a copy of fixed size */
  encoder->out->count += place->count;
  return TRI_OK;
}

/* Plain text without added tokens. */
static tri_status encode_plain(tri_encoder *encoder, const char *text, size_t bytes) {
  const tri_vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
  if (vocabulary->merge_count > 0 || encoder->tokenizer->pretokenizer.count > 0 || encoder->tokenizer->unknown >= 0) {
    return tri_splitter_run(&encoder->splitter, text, bytes, encode_word, encoder);
  }
  TRI_TRY(reserve(encoder->out, bytes)); /* every byte is a token */
  int32_t *ids = encoder->out->ids + encoder->out->count;
  for (size_t i = 0; i < bytes; i++) ids[i] = vocabulary->byte_ids[(uint8_t)text[i]];
  encoder->out->count += (int64_t)bytes;
  return TRI_OK;
}

/* ---- where tokens end -------------------------------------------------------------------------------------------- */

static tri_status add_end(tri_encoder *encoder, size_t end) {
  tri_token_ends *list = encoder->ends;
  if (list == NULL) return TRI_OK;
  if (list->count == list->capacity) {
    int64_t capacity = 2 * list->capacity + 1024;
    TRI_TRY(tri_realloc("the ends of tokens", (size_t)capacity, sizeof *list->ends, &list->ends));
    list->capacity = capacity;
  }
  list->ends[list->count++] = end;
  return TRI_OK;
}

/* Of the tokens of a plain text, from `first` on: they spell it, perhaps with a space before it. */
static tri_status add_plain_ends(tri_encoder *encoder, const char *text, size_t bytes, int64_t first) {
  const tri_vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
  size_t total = 0, end = (size_t)(text - encoder->level);
  if (encoder->ends == NULL) return TRI_OK;
  for (int64_t i = first; i < encoder->out->count; i++) total += vocabulary->tokens[encoder->out->ids[i]].bytes;
  bool spaced = total == bytes + 1 && bytes > 0 && text[0] != ' ';
  if (total != bytes && !spaced) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the tokenizer's tokens do not spell the text (it has an unk_token, or drops what its pattern does "
                    "not match), so that nobody knows which tokens an answer has");
  }
  for (int64_t i = first; i < encoder->out->count; i++) {
    end += vocabulary->tokens[encoder->out->ids[i]].bytes - (spaced && i == first);
    TRI_TRY(add_end(encoder, end));
  }
  return TRI_OK;
}

/* From places in a normalized text, ends[first] on, to those in the text that it was, which begins at byte `begin`. */
static void undo_normalization(const tri_encoder *encoder, bool changed, int64_t first, size_t begin) {
  const tri_normalizer *normalizer = &encoder->normalizer;
  size_t k = 0, count = changed ? normalizer->num_parts : 0;
  for (int64_t i = first; i < encoder->ends->count; i++) {
    size_t end = encoder->ends->ends[i];
    while (k < count && normalizer->parts[k].end <= end) k++;
    if (k < count && normalizer->parts[k].begin < end) {
      end = normalizer->parts[k].to;
    } else if (k > 0) {
      end += normalizer->parts[k - 1].to - normalizer->parts[k - 1].end;
    }
    encoder->ends->ends[i] = begin + end;
  }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

typedef tri_status (*piece_encoder)(tri_encoder *encoder, const char *text, size_t bytes, bool specials);

static tri_status encode_pieces(tri_encoder *encoder, const tri_added_matcher *matcher, const char *text, size_t bytes,
                                bool specials, piece_encoder encode) {
  tri_added_walk walk = {.text = text, .bytes = bytes};
  size_t gap = 0, gap_end = 0;
  int32_t id = 0;
  encoder->level = text;
  while (tri_added_next(matcher, &walk, specials, &gap, &gap_end, &id)) {
    if (gap < gap_end) TRI_TRY(encode(encoder, text + gap, gap_end - gap, specials));
    encoder->level = text;
    TRI_TRY(encoder_append(encoder->out, &id, 1));
    TRI_TRY(add_end(encoder, walk.done));
  }
  return walk.done < bytes ? encode(encoder, text + walk.done, bytes - walk.done, specials) : TRI_OK;
}

static tri_status encode_normalized_piece(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  int64_t first = encoder->out->count;
  (void)specials;
  TRI_TRY(encode_plain(encoder, text, bytes));
  return add_plain_ends(encoder, text, bytes, first);
}

static tri_status encode_raw_piece(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  const char *normal = text;
  size_t begin = (size_t)(text - encoder->level);
  int64_t first = encoder->ends == NULL ? 0 : encoder->ends->count;
  if (encoder->tokenizer->nfc) TRI_TRY(tri_normalize(&encoder->normalizer, text, bytes, &normal, &bytes));
  TRI_TRY(encode_pieces(encoder, &encoder->tokenizer->normal, normal, bytes, specials, encode_normalized_piece));
  if (encoder->ends != NULL) undo_normalization(encoder, normal != text, first, begin);
  return TRI_OK;
}

tri_status tri_encoder_encode(tri_encoder *encoder, const char *text, size_t bytes, int specials, tri_token_list *out) {
  encoder->out = out;
  encoder->ends = NULL;
  return encode_pieces(encoder, &encoder->tokenizer->raw, text, bytes, specials != 0, encode_raw_piece);
}

tri_status tri_encoder_encode_with_ends(tri_encoder *encoder, const char *text, size_t bytes, tri_token_list *out,
                                        tri_token_ends *ends) {
  encoder->out = out;
  encoder->ends = ends;
  return encode_pieces(encoder, &encoder->tokenizer->raw, text, bytes, true, encode_raw_piece);
}
