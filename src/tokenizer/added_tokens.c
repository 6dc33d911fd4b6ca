/* Finds added tokens as Hugging Face tokenizers does. Matches do not overlap; the leftmost match is taken, and at one
 * position the longest. If the flags of that token forbid the match, the whole match is skipped. The tokens form a tree
 * of bytes. A text is searched for bytes that begin a token (nearly always '<' alone, so memchr does the work).
 * Contents are valid UTF-8, so a match never begins or ends inside a code point of the text. */
#include "tokenizer/added_tokens.h"

#include "base/memory.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

#include <string.h>

static tri_status new_node(tri_added_matcher *matcher, uint8_t byte, int32_t *out) {
  TRI_TRY(tri_grow("the added tokens", sizeof *matcher->nodes, matcher->count, &matcher->room, &matcher->nodes));
  matcher->nodes[matcher->count] = (tri_added_node){.token = -1, .byte = byte};
  *out = matcher->count++;
  return TRI_OK;
}

/* Finds the child of a node for a byte, and creates it if it is missing. */
static tri_status child_of(tri_added_matcher *matcher, int32_t node, uint8_t byte, int32_t *out) {
  for (int32_t child = matcher->nodes[node].child; child != 0; child = matcher->nodes[child].sibling) {
    if (matcher->nodes[child].byte == byte) {
      *out = child;
      return TRI_OK;
    }
  }
  int32_t made = 0;
  TRI_TRY(new_node(matcher, byte, &made));
  matcher->nodes[made].sibling = matcher->nodes[node].child;
  matcher->nodes[node].child = made;
  *out = made;
  return TRI_OK;
}

tri_status tri_added_matcher_create(tri_added_matcher *matcher, const tri_added_token *tokens, int64_t count,
                                    bool normalized) {
  *matcher = (tri_added_matcher){.tokens = tokens, .single_root = -1};
  int32_t root = 0; /* node 0 means "none" */
  TRI_TRY(new_node(matcher, 0, &root));
  for (int64_t i = 0; i < count; i++) {
    if (tokens[i].normalized != normalized || tokens[i].bytes == 0) continue;
    uint8_t first = (uint8_t)tokens[i].content[0];
    if (matcher->roots[first] == 0) TRI_TRY(new_node(matcher, first, &matcher->roots[first]));
    int32_t node = matcher->roots[first];
    for (size_t k = 1; k < tokens[i].bytes; k++) {
      TRI_TRY(child_of(matcher, node, (uint8_t)tokens[i].content[k], &node));
    }
    matcher->nodes[node].token = (int32_t)i;
  }
  int roots = 0;
  for (int byte = 0; byte < 256; byte++) {
    if (matcher->roots[byte] == 0) continue;
    matcher->single_root = byte;
    roots++;
  }
  if (roots != 1) matcher->single_root = -1;
  return TRI_OK;
}

void tri_added_matcher_release(tri_added_matcher *matcher) {
  tri_free(matcher->nodes);
  *matcher = (tri_added_matcher){0};
}

/* Returns whether a special token at [begin, end) has a byte in a range of plain text. Bytes that normalization has put
 * before the content (`prepended`) do not count. `begin` must not be smaller than in an earlier call. */
static bool is_plain(tri_added_walk *walk, const tri_added_token *token, size_t begin, size_t end) {
  int64_t i = 0;
  if (!token->special) return false;
  while (walk->num_plain > 0 && walk->plain->end <= begin) walk->plain++, walk->num_plain--;
  while (i < walk->num_plain && walk->plain[i].end <= begin + token->prepended) i++;
  return i < walk->num_plain && walk->plain[i].begin < end;
}

/* Returns the longest token at offset `start` of the text; NULL if there is none. Tokens for which is_plain is true do
 * not count, so a shorter token may be found in their place. */
static const tri_added_token *longest_at(const tri_added_matcher *matcher, tri_added_walk *walk, size_t start) {
  const char *text = walk->text + start;
  const size_t bytes = walk->bytes - start;
  const tri_added_token *found = NULL;
  int32_t node = matcher->roots[(uint8_t)text[0]];
  for (size_t i = 1; node != 0; i++) {
    const int32_t number = matcher->nodes[node].token;
    const tri_added_token *token = number >= 0 ? &matcher->tokens[number] : NULL;
    if (token != NULL && !is_plain(walk, token, start, start + i)) found = token;
    if (i == bytes) break;
    node = matcher->nodes[node].child;
    while (node != 0 && matcher->nodes[node].byte != (uint8_t)text[i]) node = matcher->nodes[node].sibling;
  }
  return found;
}

/* Returns the first token at or after offset *start, and sets *start to its offset; NULL if there is none. */
static const tri_added_token *search(const tri_added_matcher *matcher, tri_added_walk *walk, size_t *start) {
  if (matcher->count <= 1) return NULL;
  for (size_t i = *start; i < walk->bytes; i++) {
    if (matcher->single_root >= 0) {
      const char *next = memchr(walk->text + i, matcher->single_root, walk->bytes - i);
      if (next == NULL) return NULL;
      i = (size_t)(next - walk->text);
    }
    const tri_added_token *token = longest_at(matcher, walk, i);
    if (token != NULL) {
      *start = i;
      return token;
    }
  }
  return NULL;
}

/* Returns whether a code point belongs to words (UTS #18): alphabetic, marks, decimal digits, connectors, joiners. */
static bool is_word(uint32_t code) { return code == 0x200C || code == 0x200D || tri_unicode_is_word(code); }

/* Decodes the code point that ends at `end`, and returns its length; 0 at the beginning of the text, or if it is
 * invalid.
 */
static size_t decode_before(const char *text, size_t end, uint32_t *code) {
  for (size_t length = 1; length <= 4 && length <= end; length++) {
    if (((uint8_t)text[end - length] & 0xC0) == 0x80) continue;
    return tri_utf8_decode(text + end - length, length, code) == length ? length : 0;
  }
  return 0;
}

static bool allowed(const tri_added_token *token, const tri_added_walk *walk, size_t start, size_t stop,
                    bool specials) {
  if (token->special && !specials) return false;
  if (!token->single_word) return true;
  uint32_t code = 0;
  if (decode_before(walk->text, start, &code) > 0 && is_word(code)) return false;
  if (stop == walk->bytes) return true;
  return tri_utf8_decode(walk->text + stop, walk->bytes - stop, &code) == 0 || !is_word(code);
}

bool tri_added_next(const tri_added_matcher *matcher, tri_added_walk *walk, bool specials, size_t *gap, size_t *gap_end,
                    int32_t *id) {
  for (;;) {
    size_t start = walk->search, length = 0;
    uint32_t code = 0;
    const tri_added_token *token = search(matcher, walk, &start);
    if (token == NULL) return false;
    size_t stop = start + token->bytes;
    walk->search = stop;
    if (!allowed(token, walk, start, stop, specials)) continue;
    while (token->lstrip && start > walk->done && (length = decode_before(walk->text, start, &code)) > 0) {
      if (!tri_unicode_is_space(code)) break;
      start -= length;
    }
    while (token->rstrip && stop < walk->bytes &&
           (length = tri_utf8_decode(walk->text + stop, walk->bytes - stop, &code)) > 0) {
      if (!tri_unicode_is_space(code)) break;
      stop += length;
    }
    if (token->lstrip && stop <= walk->done) continue; /* an earlier match with rstrip includes the whole token */
    *gap = walk->done;
    *gap_end = start > walk->done ? start : walk->done;
    *id = token->id;
    walk->done = stop;
    return true;
  }
}
