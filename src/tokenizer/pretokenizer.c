/* Merges never cross the ends of words. A pre-tokenizer is a list of stages; each stage cuts every piece of the stage
 * before, and the pieces of the last one are the words. With a pattern, both the matches and the text between them are
 * pieces.
 *
 * PCRE2 does not check its subject (which would make each match linear in the rest of the text), so it must never get
 * invalid UTF-8: only tri_splitter_run passes text to it, and only ranges that it has found valid. */
#include "tokenizer/pretokenizer.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

static tri_status next_stage(tri_pretokenizer *pretokenizer, const char *where, tri_stage **out) {
  if (pretokenizer->count == TRI_MAX_STAGES) {
    return tri_fail(TRI_BAD_FILE, "%s: more than %d stages", where, TRI_MAX_STAGES);
  }
  *out = &pretokenizer->stages[pretokenizer->count];
  return TRI_OK;
}

tri_status tri_pretokenizer_add_pattern(tri_pretokenizer *pretokenizer, const char *where, const char *pattern,
                                        size_t bytes, bool literal, bool drop_unmatched) {
  tri_stage *stage = NULL;
  TRI_TRY(next_stage(pretokenizer, where, &stage));
  tri_compiled_pattern compiled = {0};
  char *text = NULL;
  TRI_TRY(tri_alloc("a pattern", bytes + 1, 1, &text));
  memcpy(text, pattern, bytes);
  tri_status status = tri_pattern_compile(where, pattern, bytes, literal, &compiled);
  if (status != TRI_OK) {
    tri_free(text);
    return status;
  }
  *stage = (tri_stage){
      .compiled = compiled, .drop_unmatched = drop_unmatched, .text = text, .text_bytes = bytes, .literal = literal};
  if (!literal && strlen(pattern) == bytes) stage->scanner = tri_scanner_of(pattern);
  pretokenizer->count++;
  return TRI_OK;
}

tri_status tri_pretokenizer_add_string(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind,
                                       const char *text, size_t bytes) {
  if (bytes == 0) return tri_fail(TRI_UNSUPPORTED, "%s: a Split by an empty string is not supported", where);
  TRI_TRY(tri_pretokenizer_add_pattern(pretokenizer, where, text, bytes, true, false));
  pretokenizer->stages[pretokenizer->count - 1].kind = kind;
  return TRI_OK;
}

tri_status tri_pretokenizer_add_stage(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind) {
  tri_stage *stage = NULL;
  TRI_TRY(next_stage(pretokenizer, where, &stage));
  *stage = (tri_stage){.kind = kind};
  pretokenizer->letters |= kind == TRI_STAGE_LETTERS;
  pretokenizer->count++;
  return TRI_OK;
}

void tri_pretokenizer_release(tri_pretokenizer *pretokenizer) {
  for (int i = 0; i < pretokenizer->count; i++) {
    tri_pattern_release(&pretokenizer->stages[i].compiled);
    tri_free(pretokenizer->stages[i].text);
  }
  *pretokenizer = (tri_pretokenizer){.count = 0};
}

tri_status tri_splitter_create(tri_splitter *splitter, const tri_pretokenizer *pretokenizer) {
  *splitter = (tri_splitter){.pretokenizer = pretokenizer};
  splitter->match = pcre2_match_data_create(1, NULL);
  splitter->context = pcre2_match_context_create(NULL);
  if (splitter->match == NULL || splitter->context == NULL) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot prepare to match patterns");
  }
  splitter->stack = pcre2_jit_stack_create(32 << 10, 4 << 20, NULL); /* NULL without JIT */
  if (splitter->stack != NULL) pcre2_jit_stack_assign(splitter->context, NULL, splitter->stack);
  return TRI_OK;
}

void tri_splitter_release(tri_splitter *splitter) {
  pcre2_match_data_free(splitter->match);
  pcre2_match_context_free(splitter->context);
  pcre2_jit_stack_free(splitter->stack);
  for (int i = 0; i < TRI_MAX_STAGES; i++) tri_free(splitter->mapped[i].text);
  tri_free(splitter->spaced);
  tri_free(splitter->letters);
  tri_free(splitter->word);
  *splitter = (tri_splitter){0};
}

/* Finds the first match at or after `at`: [*start, *stop), both `bytes` if there is none. Fails with TRI_UNSUPPORTED if
 * PCRE2 fails. */
static tri_status find_match(tri_splitter *splitter, const tri_stage *stage, const char *text, size_t bytes, size_t at,
                             size_t *start, size_t *stop) {
  int result = pcre2_match(stage->compiled.code, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, splitter->match,
                           splitter->context);
  *start = *stop = bytes;
  if (result == PCRE2_ERROR_NOMATCH) return TRI_OK;
  if (result < 0) {
    PCRE2_UCHAR reason[256];
    pcre2_get_error_message(result, reason, sizeof reason);
    return tri_fail(TRI_UNSUPPORTED, "the tokenizer's pattern fails on the text: %s", (const char *)reason);
  }
  const size_t *found = pcre2_get_ovector_pointer(splitter->match);
  if (found[0] < at || found[1] < found[0] || found[1] > bytes) { /* only \K can do that */
    return tri_fail(TRI_UNSUPPORTED, "the tokenizer's pattern matches backwards; remove \\K from it");
  }
  *start = found[0];
  *stop = found[1];
  return TRI_OK;
}

/* Sets *out to the text with which a stage's pattern is matched, which has the same length. It is valid until the
 * stage's next piece. */
static tri_status map_text(tri_splitter *splitter, int index, const char *text, size_t bytes, const char **out) {
  const tri_alphabet *alphabet = splitter->pretokenizer->stages[index].compiled.alphabet;
  tri_mapped_text *mapped = &splitter->mapped[index];
  *out = text;
  if (alphabet == NULL || tri_utf8_is_ascii(text, bytes)) return TRI_OK;
  TRI_TRY(tri_reserve("a piece of text", 1, bytes, &mapped->room, &mapped->text));
  tri_alphabet_map(alphabet, text, bytes, mapped->text);
  *out = mapped->text;
  return TRI_OK;
}

static tri_status run_stage(tri_splitter *splitter, int stage, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context);
static tri_status give_word(tri_splitter *splitter, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context);

static tri_status add_space(tri_splitter *splitter, int stage, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context) {
  if (text[0] == ' ') return run_stage(splitter, stage + 1, text, bytes, visit, context);
  TRI_TRY(tri_reserve("a piece of text", 1, bytes + 1, &splitter->spaced_room, &splitter->spaced));
  splitter->spaced[0] = ' ';
  memcpy(splitter->spaced + 1, text, bytes);
  return run_stage(splitter, stage + 1, splitter->spaced, bytes + 1, visit, context);
}

static tri_status cut(tri_splitter *splitter, int index, const char *text, size_t bytes, tri_word_visitor visit,
                      void *context) {
  const tri_stage *stage = &splitter->pretokenizer->stages[index];
  bool last = index + 1 == splitter->pretokenizer->count;
  const char *subject = NULL; /* the mapped text, set when the scanner cannot find a word */
  size_t from = 0, at = 0;    /* from: offset at which the next piece begins; at: offset at which the search begins */
  while (from < bytes) {
    size_t start = from, stop = from;
    if (at == from && stage->scanner != TRI_SCAN_NONE) {
      stop += tri_scanner_word(stage->scanner, text + from, bytes - from);
    }
    if (stop == from) {
      if (subject == NULL) TRI_TRY(map_text(splitter, index, text, bytes, &subject));
      TRI_TRY(find_match(splitter, stage, subject, bytes, at, &start, &stop));
    }
    if (start > from && !stage->drop_unmatched) {
      TRI_TRY(run_stage(splitter, index + 1, text + from, start - from, visit, context));
    }
    if (stop > start) {
      TRI_TRY(last ? give_word(splitter, text + start, stop - start, visit, context)
                   : run_stage(splitter, index + 1, text + start, stop - start, visit, context));
    }
    from = at = stop;
    if (stop == start && at < bytes) { /* an empty match cuts here; continue after the next code point */
      uint32_t code = 0;
      at += tri_utf8_decode(text + at, bytes - at, &code);
    }
  }
  return TRI_OK;
}

/* Cuts a text so that each match is joined to the text before or after it. [from, at) is a piece whose end is not known
 * yet. */
static tri_status cut_joined(tri_splitter *splitter, int index, const char *text, size_t bytes, tri_word_visitor visit,
                             void *context) {
  const tri_stage *stage = &splitter->pretokenizer->stages[index];
  const bool next = stage->kind == TRI_STAGE_WITH_NEXT;
  size_t from = 0, at = 0;
  bool waits_match = false; /* if `next`: whether the piece is a match; else: whether the next match is joined to the
                               piece */
  while (at < bytes) {
    size_t start = at, stop = at;
    TRI_TRY(find_match(splitter, stage, text, bytes, at, &start, &stop));
    if (start > at) { /* text before the next match */
      if (!(next && waits_match) && at > from) {
        TRI_TRY(run_stage(splitter, index + 1, text + from, at - from, visit, context));
        from = at;
      }
      at = start;
      waits_match = !next;
    }
    if (stop == start) continue;
    if ((next || !waits_match) && at > from) {
      TRI_TRY(run_stage(splitter, index + 1, text + from, at - from, visit, context));
      from = at;
    }
    at = stop;
    waits_match = next;
  }
  return at > from ? run_stage(splitter, index + 1, text + from, at - from, visit, context) : TRI_OK;
}

static tri_status to_letters(tri_splitter *splitter, int stage, const char *text, size_t bytes, tri_word_visitor visit,
                             void *context) {
  size_t length = 0;
  if (splitter->letters_room < bytes * 2) {
    splitter->letters_room = 0;
    TRI_TRY(tri_realloc("a piece of text", bytes * 4, 1, &splitter->letters));
    TRI_TRY(tri_realloc("a piece of text", bytes * 4, 1, &splitter->word));
    splitter->letters_room = bytes * 4;
  }
  for (size_t i = 0; i < bytes; i++) {
    length += tri_utf8_encode(tri_byte_letter((uint8_t)text[i]), splitter->letters + length);
  }
  return run_stage(splitter, stage + 1, splitter->letters, length, visit, context);
}

/* Visits a word of the last stage. Letters are converted back to bytes. */
static tri_status give_word(tri_splitter *splitter, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context) {
  size_t length = 0;
  if (!splitter->pretokenizer->letters) return visit(context, text, bytes);
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    i += tri_utf8_decode(text + i, bytes - i, &code);
    splitter->word[length++] = (char)(uint8_t)tri_letter_byte(code);
  }
  return visit(context, splitter->word, length);
}

static tri_status run_stage(tri_splitter *splitter, int stage, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context) {
  if (stage == splitter->pretokenizer->count) return give_word(splitter, text, bytes, visit, context);
  switch (splitter->pretokenizer->stages[stage].kind) {
    case TRI_STAGE_CUT: return cut(splitter, stage, text, bytes, visit, context);
    case TRI_STAGE_WITH_PREVIOUS:
    case TRI_STAGE_WITH_NEXT: return cut_joined(splitter, stage, text, bytes, visit, context);
    case TRI_STAGE_SPACE: return add_space(splitter, stage, text, bytes, visit, context);
    case TRI_STAGE_LETTERS: return to_letters(splitter, stage, text, bytes, visit, context);
  }
  return tri_fail_internal("stage %d is of no kind", stage);
}

tri_status tri_splitter_run(tri_splitter *splitter, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context) {
  while (bytes > 0) {
    size_t valid = tri_utf8_valid_bytes(text, bytes);
    if (valid > 0) TRI_TRY(run_stage(splitter, 0, text, valid, visit, context));
    size_t invalid = tri_utf8_invalid_bytes(text + valid, bytes - valid);
    if (invalid > 0) TRI_TRY(visit(context, text + valid, invalid));
    text += valid + invalid;
    bytes -= valid + invalid;
  }
  return TRI_OK;
}
