#include "engine/scorer.h"

#include "base/label.h"
#include "base/memory.h"
#include "data/packing.h"
#include "engine/evaluate.h"
#include "model/family.h"

#include <string.h>

struct tri_scorer {
  tri_device *device;
  int64_t batch, sequence;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_executor *executor;
  bool prepared;
  double *scores; /* [batch * sequence]: of the batch at hand */
};

static tri_status scorer_set_up(tri_scorer *scorer, const tri_model *model, tri_dtype precision) {
  TRI_TRY(tri_device_supports(scorer->device, precision));
  TRI_TRY(tri_parameter_table_create(model, NULL, &scorer->table));
  tri_list_request list = tri_list_request_whole(model, TRI_LIST_SCORE, scorer->batch, scorer->sequence, precision);
  list.masked = true;
  TRI_TRY(tri_model_operations(model, &list, &scorer->list));
  const tri_memory_request request =
      tri_memory_request_forward(&scorer->list, scorer->table->num_elements, &scorer->device->description);
  TRI_TRY(tri_executor_create(scorer->table, &request, scorer->device, NULL, &scorer->executor));
  return tri_alloc("scores", (size_t)(scorer->batch * scorer->sequence), sizeof *scorer->scores, &scorer->scores);
}

tri_status tri_scorer_create(const tri_model *model, tri_dtype precision, int64_t batch, int64_t sequence,
                             tri_device *device, tri_scorer **out) {
  tri_scorer *scorer = NULL;
  TRI_TRY(tri_alloc("a scorer", 1, sizeof *scorer, &scorer));
  scorer->device = device;
  scorer->batch = batch;
  scorer->sequence = sequence;
  tri_status status = scorer_set_up(scorer, model, precision);
  if (status != TRI_OK) {
    tri_scorer_destroy(scorer);
    return status;
  }
  *out = scorer;
  return TRI_OK;
}

void tri_scorer_destroy(tri_scorer *scorer) {
  if (scorer == NULL) return;
  tri_free(scorer->scores);
  tri_executor_destroy(scorer->executor);
  tri_op_list_destroy(scorer->list);
  tri_parameter_table_destroy(scorer->table);
  tri_free(scorer);
}

tri_executor *tri_scorer_executor(tri_scorer *scorer) { return scorer->executor; }

const tri_parameter_table *tri_scorer_parameters(const tri_scorer *scorer) { return scorer->table; }

void tri_scorer_parameters_changed(tri_scorer *scorer) { scorer->prepared = false; }

/* ---- which texts share a sequence -------------------------------------------------------------------------------- */

/* Texts by their lengths, and a packing of the lengths: it names a text by its number among those of its length. */
typedef struct arrangement {
  const tri_scored_text *texts;
  int64_t *begins; /* [sequence + 2]: texts of length l are order[begins[l]] on */
  int64_t *order;  /* [count] */
  tri_packing *packing;
} arrangement;

/* The last token is predicted and not read. */
static int64_t length_of(const tri_scored_text *text) { return text->count - 1; }

static tri_status check_texts(const tri_scorer *scorer, const tri_scored_text *texts, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const tri_scored_text *text = &texts[i];
    if (text->first > 0 && text->first < text->count && length_of(text) <= scorer->sequence) continue;
    return tri_fail_internal("%ld tokens, scored from number %ld on, in sequences of %ld", (long)text->count,
                             (long)text->first, (long)scorer->sequence);
  }
  return TRI_OK;
}

static void arrangement_release(arrangement *a) {
  tri_packing_destroy(a->packing);
  tri_free(a->order);
  tri_free(a->begins);
}

static tri_status arrange(const tri_scorer *scorer, const tri_scored_text *texts, int64_t count, arrangement *out) {
  const size_t lengths = (size_t)scorer->sequence + 2;
  int64_t *counts = NULL, *next = NULL;
  arrangement a = {.texts = texts};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(check_texts(scorer, texts, count), done);
  TRI_TRY_GOTO(tri_alloc("lengths", lengths, sizeof *counts, &counts), done);
  TRI_TRY_GOTO(tri_alloc("lengths", lengths, sizeof *next, &next), done);
  TRI_TRY_GOTO(tri_alloc("lengths", lengths, sizeof *a.begins, &a.begins), done);
  TRI_TRY_GOTO(tri_alloc("texts in the order of their lengths", (size_t)count, sizeof *a.order, &a.order), done);
  for (int64_t i = 0; i < count; i++) counts[length_of(&texts[i])]++;
  for (size_t l = 1; l < lengths; l++) next[l] = a.begins[l] = a.begins[l - 1] + counts[l - 1];
  for (int64_t i = 0; i < count; i++) a.order[next[length_of(&texts[i])]++] = i;
  TRI_TRY_GOTO(tri_packing_create(scorer->sequence, counts, &a.packing), done);
  *out = a;
  a = (arrangement){0};
done:
  arrangement_release(&a);
  tri_free(next);
  tri_free(counts);
  return status;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

static void place_text(const tri_scored_text *text, int64_t at, const tri_sample *row) {
  for (int64_t i = 0; i < length_of(text); i++) {
    row->ids[at + i] = text->ids[i];
    row->positions[at + i] = (int32_t)i;
    row->labels[at + i] = i + 1 < text->first ? TRI_LABEL_NONE : text->ids[i + 1];
  }
}

static void place_filling(int64_t at, int64_t end, const tri_sample *row) {
  for (int64_t i = 0; at + i < end; i++) {
    row->ids[at + i] = 0;
    row->positions[at + i] = (int32_t)(i % TRI_PACKING_FILLING);
    row->labels[at + i] = TRI_LABEL_PADDING;
  }
}

static const tri_scored_text *text_of(const arrangement *a, int64_t length, int64_t number) {
  return &a->texts[a->order[a->begins[length] + number]];
}

static void fill_row(const tri_scorer *scorer, const arrangement *a, int64_t sequence, const tri_sample *row) {
  int64_t at = 0, length = 0, number = 0;
  if (sequence < tri_packing_sequences(a->packing)) {
    tri_packing_cursor cursor = tri_packing_at(a->packing, sequence);
    for (; tri_packing_next(&cursor, &length, &number); at += length) {
      place_text(text_of(a, length, number), at, row);
    }
  }
  place_filling(at, scorer->sequence, row);
}

static void read_row(const tri_scorer *scorer, const arrangement *a, int64_t sequence, int64_t row) {
  int64_t length = 0, number = 0;
  const double *scores = scorer->scores + row * scorer->sequence;
  tri_packing_cursor cursor = tri_packing_at(a->packing, sequence);
  for (; tri_packing_next(&cursor, &length, &number); scores += length) {
    const tri_scored_text *text = text_of(a, length, number);
    memcpy(text->out, scores + text->first - 1, (size_t)(text->count - text->first) * sizeof *scores);
  }
}

static tri_status score_batch(tri_scorer *scorer, const arrangement *a, int64_t first) {
  const int64_t sequences = tri_packing_sequences(a->packing);
  for (int64_t row = 0; row < scorer->batch; row++) {
    const tri_sample to = tri_executor_sequence(scorer->executor, row);
    fill_row(scorer, a, first + row, &to);
  }
  TRI_TRY(tri_evaluate_labels(scorer->executor, scorer->scores));
  for (int64_t row = 0; row < scorer->batch && first + row < sequences; row++) read_row(scorer, a, first + row, row);
  return TRI_OK;
}

tri_status tri_scorer_score(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                            void (*progress)(int64_t done, int64_t all)) {
  arrangement a = {0};
  if (count == 0) return TRI_OK;
  if (!scorer->prepared) TRI_TRY(tri_executor_prepare(scorer->executor));
  scorer->prepared = true;
  TRI_TRY(arrange(scorer, texts, count, &a));
  const int64_t sequences = tri_packing_sequences(a.packing);
  tri_status status = TRI_OK;
  for (int64_t first = 0; first < sequences && status == TRI_OK; first += scorer->batch) {
    status = score_batch(scorer, &a, first);
    if (status == TRI_OK && progress != NULL)
      progress((first + scorer->batch) / scorer->batch, (sequences + scorer->batch - 1) / scorer->batch);
  }
  arrangement_release(&a);
  return status;
}
