#include "options/inspect_corpus.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/lengths.h"
#include "data/pieces.h"
#include "files/file.h"
#include "options/inspect_preferences.h"
#include "options/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t usual[] = {1024, 2048, 4096, 8192};
enum { NUM_USUAL = sizeof usual / sizeof usual[0] };

typedef struct inspection {
  tri_corpus *corpus;
  tri_documents documents;
  bool by_index; /* whether the index has the boundaries of documents */
  tri_lengths lengths;
  int64_t sequences[NUM_USUAL];
  tri_packing_facts facts[NUM_USUAL];
  int num_sequences;
} inspection;

/* Sets *out to the id of the end-of-text token of the given tokenizer; if none is given, of the tokenizer in the
 * corpus's folder. Sets *out to -1 if there is no tokenizer. */
static tri_status find_end_of_text(const char *prefix, const char *given, int32_t *out) {
  char directory[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer = NULL;
  *out = -1;
  if (given == NULL) {
    const char *slash = strrchr(prefix, '/');
    int length = slash == NULL ? 1 : (int)(slash - prefix);
    snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : prefix);
    TRI_TRY(tri_path_join(path, directory, "tokenizer.json"));
    if (!tri_path_exists(path)) return TRI_OK;
    given = path;
  }
  if (given != path) TRI_TRY(tri_tokenizer_path(given, path));
  TRI_TRY(tri_tokenizer_create(path, &tokenizer));
  *out = tri_tokenizer_end_of_text(tokenizer);
  tri_tokenizer_destroy(tokenizer);
  return TRI_OK;
}

static tri_status look(inspection *i, const char *prefix, const char *tokenizer, int64_t sequence) {
  int32_t end_of_text = -1;
  TRI_TRY(tri_corpus_open(prefix, &i->corpus));
  i->by_index = tri_documents_in_index(i->corpus);
  if (!i->by_index) TRI_TRY(find_end_of_text(prefix, tokenizer, &end_of_text));
  i->documents = tri_documents_of(i->corpus, end_of_text);
  TRI_TRY(tri_lengths_count(&i->documents, &i->lengths));
  i->num_sequences = sequence > 0 ? 1 : NUM_USUAL;
  for (int s = 0; s < i->num_sequences; s++) {
    i->sequences[s] = sequence > 0 ? sequence : usual[s];
    TRI_TRY(tri_packing_look(&i->documents, i->sequences[s], &i->facts[s]));
  }
  return TRI_OK;
}

/* Returns the sum of the buckets with lengths in [2^power, 2^(power + 1)). */
static tri_length_bucket power_of(const tri_lengths *lengths, int power) {
  tri_length_bucket sum = {0, 0};
  for (int part = 0; part < TRI_LENGTH_PARTS; part++) {
    sum.documents += lengths->buckets[power * TRI_LENGTH_PARTS + part].documents;
    sum.tokens += lengths->buckets[power * TRI_LENGTH_PARTS + part].tokens;
  }
  return sum;
}

static void print_corpus(const inspection *i, const char *prefix) {
  const tri_lengths *l = &i->lengths;
  char tokens[32];
  printf("%s: %" PRId64 " document%s, %s tokens, by %s\n", prefix, l->documents, TRI_PLURAL(l->documents),
         tri_format_count((double)l->tokens, tokens, sizeof tokens),
         i->by_index                     ? "the index"
         : i->documents.end_of_text >= 0 ? "its end-of-text tokens, since the index has one document"
                                         : "the index, which has one, and no end-of-text token is known");
  if (tri_corpus_num_empty(i->corpus) > 0) {
    printf("and %" PRId64 " of no tokens, which are passed over\n", tri_corpus_num_empty(i->corpus));
  }
  if (tri_corpus_preferences(i->corpus) != TRI_PREFERENCES_NONE) {
    char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES];
    tri_inspect_preferences(i->corpus, lines);
    printf("preferences: %s\n", lines[0]);
    for (int k = 1; k < TRI_PREFERENCE_LINES; k++) printf("  %s\n", lines[k]);
  } else if (tri_corpus_has_mask(i->corpus)) {
    printf("conversations: %" PRId64 " of %" PRId64 " tokens are learnt (%.2f %%), the others are context\n",
           tri_corpus_num_learnt(i->corpus), l->tokens,
           100.0 * (double)tri_corpus_num_learnt(i->corpus) / (double)l->tokens);
  }
  printf("lengths: %" PRId64 " to %" PRId64 " tokens, mean %.1f\n\n", l->shortest, l->longest,
         (double)l->tokens / (double)l->documents);
  printf("%25s %14s %8s %8s\n", "tokens", "documents", "", "of text");
  for (int b = 0; b < TRI_LENGTH_POWERS; b++) {
    const tri_length_bucket power = power_of(l, b);
    if (power.documents == 0) continue;
    printf("%12" PRId64 "-%-12" PRId64 " %14" PRId64 " %6.2f %% %6.2f %%\n", INT64_C(1) << b, (INT64_C(1) << b) * 2 - 1,
           power.documents, 100.0 * (double)power.documents / (double)l->documents,
           100.0 * (double)power.tokens / (double)l->tokens);
  }
  printf(
      "\npacked whole into sequences (data.packing: documents), and attention's area that masks leave\n"
      "(data.documents: masked) of what joined documents have\n\n");
  printf("%10s %14s %10s %16s %16s\n", "sequence", "sequences", "padding", "area, packed", "area, windows");
  for (int s = 0; s < i->num_sequences; s++) {
    const tri_packing_facts *f = &i->facts[s];
    printf("%10" PRId64 " %14" PRId64 " %8.2f %% %14.2f %% %14.2f %%\n", i->sequences[s], f->sequences,
           100 * f->padding, 100 * f->packed_fraction, 100 * f->windows_fraction);
  }
}

static void append_lengths(json_t *list, int64_t from, int64_t to, tri_length_bucket counted) {
  if (counted.documents == 0) return;
  json_array_append_new(list,
                        json_pack("{s:I, s:I, s:I, s:I}", "from", (json_int_t)from, "to", (json_int_t)to, "documents",
                                  (json_int_t)counted.documents, "tokens", (json_int_t)counted.tokens));
}

static tri_status print_corpus_json(const inspection *i, const char *prefix) {
  const tri_lengths *l = &i->lengths;
  json_t *powers = json_array(), *parts = json_array(), *sequences = json_array();
  for (int b = 0; b < TRI_LENGTH_POWERS; b++) {
    append_lengths(powers, INT64_C(1) << b, INT64_MAX >> (TRI_LENGTH_POWERS - 1 - b), power_of(l, b));
  }
  for (int b = 0; b < TRI_LENGTH_BUCKETS; b++) {
    append_lengths(parts, tri_length_bucket_from(b), tri_length_bucket_from(b + 1) - 1, l->buckets[b]);
  }
  for (int s = 0; s < i->num_sequences; s++) {
    const tri_packing_facts *f = &i->facts[s];
    json_array_append_new(sequences, json_pack("{s:I, s:I, s:f, s:f, s:f}", "sequence", (json_int_t)i->sequences[s],
                                               "packed_sequences", (json_int_t)f->sequences, "filling", f->padding,
                                               "packed_area", f->packed_fraction, "windows_area", f->windows_fraction));
  }
  json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:f, s:o, s:o, s:o}", "corpus", prefix, "documents",
                           (json_int_t)l->documents, "empty_documents", (json_int_t)tri_corpus_num_empty(i->corpus),
                           "tokens", (json_int_t)l->tokens, "boundaries",
                           i->by_index                     ? "index"
                           : i->documents.end_of_text >= 0 ? "end of text"
                                                           : "none",
                           "shortest", (json_int_t)l->shortest, "longest", (json_int_t)l->longest, "mean",
                           (double)l->tokens / (double)l->documents, "lengths", powers, "finer_lengths", parts,
                           "sequences", sequences);
  if (root != NULL && tri_corpus_has_mask(i->corpus)) {
    json_object_set_new(root, "learnt_tokens", json_integer(tri_corpus_num_learnt(i->corpus)));
  }
  if (root != NULL && tri_corpus_preferences(i->corpus) != TRI_PREFERENCES_NONE) {
    json_object_set_new(root, "preferences", tri_inspect_preferences_json(i->corpus));
  }
  return tri_print_json(root);
}

tri_status tri_inspect_corpus(const char *prefix, const char *tokenizer, int64_t sequence, bool json) {
  inspection i = {0};
  tri_status status = look(&i, prefix, tokenizer, sequence);
  if (status == TRI_OK && json) status = print_corpus_json(&i, prefix);
  if (status == TRI_OK && !json) print_corpus(&i, prefix);
  tri_corpus_close(i.corpus);
  return status;
}

tri_status tri_inspect_attention_fraction(const char *prefix, const char *tokenizer, int64_t sequence, bool packed,
                                          double *fraction, tri_length_ranges *lengths) {
  inspection i = {0};
  tri_status status = look(&i, prefix, tokenizer, sequence);
  if (status == TRI_OK) {
    *fraction = packed ? i.facts[0].packed_fraction : i.facts[0].windows_fraction;
    lengths->count = 0;
    for (int b = 0; b < TRI_LENGTH_BUCKETS; b++) {
      const tri_length_bucket *bucket = &i.lengths.buckets[b];
      if (bucket->documents == 0) continue;
      lengths->ranges[lengths->count++] = (tri_length_range){
          tri_length_bucket_from(b), tri_length_bucket_from(b + 1) - 1, bucket->documents, bucket->tokens};
    }
  }
  tri_corpus_close(i.corpus);
  return status;
}

tri_status tri_inspect_log_padding(const char *prefix) {
  inspection i = {0};
  tri_status status = look(&i, prefix, NULL, 0);
  if (status == TRI_OK && i.lengths.documents > 1) {
    tri_log("  packed whole into sequences of %" PRId64 ", %" PRId64 ", %" PRId64 " and %" PRId64
            " tokens (data.packing: documents), training has %.1f, %.1f, %.1f and %.1f %% of padding",
            usual[0], usual[1], usual[2], usual[3], 100 * i.facts[0].padding, 100 * i.facts[1].padding,
            100 * i.facts[2].padding, 100 * i.facts[3].padding);
  }
  tri_corpus_close(i.corpus);
  return status;
}

/* ---- lengths of preferences -------------------------------------------------------------------------------------- */

tri_status tri_inspect_log_preferences(const char *prefix) {
  char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES];
  tri_corpus *corpus = NULL;
  TRI_TRY(tri_corpus_open(prefix, &corpus));
  tri_inspect_preferences(corpus, lines);
  tri_log("  %s: %s; %s; %s; %s", prefix, lines[0], lines[1], lines[2], lines[3]);
  tri_corpus_close(corpus);
  return TRI_OK;
}

/* ---- lengths of conversations ------------------------------------------------------------------------------------ */

typedef struct length_list {
  int64_t *lengths, count, room;
} length_list;

static tri_status add_length(void *context, int64_t first, int64_t length) {
  length_list *list = context;
  (void)first;
  if (list->count == list->room) {
    list->room = 2 * list->room + 64;
    TRI_TRY(tri_realloc("lengths of conversations", (size_t)list->room, sizeof *list->lengths, &list->lengths));
  }
  list->lengths[list->count++] = length;
  return TRI_OK;
}

static int compare_lengths(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

tri_status tri_inspect_log_longest(const char *const *prefixes, int count) {
  length_list list = {0};
  tri_status status = TRI_OK;
  for (int i = 0; i < count && status == TRI_OK; i++) {
    tri_corpus *corpus = NULL;
    status = tri_corpus_open(prefixes[i], &corpus);
    if (status != TRI_OK) break;
    const tri_documents documents = tri_documents_of(corpus, -1);
    status = tri_documents_walk(&documents, add_length, &list);
    tri_corpus_close(corpus);
  }
  if (status == TRI_OK && list.count > 0) {
    qsort(list.lengths, (size_t)list.count, sizeof *list.lengths, compare_lengths);
    tri_log("  the longest has %" PRId64 " tokens, and 95 %% have %" PRId64
            " or fewer; longer ones than data.sequence are truncated by default (data.too_long)",
            list.lengths[list.count - 1], list.lengths[(95 * list.count + 99) / 100 - 1]);
  }
  tri_free(list.lengths);
  return status;
}
