/* Units are pairs or single answers; a document is a prompt and an answer (corpus.h). A document of n tokens occupies n
 * - 1 rows of a sample, because its last token is only a label. */
#include "data/preference_source.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/packing.h"
#include "data/permutation.h"
#include "device/completions.h"
#include "mesh/label.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A text of a sample: a prompt and an answer. */
typedef struct text {
  int64_t prompt, prompt_tokens; /* prompt: position of the prompt's first token in the corpus; prompt_tokens: number of
                                    its tokens after cutting */
  int64_t beginning, cut; /* beginning: number of tokens at the beginning of the prompt that are kept; cut: number of
                             tokens after them that are cut */
  int64_t answer, answer_tokens; /* answer: position of the answer's first token; answer_tokens: number of its tokens */
  int64_t document;              /* document of the answer */
  int side;                      /* 0 chosen or desirable, 1 rejected or undesirable */
} text;

static int64_t rows_of(const text *t) { return t->prompt_tokens + t->answer_tokens - 1; }

static int64_t num_documents(const tri_preference_source *source) { return tri_corpus_num_documents(source->corpus); }

static bool has_pairs(const tri_preference_source *source) { return tri_corpus_labels(source->corpus) == NULL; }

/* ---- units ------------------------------------------------------------------------------------------------------- */

static int64_t texts_of_unit(const tri_preference_source *source) { return source->options.paired ? 2 : 1; }

/* Returns the document of answer `which` of a unit, and sets *side to its side. */
static int64_t document_of(const tri_preference_source *source, int64_t unit, int64_t which, int *side) {
  const int64_t pairs = num_documents(source) / 2;
  if (source->options.paired) {
    *side = (int)which;
    return 2 * unit + which;
  }
  if (!has_pairs(source)) {
    *side = tri_corpus_labels(source->corpus)[unit] == 0;
    return unit;
  }
  *side = unit >= pairs;
  return unit < pairs ? 2 * unit : 2 * (unit - pairs) + 1;
}

/* Finds prompt and answer: the prompt ends at the first token whose mask is 1. */
static void find_text(const tri_corpus *corpus, int64_t document, text *out) {
  const int64_t first = tri_corpus_document(corpus, document), end = tri_corpus_document(corpus, document + 1);
  const uint8_t *mask = tri_corpus_mask(corpus, first, end - first);
  int64_t prompt = 0;
  while (prompt < end - first && mask[prompt] == 0) prompt++;
  out->prompt = first;
  out->prompt_tokens = prompt;
  out->beginning = out->cut = 0;
  out->answer = first + prompt;
  out->answer_tokens = end - first - prompt;
  out->document = document;
}

/* Finds text `which` of a unit. If `mismatched`, replaces its prompt by the prompt of the next line (by that of the
 * first line, if this is the last). */
static void text_of(const tri_preference_source *source, int64_t unit, int64_t which, bool mismatched, text *out) {
  int side = 0, other_side = 0;
  const int64_t document = document_of(source, unit, which, &side);
  find_text(source->corpus, document, out);
  out->side = side;
  if (!mismatched) return;
  text next;
  find_text(source->corpus, document_of(source, (unit + 1) % source->num_units, 0, &other_side), &next);
  out->prompt = next.prompt;
  out->prompt_tokens = next.prompt_tokens;
}

static int64_t sum_rows(const text *texts, int64_t count) {
  int64_t rows = 0;
  for (int64_t i = 0; i < count; i++) rows += rows_of(&texts[i]);
  return rows;
}

/* Returns the number of tokens at the beginning of a prompt that are not cut: those with which every text begins, such
 * as <s>, if this prompt has them. */
static int64_t beginning_of(const tri_preference_source *source, const text *t) {
  const int64_t count = source->options.num_beginning;
  int32_t ids[TRI_MOST_BEGINNING];
  if (count == 0 || count > t->prompt_tokens) return 0;
  if (tri_corpus_read(source->corpus, t->prompt, count, source->options.vocab_size, ids) != TRI_OK) return 0;
  return memcmp(ids, source->options.beginning, (size_t)count * sizeof *ids) == 0 ? count : 0;
}

/* Cuts the beginning of the prompts of a unit that is too long: the same number of tokens from each, since both answers
 * of a pair have the same prompt. In addition to the tokens of beginning_of, at least one token of each prompt remains;
 * if the unit is still too long, nothing is cut. */
static void shorten(const tri_preference_source *source, text *texts, int64_t count) {
  const int64_t over = sum_rows(texts, count) - source->options.sequence, cut = (over + count - 1) / count;
  int64_t beginnings[2] = {0, 0};
  if (over <= 0) return;
  for (int64_t i = 0; i < count; i++) {
    beginnings[i] = beginning_of(source, &texts[i]);
    if (texts[i].prompt_tokens - cut < beginnings[i] + 1) return;
  }
  for (int64_t i = 0; i < count; i++) {
    texts[i].beginning = beginnings[i];
    texts[i].cut = cut;
    texts[i].prompt_tokens -= cut;
  }
}

/* Makes the texts of a unit as they are in a sample. Returns the number of their rows, which may exceed a sequence. */
static int64_t make_unit(const tri_preference_source *source, int64_t unit, bool mismatched, text texts[2]) {
  const int64_t count = texts_of_unit(source);
  for (int64_t i = 0; i < count; i++) text_of(source, unit, i, mismatched, &texts[i]);
  if (source->options.too_long == TRI_TOO_LONG_TRUNCATE_PROMPT) shorten(source, texts, count);
  return sum_rows(texts, count);
}

/* The longest form of a unit in any sample. */
typedef struct unit_size {
  int64_t rows;
  bool mismatched; /* whether the longest form is the answer with the prompt of the next line */
  bool shortened;  /* whether a prompt is cut in one of the forms */
} unit_size;

static unit_size measure_unit(const tri_preference_source *source, int64_t unit) {
  text texts[2];
  unit_size size = {.rows = make_unit(source, unit, false, texts)};
  size.shortened = texts[0].cut > 0;
  if (!source->options.mismatched) return size;
  const int64_t others = make_unit(source, unit, true, texts);
  size.shortened = size.shortened || texts[0].cut > 0;
  size.mismatched = others > size.rows;
  if (size.mismatched) size.rows = others;
  return size;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static const char *noun_of(const tri_preference_source *source) { return source->options.paired ? "pair" : "answer"; }

/* Writes "pair 3", "answer 3", or "the chosen answer of pair 3" if pairs are read as answers. */
static void name_unit(const tri_preference_source *source, int64_t unit, char *out, size_t bytes) {
  int side = 0;
  const int64_t document = document_of(source, unit, 0, &side);
  if (source->options.paired || !has_pairs(source)) {
    snprintf(out, bytes, "%s %" PRId64, noun_of(source), unit + 1);
  } else {
    snprintf(out, bytes, "the %s answer of pair %" PRId64, side == 0 ? "chosen" : "rejected", document / 2 + 1);
  }
}

static tri_status refuse_long(const tri_preference_source *source, int64_t unit, const unit_size *size) {
  char name[64];
  name_unit(source, unit, name, sizeof name);
  return tri_fail(TRI_BAD_CONFIG,
                  "%s: %s takes %" PRId64 " tokens with %s, and data.sequence is %" PRId64
                  "; raise data.sequence, or set data.too_long to truncate_prompt (cuts the beginning of prompts) or "
                  "drop",
                  tri_corpus_name(source->corpus), name, size->rows,
                  size->mismatched         ? "the prompt of the next line, with which KTO compares it"
                  : source->options.paired ? "its prompts"
                                           : "its prompt",
                  source->options.sequence);
}

typedef struct measured {
  int64_t *rows;   /* number of rows of each unit [num_units]; 0: left out */
  int64_t *counts; /* number of units with each number of rows [sequence + 1] */
} measured;

static tri_status measure_units(tri_preference_source *source, measured *m) {
  const int64_t sequence = source->options.sequence;
  for (int64_t unit = 0; unit < source->num_units; unit++) {
    const unit_size size = measure_unit(source, unit);
    const bool too_long = size.rows > sequence;
    if (too_long && source->options.too_long == TRI_TOO_LONG_REFUSE) return refuse_long(source, unit, &size);
    source->left_out += too_long;
    if (too_long) continue;
    source->shortened += size.shortened;
    m->rows[unit] = size.rows;
    m->counts[size.rows]++;
  }
  if (source->left_out < source->num_units) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "%s: all %" PRId64 " %ss are longer than data.sequence, %" PRId64 " tokens; raise data.sequence",
                  tri_corpus_name(source->corpus), source->num_units, noun_of(source), sequence);
}

/* Sorts units by their rows, units of equal rows in the order of the corpus. Sets next[rows] to the place in `order` of
 * the first unit with that many rows. */
static void sort_units(const tri_preference_source *source, const measured *m, int64_t *next, int64_t *order) {
  const int64_t sequence = source->options.sequence;
  next[0] = 0;
  for (int64_t l = 1; l <= sequence + 1; l++) next[l] = l == 1 ? 0 : next[l - 1] + m->counts[l - 1];
  for (int64_t unit = 0; unit < source->num_units; unit++) {
    if (m->rows[unit] > 0) order[next[m->rows[unit]]++] = unit;
  }
  for (int64_t l = sequence + 1; l > 0; l--) next[l] = l == 1 ? 0 : next[l - 1];
}

static tri_status list_sequences(tri_preference_source *source, const tri_packing *packing, const int64_t *next,
                                 const int64_t *order) {
  const int64_t sequences = tri_packing_sequences(packing);
  int64_t at = 0, length = 0, number = 0;
  TRI_TRY(tri_alloc("sequences of preferences", (size_t)sequences + 1, sizeof *source->begins, &source->begins));
  TRI_TRY(tri_alloc("sequences of preferences", (size_t)source->num_units, sizeof *source->units, &source->units));
  for (int64_t s = 0; s < sequences; s++) {
    tri_packing_cursor cursor = tri_packing_at(packing, s);
    while (tri_packing_next(&cursor, &length, &number)) source->units[at++] = order[next[length] + number];
    source->begins[s + 1] = at;
    if (at - source->begins[s] > source->most_units) source->most_units = at - source->begins[s];
  }
  source->per_epoch = sequences;
  if (source->options.max_samples > 0 && source->options.max_samples < sequences)
    source->per_epoch = source->options.max_samples;
  return TRI_OK;
}

static tri_status pack(tri_preference_source *source) {
  const size_t units = (size_t)source->num_units, lengths = (size_t)source->options.sequence + 2;
  int64_t *next = NULL, *order = NULL;
  measured m = {NULL, NULL};
  tri_packing *packing = NULL;
  tri_status status = tri_alloc("lengths of preferences", units, sizeof *m.rows, &m.rows);
  if (status == TRI_OK) status = tri_alloc("lengths of preferences", lengths, sizeof *m.counts, &m.counts);
  if (status == TRI_OK) status = tri_alloc("lengths of preferences", lengths, sizeof *next, &next);
  if (status == TRI_OK) status = tri_alloc("lengths of preferences", units, sizeof *order, &order);
  if (status == TRI_OK) status = measure_units(source, &m);
  if (status == TRI_OK) status = tri_packing_create(source->options.sequence, m.counts, &packing);
  if (status == TRI_OK) {
    sort_units(source, &m, next, order);
    status = list_sequences(source, packing, next, order);
  }
  tri_packing_destroy(packing);
  tri_free(order);
  tri_free(next);
  tri_free(m.counts);
  tri_free(m.rows);
  return status;
}

static tri_status number_labels(tri_preference_source *source) {
  const int64_t documents = num_documents(source);
  TRI_TRY(
      tri_alloc("labels of preferences", (size_t)documents + 1, sizeof *source->label_begins, &source->label_begins));
  for (int64_t d = 0; d < documents; d++) {
    text t;
    find_text(source->corpus, d, &t);
    if (t.prompt_tokens < 1 || t.answer_tokens < 1) {
      return tri_fail(
          TRI_BAD_FILE,
          "%s: text %" PRId64
          " has %s; give each record a prompt and answers that are not empty, and prepare them again",
          tri_corpus_name(source->corpus), d + 1,
          t.prompt_tokens < 1 ? "no token before its answer, whose first token cannot be predicted then" : "no answer");
    }
    source->label_begins[d + 1] = source->label_begins[d] + t.answer_tokens;
  }
  source->num_labels = source->label_begins[documents];
  return TRI_OK;
}

static tri_status set_up(tri_preference_source *source) {
  const int64_t documents = num_documents(source);
  TRI_TRY(tri_corpus_want_preferences(source->corpus));
  if (source->options.paired && !has_pairs(source)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s has answers with labels, and `objective.name` is a loss of pairs; use kto or "
                    "apo_zero_unpaired, or prepare data that has chosen and rejected",
                    tri_corpus_name(source->corpus));
  }
  source->num_units = source->options.paired ? documents / 2 : documents;
  if (source->num_units == 0) return tri_fail(TRI_BAD_FILE, "%s has no text", tri_corpus_name(source->corpus));
  TRI_TRY(number_labels(source));
  return pack(source);
}

tri_status tri_preference_source_create(const tri_corpus *corpus, const tri_preference_source_options *options,
                                        tri_preference_source *out) {
  tri_preference_source source = {.corpus = corpus, .options = *options};
  tri_status status = set_up(&source);
  if (status == TRI_OK) *out = source;
  if (status != TRI_OK) tri_preference_source_destroy(&source);
  return status;
}

void tri_preference_source_destroy(tri_preference_source *source) {
  tri_free(source->label_begins);
  tri_free(source->units);
  tri_free(source->begins);
  *source = (tri_preference_source){0};
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static int64_t sequence_of(const tri_preference_at *at, int64_t index) {
  const tri_preference_source *source = at->source;
  index += at->first;
  if (at->in_order) return index % source->per_epoch;
  const uint64_t epoch = (uint64_t)(index / source->per_epoch), place = (uint64_t)(index % source->per_epoch);
  const tri_random_key key = tri_random_stream(source->options.seed, TRI_RANDOM_ORDER, epoch);
  return (int64_t)tri_permutation_at(key, (uint64_t)source->per_epoch, place);
}

/* Returns whether a label of a text has a weight in the cross entropy. `answer`: whether the label belongs to the
 * answer. */
static bool has_weight(const tri_preference_source *source, const text *t, bool answer) {
  switch (source->options.weights) {
    case TRI_PREFERENCE_WEIGHTS_NONE: return false;
    case TRI_PREFERENCE_WEIGHTS_ANSWERS: return t->side == 0 && answer;
    case TRI_PREFERENCE_WEIGHTS_TEXTS: break;
  }
  return t->side == 0;
}

/* Returns the index of an answer's first label in `reference`. */
static int64_t first_label(const tri_preference_at *at, const text *t) {
  return at->source->label_begins[t->document] + (at->mismatched ? at->source->num_labels : 0);
}

static tri_status read_prompt(const tri_preference_source *source, const text *t, int32_t *out) {
  const int64_t vocabulary = source->options.vocab_size, rest = t->prompt + t->beginning + t->cut;
  TRI_TRY(tri_corpus_read(source->corpus, t->prompt, t->beginning, vocabulary, out));
  return tri_corpus_read(source->corpus, rest, t->prompt_tokens - t->beginning, vocabulary, out + t->beginning);
}

static tri_status fill_text(const tri_preference_at *at, const text *t, int32_t segment, int64_t row,
                            const tri_sample *out) {
  const tri_preference_source *source = at->source;
  const int64_t rows = rows_of(t), prompt = t->prompt_tokens, vocabulary = source->options.vocab_size;
  const double *reference = source->reference == NULL ? NULL : source->reference + first_label(at, t);
  int32_t last;
  TRI_TRY(read_prompt(source, t, out->ids + row));
  if (t->answer_tokens > 1)
    TRI_TRY(tri_corpus_read(source->corpus, t->answer, t->answer_tokens - 1, vocabulary, out->ids + row + prompt));
  TRI_TRY(tri_corpus_read(source->corpus, t->answer + t->answer_tokens - 1, 1, vocabulary, &last));
  for (int64_t i = 0; i < rows; i++) {
    const bool answer = i + 1 >= prompt, weighs = !at->mismatched && has_weight(source, t, answer);
    const int32_t next = i + 1 < rows ? out->ids[row + i + 1] : last;
    out->positions[row + i] = (int32_t)i;
    out->labels[row + i] = answer || weighs ? next : TRI_LABEL_NONE;
    if (out->weights != NULL) out->weights[row + i] = weighs ? 1 : 0;
    if (out->segments != NULL) out->segments[row + i] = answer ? segment : -1;
    if (out->reference != NULL) out->reference[row + i] = answer && reference != NULL ? reference[i + 1 - prompt] : 0;
  }
  return TRI_OK;
}

static void fill_padding(const tri_preference_source *source, int64_t row, const tri_sample *out) {
  for (int64_t i = row; i < source->options.sequence; i++) {
    out->ids[i] = 0;
    out->labels[i] = TRI_LABEL_PADDING;
    out->positions[i] = (int32_t)((i - row) % TRI_PACKING_FILLING);
    if (out->weights != NULL) out->weights[i] = 0;
    if (out->segments != NULL) out->segments[i] = -1;
    if (out->reference != NULL) out->reference[i] = 0;
  }
}

/* Called for each text of a sample, with the number of its unit in the sample and the text's first row. */
typedef tri_status read_text(void *context, const text *t, int64_t number, int64_t row);

static tri_status walk(const tri_preference_at *at, int64_t index, read_text *take, void *context, int64_t *end) {
  const tri_preference_source *source = at->source;
  const int64_t sequence = sequence_of(at, index), first = source->begins[sequence];
  int64_t row = 0;
  for (int64_t u = first; u < source->begins[sequence + 1]; u++) {
    text texts[2];
    make_unit(source, source->units[u], at->mismatched, texts);
    for (int64_t i = 0; i < texts_of_unit(source); i++) {
      TRI_TRY(take(context, &texts[i], u - first, row));
      row += rows_of(&texts[i]);
    }
  }
  *end = row;
  return TRI_OK;
}

typedef struct filling {
  const tri_preference_at *at;
  const tri_sample *out;
} filling;

static tri_status visit_to_fill(void *context, const text *t, int64_t number, int64_t row) {
  const filling *f = context;
  return fill_text(f->at, t, (int32_t)(2 * number + t->side), row, f->out);
}

static tri_status read_sample(const void *from, int64_t index, const tri_sample *out) {
  const tri_preference_at *at = from;
  filling f = {at, out};
  int64_t end = 0;
  TRI_TRY(walk(at, index, visit_to_fill, &f, &end));
  fill_padding(at->source, end, out);
  return TRI_OK;
}

tri_feed tri_preference_feed(const tri_preference_at *at) { return (tri_feed){read_sample, at}; }

/* ---- log-probabilities ------------------------------------------------------------------------------------------- */

typedef struct summing {
  const tri_preference_at *at;
  const double *log_probs;
  tri_preference_unit *out;
  int64_t count;
} summing;

static double exact_sum(const double *terms, int64_t count) {
  tri_exact_sum sum = {0};
  for (int64_t i = 0; i < count; i++) tri_exact_term_add(&sum, terms[i]);
  return tri_exact_value(&sum);
}

static tri_status visit_to_sum(void *context, const text *t, int64_t number, int64_t row) {
  summing *s = context;
  const double *reference = s->at->source->reference;
  tri_completion_sums *sums = &s->out[number].sums[t->side];
  if (number == s->count) s->out[s->count++] = (tri_preference_unit){0};
  *sums = (tri_completion_sums){.logp = exact_sum(s->log_probs + row + t->prompt_tokens - 1, t->answer_tokens),
                                .labels = (double)t->answer_tokens};
  if (reference != NULL) sums->reference = exact_sum(reference + first_label(s->at, t), t->answer_tokens);
  return TRI_OK;
}

tri_status tri_preference_units(const tri_preference_at *at, int64_t index, const double *log_probs,
                                tri_preference_unit *out, int64_t *count) {
  summing s = {at, log_probs, out, 0};
  int64_t end = 0;
  TRI_TRY(walk(at, index, visit_to_sum, &s, &end));
  *count = s.count;
  return TRI_OK;
}

typedef struct storing {
  const tri_preference_at *at;
  const double *log_probs;
  double *reference;
} storing;

static tri_status visit_to_store(void *context, const text *t, int64_t number, int64_t row) {
  const storing *s = context;
  (void)number;
  memcpy(s->reference + first_label(s->at, t), s->log_probs + row + t->prompt_tokens - 1,
         (size_t)t->answer_tokens * sizeof *s->reference);
  return TRI_OK;
}

tri_status tri_preference_store(const tri_preference_at *at, int64_t index, const double *log_probs,
                                double *reference) {
  storing s = {at, log_probs, reference};
  int64_t end = 0;
  return walk(at, index, visit_to_store, &s, &end);
}
