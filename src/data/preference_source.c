/* Units are pairs or single answers; a document is a prompt and an answer (corpus.h). A document of n tokens takes n -
 * 1 rows of a sample: its last token is a label, and nothing follows it. */
#include "data/preference_source.h"

#include "base/label.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/packing.h"
#include "data/permutation.h"
#include "device/completions.h"

#include <inttypes.h>
#include <string.h>

/* A text of a sample: a prompt, from behind what is cut off it, and an answer. */
typedef struct text {
  int64_t prompt, prompt_tokens; /* first token in the corpus, number */
  int64_t answer, answer_tokens;
  int64_t document; /* of the answer */
  int side;         /* 0 chosen or desirable, 1 rejected or undesirable */
} text;

static int64_t rows_of(const text *t) { return t->prompt_tokens + t->answer_tokens - 1; }

static int64_t num_documents(const tri_preference_source *source) { return tri_corpus_num_documents(source->corpus); }

static bool has_pairs(const tri_preference_source *source) { return tri_corpus_labels(source->corpus) == NULL; }

/* ---- units ------------------------------------------------------------------------------------------------------- */

static int64_t texts_of_unit(const tri_preference_source *source) { return source->options.paired ? 2 : 1; }

/* The document of an answer of a unit, and its side. */
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

/* The prompt is what the mask keeps as context, up to the first token of the answer. */
static void find_text(const tri_corpus *corpus, int64_t document, text *out) {
  const int64_t first = tri_corpus_document(corpus, document), end = tri_corpus_document(corpus, document + 1);
  const uint8_t *mask = tri_corpus_mask(corpus, first, end - first);
  int64_t prompt = 0;
  while (prompt < end - first && mask[prompt] == 0) prompt++;
  out->prompt = first;
  out->prompt_tokens = prompt;
  out->answer = first + prompt;
  out->answer_tokens = end - first - prompt;
  out->document = document;
}

/* A text of a unit, or its answer behind the prompt of the next line. */
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

/* Cuts the beginning off prompts of a unit that is too long, as evenly as can be; each keeps a token. False if that is
 * not enough. */
static bool shorten(const tri_preference_source *source, text *texts, int64_t count) {
  int64_t over = -source->options.sequence;
  for (int64_t i = 0; i < count; i++) over += rows_of(&texts[i]);
  while (over > 0) {
    text *longest = &texts[0];
    for (int64_t i = 1; i < count; i++) {
      if (texts[i].prompt_tokens > longest->prompt_tokens) longest = &texts[i];
    }
    int64_t least = longest->prompt_tokens;
    for (int64_t i = 0; i < count; i++) least = texts[i].prompt_tokens < least ? texts[i].prompt_tokens : least;
    int64_t cut = longest->prompt_tokens > least ? longest->prompt_tokens - least : (over + count - 1) / count;
    if (cut > over) cut = over;
    if (cut >= longest->prompt_tokens) cut = longest->prompt_tokens - 1;
    if (cut == 0) return false;
    longest->prompt += cut;
    longest->prompt_tokens -= cut;
    over -= cut;
  }
  return true;
}

/* The texts of a unit as they stand in a sample. Returns the rows that they take, more than a sequence where it is too
 * long. */
static int64_t make_unit(const tri_preference_source *source, int64_t unit, bool mismatched, text texts[2]) {
  const int64_t count = texts_of_unit(source);
  int64_t rows = 0;
  for (int64_t i = 0; i < count; i++) text_of(source, unit, i, mismatched, &texts[i]);
  if (source->options.too_long == TRI_TOO_LONG_TRUNCATE_PROMPT) shorten(source, texts, count);
  for (int64_t i = 0; i < count; i++) rows += rows_of(&texts[i]);
  return rows;
}

/* The most that a unit takes in any sample. */
static int64_t unit_rows(const tri_preference_source *source, int64_t unit) {
  text texts[2];
  const int64_t rows = make_unit(source, unit, false, texts);
  if (!source->options.mismatched) return rows;
  const int64_t others = make_unit(source, unit, true, texts);
  return others > rows ? others : rows;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static const char *noun_of(const tri_preference_source *source) { return source->options.paired ? "pair" : "answer"; }

static tri_status refuse_long(const tri_preference_source *source, int64_t unit, int64_t rows) {
  return tri_fail(TRI_BAD_CONFIG,
                  "%s: %s %" PRId64 " takes %" PRId64 " tokens with its prompt%s, and data.sequence is %" PRId64
                  "; raise data.sequence, or set data.too_long to truncate_prompt (cuts the beginning of prompts) or "
                  "drop",
                  tri_corpus_name(source->corpus), noun_of(source), unit + 1, rows, source->options.paired ? "s" : "",
                  source->options.sequence);
}

typedef struct measured {
  int64_t *rows;   /* [num_units]; 0: left out */
  int64_t *counts; /* [sequence + 1] */
} measured;

static tri_status measure_units(tri_preference_source *source, measured *m) {
  const int64_t sequence = source->options.sequence;
  for (int64_t unit = 0; unit < source->num_units; unit++) {
    text before[2];
    const int64_t rows = unit_rows(source, unit);
    int64_t whole = 0;
    if (rows > sequence && source->options.too_long == TRI_TOO_LONG_REFUSE) return refuse_long(source, unit, rows);
    source->left_out += rows > sequence;
    if (rows > sequence) continue;
    for (int64_t i = 0; i < texts_of_unit(source); i++) {
      text_of(source, unit, i, false, &before[i]);
      whole += rows_of(&before[i]);
    }
    source->shortened += whole > sequence;
    m->rows[unit] = rows;
    m->counts[rows]++;
  }
  if (source->left_out < source->num_units) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "%s: all %" PRId64 " %ss are longer than data.sequence, %" PRId64 " tokens; raise data.sequence",
                  tri_corpus_name(source->corpus), source->num_units, noun_of(source), sequence);
}

/* Units in the order of their rows, and of the corpus among those of as many: next[rows] is where the first lies. */
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
  if (status != TRI_OK) {
    tri_preference_source_destroy(&source);
    return status;
  }
  *out = source;
  return TRI_OK;
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

/* Whether label t of a text, the one of its token t, counts in the cross entropy. */
static bool has_weight(const tri_preference_source *source, const text *t, bool answer) {
  switch (source->options.weights) {
    case TRI_PREFERENCE_WEIGHTS_NONE: return false;
    case TRI_PREFERENCE_WEIGHTS_ANSWERS: return t->side == 0 && answer;
    case TRI_PREFERENCE_WEIGHTS_TEXTS: break;
  }
  return t->side == 0;
}

/* Number of an answer's first label in `reference`. */
static int64_t first_label(const tri_preference_at *at, const text *t) {
  return at->source->label_begins[t->document] + (at->mismatched ? at->source->num_labels : 0);
}

static tri_status fill_text(const tri_preference_at *at, const text *t, int32_t segment, int64_t row,
                            const tri_sample *out) {
  const tri_preference_source *source = at->source;
  const int64_t rows = rows_of(t), prompt = t->prompt_tokens, vocabulary = source->options.vocab_size;
  const double *reference = source->reference == NULL ? NULL : source->reference + first_label(at, t);
  int32_t last;
  TRI_TRY(tri_corpus_read(source->corpus, t->prompt, prompt, vocabulary, out->ids + row));
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

/* A walk over the texts of a sample. */
typedef tri_status take_text(void *context, const text *t, int64_t number, int64_t row);

static tri_status walk(const tri_preference_at *at, int64_t index, take_text *take, void *context, int64_t *end) {
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

static tri_status take_to_fill(void *context, const text *t, int64_t number, int64_t row) {
  const filling *f = context;
  return fill_text(f->at, t, (int32_t)(2 * number + t->side), row, f->out);
}

static tri_status read_sample(const void *from, int64_t index, const tri_sample *out) {
  const tri_preference_at *at = from;
  filling f = {at, out};
  int64_t end = 0;
  TRI_TRY(walk(at, index, take_to_fill, &f, &end));
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

static tri_status take_to_sum(void *context, const text *t, int64_t number, int64_t row) {
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
  TRI_TRY(walk(at, index, take_to_sum, &s, &end));
  *count = s.count;
  return TRI_OK;
}

typedef struct storing {
  const tri_preference_at *at;
  const double *log_probs;
  double *reference;
} storing;

static tri_status take_to_store(void *context, const text *t, int64_t number, int64_t row) {
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
  return walk(at, index, take_to_store, &s, &end);
}
