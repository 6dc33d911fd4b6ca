/* Encodes text to ids, in the same steps as Hugging Face's tokenizers, so that the ids are the same:
 *
 *   text -> added tokens cut out -> normalized -> more added tokens cut out -> words -> ids of each word
 *
 * A vocabulary of characters has long words, up to whole documents; each is cut at positions that no merge crosses
 * (joins.c), and the parts are called words below.
 *
 * Most words of a text repeat, so the ids of short words are cached: a table of fixed size, one cache line per word,
 * without chains; a new word replaces an old one with the same hash. */
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

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
  tri_stepper normalizer, spaces;
  bool continues; /* whether the text of the current call continues an earlier one */
  bool first;     /* whether the current piece begins the text of the call */
  tri_bpe bpe;
  cached_word *cache;
  int32_t whole;        /* id of the word that was last found as a whole token */
  tri_token_list *out;  /* list to which the current call appends ids */
  tri_token_ends *ends; /* list to which the current call appends the ends of tokens; NULL: unused */
  const char *level;    /* text in which ends are counted: the text of the call, or a piece of it after normalization */
  const tri_text_range *plain; /* ranges of the text of the call in which no special token is found; those before the
                                  current piece are dropped [num_plain] */
  int64_t num_plain;
  tri_text_range *following; /* the ranges in the current piece, after its normalization [num_following] */
  int64_t num_following, following_room;
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
  tri_stepper_release(&encoder->normalizer);
  tri_stepper_release(&encoder->spaces);
  tri_bpe_release(&encoder->bpe);
  tri_free(encoder->cache);
  tri_free(encoder->following);
  tri_free(encoder);
}

tri_status tri_token_list_append(tri_token_list *list, int32_t id) {
  TRI_TRY(tri_grow("tokens", sizeof *list->ids, list->count, &list->capacity, &list->ids));
  list->ids[list->count++] = id;
  return TRI_OK;
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

/* Returns the token whose text is the whole word, for ignore_merges; -1 if there is no such token, or if it is special
 * and special tokens are guarded against. Sets bpe.met_special if the token is special. */
static int32_t find_whole(tri_encoder *encoder, const char *word, size_t bytes) {
  const tri_vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
  const int32_t whole = tri_vocabulary_find(vocabulary, word, bytes);
  if (whole < 0 || !vocabulary->tokens[whole].special) return whole;
  encoder->bpe.met_special = true;
  return encoder->bpe.guarded ? -1 : whole;
}

/* Encodes a word that is not in the cache, to *count ids, which are valid until the next call. */
static tri_status encode_new_word(tri_encoder *encoder, const char *word, size_t bytes, const int32_t **ids,
                                  size_t *count) {
  const tri_tokenizer *tokenizer = encoder->tokenizer;
  encoder->bpe.met_special = false;
  if (tokenizer->ignore_merges && !tokenizer->vocabulary.characters) {
    encoder->whole = find_whole(encoder, word, bytes);
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

/* Finds the place in the cache for a word of at most CACHED_BYTES bytes, and sets `key` to these bytes. */
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
    if (count > CACHED_IDS || encoder->bpe.met_special) return encoder_append(encoder->out, ids, count);
    memcpy(place->bytes, key, sizeof key);
    memcpy(place->ids, ids, count * sizeof *ids);
    place->length = (uint8_t)bytes;
    place->count = (uint8_t)count;
  }
  TRI_TRY(reserve(encoder->out, CACHED_IDS));
  memcpy(encoder->out->ids + encoder->out->count, place->ids, sizeof place->ids); /* a copy of fixed size */
  encoder->out->count += place->count;
  return TRI_OK;
}

/* Encodes a word of the pre-tokenizer, with a vocabulary of characters: as one token if ignore_merges allows, otherwise
 * in parts that no merge crosses (joins.h). */
static tri_status encode_long_word(void *context, const char *word, size_t bytes) {
  tri_encoder *encoder = context;
  const tri_tokenizer *tokenizer = encoder->tokenizer;
  if (tokenizer->ignore_merges) {
    const int32_t whole = find_whole(encoder, word, bytes);
    if (whole >= 0) return encoder_append(encoder->out, &whole, 1);
  }
  uint32_t code = 0;
  if (tri_utf8_decode(word, bytes, &code) == 0) return encode_word(context, word, bytes); /* bytes that are not UTF-8 */
  while (bytes > 0) {
    size_t run = tri_joins_run(&tokenizer->joins, word, bytes);
    TRI_TRY(encode_word(context, word, run));
    word += run;
    bytes -= run;
  }
  return TRI_OK;
}

/* Encodes plain text without added tokens. */
static tri_status encode_plain(tri_encoder *encoder, const char *text, size_t bytes) {
  const tri_vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
  if (vocabulary->characters) return tri_splitter_run(&encoder->splitter, text, bytes, encode_long_word, encoder);
  if (vocabulary->merge_count > 0 || encoder->tokenizer->pretokenizer.count > 0 || encoder->tokenizer->unknown >= 0 ||
      encoder->tokenizer->missing_bytes > 0) {
    return tri_splitter_run(&encoder->splitter, text, bytes, encode_word, encoder);
  }
  TRI_TRY(reserve(encoder->out, bytes)); /* every byte is a token */
  int32_t *ids = encoder->out->ids + encoder->out->count;
  for (size_t i = 0; i < bytes; i++) ids[i] = vocabulary->byte_ids[(uint8_t)text[i]];
  encoder->out->count += (int64_t)bytes;
  return TRI_OK;
}

/* ---- ends of tokens ---------------------------------------------------------------------------------------------- */

static tri_status add_end(tri_encoder *encoder, size_t end) {
  tri_token_ends *list = encoder->ends;
  if (list == NULL) return TRI_OK;
  TRI_TRY(tri_grow("the ends of tokens", sizeof *list->ends, list->count, &list->capacity, &list->ends));
  list->ends[list->count++] = end;
  return TRI_OK;
}

/* Returns the number of bytes of a token in the text after normalization. */
static size_t spelled_bytes(const tri_vocabulary *vocabulary, int32_t id) {
  return vocabulary->tokens[id].byte ? 1 : vocabulary->tokens[id].bytes;
}

/* Returns whether a byte of a text is dropped: it has no token, and there is no unknown token. */
static bool is_dropped(const tri_tokenizer *tokenizer, char byte) {
  return tokenizer->missing_bytes > 0 && tokenizer->vocabulary.byte_ids[(uint8_t)byte] < 0;
}

/* Appends the ends of the tokens from number `first` on, to which the plain text was encoded, if the caller of the
 * encoder asked for ends. The tokens must spell the text without its dropped bytes, perhaps with a space before it; if
 * they do not, fails with TRI_UNSUPPORTED. A dropped byte belongs to the token before it. */
static tri_status add_plain_ends(tri_encoder *encoder, const char *text, size_t bytes, int64_t first) {
  const tri_tokenizer *tokenizer = encoder->tokenizer;
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  size_t total = 0, kept = 0, at = 0, begin = (size_t)(text - encoder->level);
  if (encoder->ends == NULL) return TRI_OK;
  for (int64_t i = first; i < encoder->out->count; i++) total += spelled_bytes(vocabulary, encoder->out->ids[i]);
  for (size_t i = 0; i < bytes; i++) kept += !is_dropped(tokenizer, text[i]);
  bool spaced = !vocabulary->characters && total == kept + 1 && bytes > 0 && text[0] != ' ';
  if (total != kept && !spaced) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the tokenizer's tokens do not spell the whole text (it has an unk_token, or drops text that its "
                    "pattern does not match), so the tokens of an answer cannot be identified");
  }
  while (at < bytes && is_dropped(tokenizer, text[at])) at++;
  for (int64_t i = first; i < encoder->out->count; i++) {
    size_t left = spelled_bytes(vocabulary, encoder->out->ids[i]) - (spaced && i == first);
    for (; left > 0; left--) {
      at++;
      while (at < bytes && is_dropped(tokenizer, text[at])) at++;
    }
    TRI_TRY(add_end(encoder, begin + at));
  }
  return TRI_OK;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

typedef tri_status (*piece_encoder)(tri_encoder *encoder, const char *text, size_t bytes, bool specials);

static tri_status encode_pieces(tri_encoder *encoder, const tri_added_matcher *matcher, tri_added_walk walk,
                                bool specials, piece_encoder encode) {
  const char *text = walk.text;
  size_t gap = 0, gap_end = 0;
  int32_t id = 0;
  encoder->level = text;
  while (tri_added_next(matcher, &walk, specials, &gap, &gap_end, &id)) {
    if (gap < gap_end) TRI_TRY(encode(encoder, text + gap, gap_end - gap, specials));
    encoder->level = text;
    TRI_TRY(encoder_append(encoder->out, &id, 1));
    TRI_TRY(add_end(encoder, walk.done));
  }
  return walk.done < walk.bytes ? encode(encoder, text + walk.done, walk.bytes - walk.done, specials) : TRI_OK;
}

/* Sets encoder->following to the ranges of plain text in the piece [begin, end) of the text of the call, after its
 * normalization. Pieces come in order. */
static tri_status follow_plain(tri_encoder *encoder, size_t begin, size_t end) {
  encoder->num_following = 0;
  while (encoder->num_plain > 0 && encoder->plain->end <= begin) encoder->plain++, encoder->num_plain--;
  for (int64_t i = 0; i < encoder->num_plain && encoder->plain[i].begin < end; i++) {
    const tri_text_range range = encoder->plain[i];
    TRI_TRY(tri_grow("ranges of a text", sizeof range, encoder->num_following, &encoder->following_room,
                     &encoder->following));
    encoder->following[encoder->num_following++] =
        (tri_text_range){range.begin > begin ? range.begin - begin : 0, (range.end < end ? range.end : end) - begin};
  }
  tri_stepper_follow(&encoder->normalizer, &encoder->tokenizer->normalizer, encoder->following, encoder->num_following);
  return TRI_OK;
}

/* Runs the steps on a piece, and encodes the result. Converts the ends of the new tokens, if requested, to offsets in
 * the text before the steps. */
static tri_status encode_changed(tri_encoder *encoder, tri_stepper *stepper, const tri_text_steps *steps,
                                 const char *text, size_t bytes, bool specials, piece_encoder encode) {
  size_t begin = (size_t)(text - encoder->level);
  tri_text_place place = {.first = encoder->first && begin == 0, .continues = encoder->continues};
  int64_t first = encoder->ends == NULL ? 0 : encoder->ends->count;
  const bool follows = encoder->bpe.guarded && stepper == &encoder->normalizer;
  const size_t end = begin + bytes;
  stepper->keep_parts = encoder->ends != NULL || follows;
  TRI_TRY(tri_stepper_run(stepper, steps, place, text, bytes, &text, &bytes));
  if (follows) TRI_TRY(follow_plain(encoder, begin, end));
  bool was_first = encoder->first;
  encoder->first = place.first;
  tri_status status = encode(encoder, text, bytes, specials);
  encoder->first = was_first;
  TRI_TRY(status);
  if (encoder->ends == NULL) return TRI_OK;
  tri_stepper_undo(stepper, steps, begin, encoder->ends->ends + first, encoder->ends->count - first);
  return TRI_OK;
}

static tri_status encode_spaced_piece(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  int64_t first = encoder->out->count;
  (void)specials;
  encoder->level = text;
  TRI_TRY(encode_plain(encoder, text, bytes));
  return add_plain_ends(encoder, text, bytes, first);
}

static tri_status encode_normalized_piece(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  return encode_changed(encoder, &encoder->spaces, &encoder->tokenizer->spaces, text, bytes, specials,
                        encode_spaced_piece);
}

static tri_status encode_normalized(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  const tri_added_walk walk = {
      .text = text, .bytes = bytes, .plain = encoder->following, .num_plain = encoder->num_following};
  return encode_pieces(encoder, &encoder->tokenizer->normal, walk, specials, encode_normalized_piece);
}

static tri_status encode_raw_piece(tri_encoder *encoder, const char *text, size_t bytes, bool specials) {
  return encode_changed(encoder, &encoder->normalizer, &encoder->tokenizer->normalizer, text, bytes, specials,
                        encode_normalized);
}

static tri_status encode_walk(tri_encoder *encoder, tri_added_walk walk, bool specials, bool continues,
                              tri_token_list *out, tri_token_ends *ends) {
  encoder->out = out;
  encoder->ends = ends;
  encoder->continues = continues;
  encoder->first = true;
  encoder->plain = walk.plain;
  encoder->num_plain = walk.num_plain;
  encoder->bpe.guarded = walk.num_plain > 0;
  encoder->num_following = 0;
  return encode_pieces(encoder, &encoder->tokenizer->raw, walk, specials, encode_raw_piece);
}

static tri_status encode_text(tri_encoder *encoder, const char *text, size_t bytes, bool specials, bool continues,
                              tri_token_list *out, tri_token_ends *ends) {
  return encode_walk(encoder, (tri_added_walk){.text = text, .bytes = bytes}, specials, continues, out, ends);
}

tri_status tri_encoder_encode_guarded(tri_encoder *encoder, const char *text, size_t bytes,
                                      const tri_text_range *ranges, int64_t num_ranges, tri_token_list *out) {
  const tri_added_walk walk = {.text = text, .bytes = bytes, .plain = ranges, .num_plain = num_ranges};
  return encode_walk(encoder, walk, true, false, out, NULL);
}

tri_status tri_encoder_encode(tri_encoder *encoder, const char *text, size_t bytes, int specials, tri_token_list *out) {
  return encode_text(encoder, text, bytes, specials != 0, false, out, NULL);
}

tri_status tri_encoder_encode_rest(tri_encoder *encoder, const char *text, size_t bytes, int specials,
                                   tri_token_list *out) {
  return encode_text(encoder, text, bytes, specials != 0, true, out, NULL);
}

tri_status tri_encoder_encode_with_ends(tri_encoder *encoder, const char *text, size_t bytes, tri_token_list *out,
                                        tri_token_ends *ends) {
  return encode_text(encoder, text, bytes, true, false, out, ends);
}

/* ---- whole texts ------------------------------------------------------------------------------------------------- */

/* Returns the number of tokens at the end of tokenizer->beginning with which the text ids[count] already begins. */
static int64_t own_beginning(const tri_tokenizer *tokenizer, const int32_t *ids, int64_t count) {
  const int64_t most = tokenizer->num_beginning;
  int64_t same = count < most ? count : most;
  while (same > 0 && memcmp(tokenizer->beginning + most - same, ids, (size_t)same * sizeof *ids) != 0) same--;
  return same;
}

static tri_status encode_whole(tri_encoder *encoder, const char *text, size_t bytes, bool specials, tri_token_list *out,
                               tri_token_ends *ends) {
  const tri_tokenizer *tokenizer = encoder->tokenizer;
  const int64_t first = out->count;
  TRI_TRY(encode_text(encoder, text, bytes, specials, false, out, ends));
  if (tokenizer->num_beginning == 0) return TRI_OK;
  TRI_TRY(reserve(out, (size_t)tokenizer->num_beginning));
  const int64_t count = out->count - first;
  const int64_t before = tokenizer->num_beginning - own_beginning(tokenizer, out->ids + first, count);
  memmove(out->ids + first + before, out->ids + first, (size_t)count * sizeof *out->ids);
  memcpy(out->ids + first, tokenizer->beginning, (size_t)before * sizeof *out->ids);
  out->count += before;
  for (int64_t i = 0; ends != NULL && i < before; i++) {
    TRI_TRY(tri_grow("the ends of tokens", sizeof *ends->ends, ends->count, &ends->capacity, &ends->ends));
    memmove(ends->ends + ends->count - count + 1, ends->ends + ends->count - count, (size_t)count * sizeof *ends->ends);
    ends->ends[ends->count++ - count] = 0;
  }
  return TRI_OK;
}

tri_status tri_encoder_encode_text(tri_encoder *encoder, const char *text, size_t bytes, int specials,
                                   tri_token_list *out) {
  return encode_whole(encoder, text, bytes, specials != 0, out, NULL);
}

tri_status tri_encoder_encode_text_with_ends(tri_encoder *encoder, const char *text, size_t bytes, tri_token_list *out,
                                             tri_token_ends *ends) {
  return encode_whole(encoder, text, bytes, true, out, ends);
}
