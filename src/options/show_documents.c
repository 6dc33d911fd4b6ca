#include "options/show_documents.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/document_text.h"
#include "data/documents.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "tokenizer/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tri_learnt_marks brackets = {"[[", "]]"}, green = {"\033[32m", "\033[0m"}, no_marks = {"", ""};

typedef struct shown {
  int64_t number,   /* index of the document among the documents that have tokens */
      first, count; /* position of its first token in the corpus; number of its tokens */
} shown;

/* Documents that are chosen for printing. A *unit* is a document, or the two documents of a pair. */
typedef struct show {
  const tri_show_request *asked;
  tri_corpus *corpus;
  tri_tokenizer *tokenizer;
  tri_documents documents;
  int64_t unit;     /* number of documents of a unit */
  int64_t seen;     /* number of documents visited so far */
  int64_t at;       /* place in `list` of the current unit; -1: it is not printed */
  shown *list;      /* [count * unit] */
  int64_t num_list; /* number of documents in the list */
} show;

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Returns the place of unit `index` in the list; -1: the unit is not printed. The first units fill the list. With a
 * seed, each later unit takes the place of a unit of the list with such a probability that in the end each unit is in
 * the list with the same probability (reservoir sampling). */
static int64_t place_of(const show *s, int64_t index) {
  if (index < s->asked->count) return index;
  if (s->asked->seed < 0) return -1;
  const tri_random_key key = tri_random_stream((uint64_t)s->asked->seed, TRI_RANDOM_ORDER, 0);
  const int64_t drawn = (int64_t)(tri_random_uniform(key, (uint64_t)index) * (double)(index + 1));
  return drawn < s->asked->count ? drawn : -1;
}

static tri_status visit(void *context, int64_t first, int64_t count) {
  show *s = context;
  const int64_t part = s->seen % s->unit;
  if (part == 0) s->at = place_of(s, s->seen / s->unit);
  if (s->at >= 0) {
    const int64_t place = s->at * s->unit + part;
    s->list[place] = (shown){s->seen, first, count};
    if (place >= s->num_list) s->num_list = place + 1;
  }
  s->seen++;
  return TRI_OK;
}

static int by_number(const void *a, const void *b) {
  const int64_t left = ((const shown *)a)->number, right = ((const shown *)b)->number;
  return (left > right) - (left < right);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Returns whether standard output shows colours (https://no-color.org). */
static bool has_colours(void) {
  const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
  const bool asked = no_colour == NULL || no_colour[0] == '\0';
  return isatty(STDOUT_FILENO) == 1 && asked && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

/* Returns the kind of an answer; "" for a document without preferences. */
static const char *kind_of(const show *s, const shown *document) {
  const uint8_t *labels = tri_corpus_labels(s->corpus);
  switch (tri_corpus_preferences(s->corpus)) {
    case TRI_PREFERENCES_NONE: break;
    case TRI_PREFERENCES_PAIRS: return document->number % 2 == 0 ? "chosen" : "rejected";
    case TRI_PREFERENCES_LABELS: return labels != NULL && labels[document->number] != 0 ? "desirable" : "undesirable";
  }
  return "";
}

static int64_t count_learnt(const uint8_t *mask, int64_t count) {
  int64_t learnt = mask == NULL ? count : 0;
  for (int64_t i = 0; mask != NULL && i < count; i++) learnt += mask[i] != 0;
  return learnt;
}

/* Prints a line for each token: its id, whether it is learnt, and its text as a JSON string. */
static tri_status print_tokens(const show *s, const int32_t *ids, const uint8_t *mask, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    size_t bytes = 0;
    const char *token = tri_tokenizer_token(s->tokenizer, ids[i], &bytes);
    json_t *text = tri_json_text(token, bytes);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    json_decref(text);
    if (quoted == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a token");
    printf("%8" PRId32 " %-8s %s\n", ids[i], mask == NULL || mask[i] != 0 ? "learnt" : "context", quoted);
    free(quoted);
  }
  return TRI_OK;
}

static tri_status print_line(const show *s, const shown *document, const char *text, size_t bytes, const int32_t *ids,
                             const uint8_t *mask) {
  const char *kind = kind_of(s, document);
  json_t *list = json_array(), *learnt = json_array();
  for (int64_t i = 0; i < document->count; i++) {
    json_array_append_new(list, json_integer(ids[i]));
    json_array_append_new(learnt, json_integer(mask == NULL || mask[i] != 0));
  }
  json_t *line = json_pack("{s:I, s:o, s:o, s:o}", "document", (json_int_t)document->number, "text",
                           tri_json_text(text, bytes), "ids", list, "learnt", learnt);
  if (line != NULL && kind[0] != '\0') json_object_set_new(line, "preference", json_string(kind));
  return tri_json_write_line(stdout, line, "a document");
}

static tri_status print_document(const show *s, const shown *document) {
  const tri_learnt_marks *marks = s->asked->json ? &no_marks : has_colours() ? &green : &brackets;
  const uint8_t *mask = tri_corpus_mask(s->corpus, document->first, document->count);
  const char *kind = kind_of(s, document);
  int32_t *ids = NULL;
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_alloc("tokens of a document", (size_t)document->count, sizeof *ids, &ids));
  tri_status status = tri_corpus_read(s->corpus, document->first, document->count, INT32_MAX, ids);
  if (status == TRI_OK)
    status = tri_document_text(s->corpus, s->tokenizer, document->first, document->count, marks, &text, &bytes);
  if (status == TRI_OK && s->asked->json) status = print_line(s, document, text, bytes, ids, mask);
  if (status == TRI_OK && !s->asked->json) {
    printf("--- document %" PRId64 "%s%s: %" PRId64 " tokens", document->number, kind[0] != '\0' ? ", " : "", kind,
           document->count);
    if (mask != NULL) printf(", %" PRId64 " of them learnt", count_learnt(mask, document->count));
    printf(" ---\n");
    if (bytes > 0) fwrite(text, 1, bytes, stdout);
    putchar('\n');
    if (s->asked->ids) status = print_tokens(s, ids, mask, document->count);
  }
  tri_free(text);
  tri_free(ids);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tri_status open_tokenizer(show *s) {
  const char *prefix = s->asked->prefix, *slash = strrchr(prefix, '/');
  char path[TRI_PATH_BYTES];
  const int length = slash == NULL ? 1 : (int)(slash - prefix);
  if (s->asked->tokenizer != NULL) TRI_TRY(tri_tokenizer_path(s->asked->tokenizer, path));
  if (s->asked->tokenizer == NULL) {
    char folder[TRI_PATH_BYTES];
    snprintf(folder, sizeof folder, "%.*s", length, slash == NULL ? "." : prefix);
    TRI_TRY(tri_path_join(path, folder, "tokenizer.json"));
    if (!tri_path_exists(path)) {
      return tri_fail(TRI_BAD_FILE,
                      "inspect --show: %s is not there, so the tokens have no text; give --tokenizer FILE", path);
    }
  }
  TRI_TRY(tri_tokenizer_create(path, &s->tokenizer));
  return tri_corpus_check_tokenizer(s->corpus, s->tokenizer, path);
}

static tri_status show_all(show *s) {
  TRI_TRY(tri_corpus_open(s->asked->prefix, &s->corpus));
  TRI_TRY(open_tokenizer(s));
  s->documents = tri_documents_of(s->corpus, tri_tokenizer_end_of_text(s->tokenizer));
  switch (tri_corpus_preferences(s->corpus)) {
    case TRI_PREFERENCES_NONE:
    case TRI_PREFERENCES_LABELS: s->unit = 1; break;
    case TRI_PREFERENCES_PAIRS: s->unit = 2; break;
  }
  TRI_TRY(tri_alloc("documents", (size_t)(s->asked->count * s->unit), sizeof *s->list, &s->list));
  TRI_TRY(tri_documents_walk(&s->documents, visit, s));
  qsort(s->list, (size_t)s->num_list, sizeof *s->list, by_number);
  for (int64_t i = 0; i < s->num_list; i++) TRI_TRY(print_document(s, &s->list[i]));
  return TRI_OK;
}

tri_status tri_show_documents(const tri_show_request *request) {
  show s = {.asked = request, .at = -1};
  const tri_status status = show_all(&s);
  tri_free(s.list);
  tri_tokenizer_destroy(s.tokenizer);
  tri_corpus_close(s.corpus);
  return status;
}
