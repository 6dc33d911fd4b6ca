#include "judge/choices.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MEASURE_NAME(VALUE, name)                                                                                      \
  case TRI_CHOICE_##VALUE: return #name;

const char *tri_choice_measure_name(tri_choice_measure measure) {
  switch (measure) { TRI_CHOICE_MEASURES(MEASURE_NAME) }
  return "";
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Encodes a choice after its question; sets *count as tri_pair_encode does. A space separates the two, except after a
 * text that a chat template rendered. */
static tri_status encode_choice(tri_pair_encoder *encoder, const tri_question *q, int64_t choice, tri_token_list *out,
                                int64_t *count) {
  const tri_judge_text *given = &q->choices[choice];
  const char *delimiter = tri_pair_delimiter(encoder);
  const size_t before = strlen(delimiter);
  tri_judge_text spaced = {.bytes = given->bytes + before};
  TRI_TRY(tri_alloc("a choice", spaced.bytes + 1, 1, &spaced.text));
  memcpy(spaced.text, delimiter, before);
  memcpy(spaced.text + before, given->text, given->bytes);
  tri_status status = tri_pair_encode(encoder, &q->context, &spaced, out, count);
  tri_judge_text_release(&spaced);
  return status;
}

/* State while a set is built. The tokens move when the list grows, so offsets of texts are stored here, and are
 * converted to pointers at the end. */
typedef struct building {
  const char *path;
  int64_t positions;
  int64_t *begins; /* [num_texts]: offset of each text in the list of tokens */
  int64_t scored;  /* number of tokens that have a score */
} building;

static tri_status add_text(building *b, const tri_question *q, int64_t choice, tri_pair_encoder *encoder,
                           tri_choice_set *set) {
  int64_t begin = set->tokens.count, count = 0;
  tri_status status = encode_choice(encoder, q, choice, &set->tokens, &count);
  if (status == TRI_BAD_FILE) {
    char message[1024];
    snprintf(message, sizeof message, "%s", tri_status_message());
    return tri_fail(status, "%s line %" PRId64 ": %s", b->path, q->line, message);
  }
  TRI_TRY(status);
  if (count < 1) {
    return tri_fail(TRI_BAD_FILE,
                    "%s line %" PRId64 ": choice %" PRId64
                    " adds no token to its question: the tokenizer joins the two; end the question with a mark",
                    b->path, q->line, choice);
  }
  if (count > b->positions) {
    return tri_fail(TRI_BAD_FILE,
                    "%s line %" PRId64 ": choice %" PRId64 " has %" PRId64 " tokens, and the model %" PRId64
                    " positions: shorten it, or leave the question out",
                    b->path, q->line, choice, count, b->positions);
  }
  if (set->tokens.count - begin > b->positions + 1) {
    if (set->shortened++ == 0) set->first_shortened = q->line;
    begin = set->tokens.count - b->positions - 1;
  }
  tri_scored_text *text = &set->texts[set->num_texts];
  *text = (tri_scored_text){.count = set->tokens.count - begin, .first = set->tokens.count - begin - count};
  if (text->count - 1 > set->longest) set->longest = text->count - 1;
  b->begins[set->num_texts++] = begin;
  b->scored += count;
  return TRI_OK;
}

static int64_t count_choices(const tri_questions *questions) {
  int64_t count = 0;
  for (int64_t i = 0; i < questions->count; i++) count += questions->list[i].num_choices;
  return count;
}

static tri_status add_texts(building *b, tri_pair_encoder *encoder, tri_choice_set *set) {
  for (int64_t i = 0; i < set->questions->count; i++) {
    const tri_question *q = &set->questions->list[i];
    for (int64_t choice = 0; choice < q->num_choices; choice++) TRI_TRY(add_text(b, q, choice, encoder, set));
  }
  TRI_TRY(tri_alloc("scores", (size_t)b->scored, sizeof *set->scores, &set->scores));
  double *out = set->scores;
  for (int64_t t = 0; t < set->num_texts; t++) {
    set->texts[t].ids = set->tokens.ids + b->begins[t];
    set->texts[t].out = out;
    out += set->texts[t].count - set->texts[t].first;
  }
  return TRI_OK;
}

tri_status tri_choice_set_create(const char *path, const tri_questions *questions, tri_pair_encoder *encoder,
                                 int64_t positions, tri_choice_set *out) {
  building b = {.path = path, .positions = positions};
  const size_t count = (size_t)count_choices(questions);
  out->questions = questions;
  TRI_TRY(tri_alloc("choices", count, sizeof *out->texts, &out->texts));
  TRI_TRY(tri_alloc("choices", count, sizeof *b.begins, &b.begins));
  tri_status status = add_texts(&b, encoder, out);
  tri_free(b.begins);
  return status;
}

void tri_choice_set_release(tri_choice_set *set) {
  tri_free(set->scores);
  tri_free(set->texts);
  tri_free(set->tokens.ids);
  *set = (tri_choice_set){0};
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static double length_of(const tri_judge_text *choice, tri_choice_measure measure) {
  switch (measure) {
    case TRI_CHOICE_ACC: return 1;
    case TRI_CHOICE_ACC_NORM: return (double)tri_judge_characters(choice);
    case TRI_CHOICE_ACC_BYTES: return (double)choice->bytes;
  }
  return 1;
}

/* Returns the first choice with the highest score. */
static int64_t choose_likeliest(const tri_question *q, const double *log_likelihoods, tri_choice_measure measure) {
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t i = 0; i < q->num_choices; i++) {
    const double score = log_likelihoods[i] / length_of(&q->choices[i], measure);
    if (!(score > most)) continue;
    most = score;
    best = i;
  }
  return best;
}

static double probability_of_right(const tri_question *q, const double *log_likelihoods) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < q->num_choices; i++) most = fmax(most, log_likelihoods[i]);
  for (int64_t i = 0; i < q->num_choices; i++) sum += exp(log_likelihoods[i] - most);
  return exp(log_likelihoods[q->answer] - most) / sum;
}

/* Sum of values, and sum of their squares, for a mean and its standard error. */
typedef struct mean {
  double sum, squares;
} mean;

static void mean_add(mean *m, double value) {
  m->sum += value;
  m->squares += value * value;
}

static void mean_read(const mean *m, int64_t count, double *value, double *error) {
  const double n = (double)count, variance = count < 2 ? NAN : (m->squares - m->sum * m->sum / n) / (n - 1);
  *value = m->sum / n;
  *error = sqrt(fmax(variance, 0) / n);
  if (count < 2) *error = NAN;
}

static tri_status sum_up(const tri_choice_set *set, tri_judgement *out) {
  const tri_scored_text *text = set->texts;
  double *to = out->log_likelihoods;
  for (int64_t i = 0; i < out->count; i++) {
    const tri_question *q = &set->questions->list[i];
    out->questions[i].log_likelihoods = to;
    for (int64_t choice = 0; choice < q->num_choices; choice++, text++, to++) {
      *to = 0;
      for (int64_t t = 0; t < text->count - text->first; t++) *to += text->out[t];
      if (isfinite(*to)) continue;
      return tri_fail(TRI_DIVERGED,
                      "the likelihood of choice %" PRId64 " of the question of line %" PRId64
                      " is not a finite number: the model has diverged, or its numbers are beyond the precision",
                      choice, q->line);
    }
  }
  return TRI_OK;
}

static void compare(const tri_choice_set *set, tri_judgement *out) {
  mean right[TRI_NUM_CHOICE_MEASURES] = {{0}}, probability = {0};
  for (int64_t i = 0; i < out->count; i++) {
    const tri_question *q = &set->questions->list[i];
    tri_judged_question *judged = &out->questions[i];
    judged->probability = probability_of_right(q, judged->log_likelihoods);
    mean_add(&probability, judged->probability);
    for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) {
      judged->chosen[m] = choose_likeliest(q, judged->log_likelihoods, (tri_choice_measure)m);
      mean_add(&right[m], judged->chosen[m] == q->answer);
    }
  }
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) mean_read(&right[m], out->count, &out->accuracy[m], &out->error[m]);
  mean_read(&probability, out->count, &out->probability, &out->probability_error);
}

tri_status tri_choices_judge(tri_scorer *scorer, const tri_choice_set *set, void (*progress)(int64_t done, int64_t all),
                             tri_judgement *out) {
  out->count = set->questions->count;
  TRI_TRY(tri_alloc("judged questions", (size_t)out->count, sizeof *out->questions, &out->questions));
  TRI_TRY(tri_alloc("likelihoods", (size_t)set->num_texts, sizeof *out->log_likelihoods, &out->log_likelihoods));
  TRI_TRY(tri_scorer_score(scorer, set->texts, set->num_texts, progress));
  TRI_TRY(sum_up(set, out));
  compare(set, out);
  return TRI_OK;
}

void tri_judgement_release(tri_judgement *judgement) {
  tri_free(judgement->log_likelihoods);
  tri_free(judgement->questions);
  *judgement = (tri_judgement){0};
}
