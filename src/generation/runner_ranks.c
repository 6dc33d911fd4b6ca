/* Runs with several tensor ranks.
 *
 * The first rank sends each call (a run with its rows, queries, logits, a copy of a page, the publication of new
 * weights, or the dismissal) to the others, which execute it on their slices of the weights. Calls are messages, in the
 * order in which the first rank makes them. A message has the first SHORT_BYTES of the call's data; the rest is
 * broadcast.
 *
 * A query is answered from slices of the vocabulary. Each rank computes the log of the sum of exp(logit / temperature)
 * over its slice. If a token is sampled, u in [0, 1) selects the slice in which the cumulative probability, in the
 * order of the ids, exceeds u. A second query, whose answer is taken from the rank with that slice, selects the token
 * within the slice, with u rescaled to the slice's share. So no row of logits is gathered, unless the host asks for it
 * (tri_runner_logits). */
#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/memory.h"
#include "generation/runner_internal.h"
#include "mesh/parts.h"

#include <math.h>
#include <string.h>

enum { SHORT_BYTES = 2048, CALL_TAG = 7 };
static const double LONGEST_WAIT_S = 1;

typedef enum call_kind { CALL_RUN, CALL_QUERY, CALL_LOGITS, CALL_COPY_PAGE, CALL_PUBLISH, CALL_DISMISS } call_kind;

/* A call that the first rank sends, with `bytes` bytes of data: rows of sequences, or queries. Data after the first
 * SHORT_BYTES is sent in a broadcast after the call. */
typedef struct call {
  call_kind kind;
  int32_t from, to;     /* CALL_COPY_PAGE: numbers of the two pages */
  int64_t first, count; /* CALL_LOGITS: logit rows [first, first + count); CALL_QUERY: `count` queries, and `first` is 1
                           if they are second queries, else 0 */
  int64_t bytes;
  char data[SHORT_BYTES]; /* the first SHORT_BYTES of the data */
} call;

static size_t slice_bytes(const tri_runner *r) { return tri_runner_slice_bytes(r); }
static size_t part_bytes(const tri_runner *r) { return tri_runner_part_bytes(r); }

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static tri_status send_call(tri_runner *r, call *c, const void *data) {
  const size_t bytes = (size_t)c->bytes;
  if (bytes > 0) memcpy(c->data, data, bytes < SHORT_BYTES ? bytes : SHORT_BYTES);
  for (int to = 1; to < r->tensor->size; to++) {
    tri_request *request = NULL;
    TRI_TRY(tri_send_start(r->tensor, to, CALL_TAG, sizeof *c, c, &request));
    TRI_TRY(tri_request_wait(&request));
  }
  if (bytes <= SHORT_BYTES) return TRI_OK;
  return tri_broadcast(r->tensor, 0, bytes - SHORT_BYTES, (char *)(uintptr_t)data + SHORT_BYTES);
}

/* Waits for the first rank's next call, for as long as that rank has nothing to run. */
static tri_status await_call(tri_runner *r, call *c) {
  tri_request *request = NULL;
  bool done = false;
  const double idle_since_s = tri_clock_s();
  TRI_TRY(tri_receive_start(r->tensor, 0, CALL_TAG, sizeof *c, c, &request));
  while (!done) {
    const tri_request *awaited = request;
    TRI_TRY(tri_request_wait_any(&awaited, 1, idle_since_s, LONGEST_WAIT_S));
    tri_recorder_beat();
    TRI_TRY(tri_request_test(request, &done));
  }
  return tri_request_wait(&request);
}

/* Receives a call, and its data in r->sent. */
static tri_status receive_call(tri_runner *r, call *c) {
  TRI_TRY(await_call(r, c));
  const size_t bytes = (size_t)c->bytes;
  TRI_TRY(tri_reserve("a run's rows", 1, bytes, &r->sent_room, &r->sent));
  if (bytes > 0) memcpy(r->sent, c->data, bytes < SHORT_BYTES ? bytes : SHORT_BYTES);
  r->sent_bytes = bytes;
  if (bytes <= SHORT_BYTES) return TRI_OK;
  return tri_broadcast(r->tensor, 0, bytes - SHORT_BYTES, r->sent + SHORT_BYTES);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static tri_status run_all(tri_runner *r) {
  call c = {.kind = CALL_RUN, .bytes = (int64_t)r->sent_bytes};
  TRI_TRY(send_call(r, &c, r->sent));
  return tri_runner_run_own(r);
}

/* Runs this rank's part of the first rank's run, whose rows are in r->sent. */
static tri_status follow_run(tri_runner *r) {
  int64_t head[3];
  TRI_TRY(tri_runner_begin_own(r));
  for (const char *at = r->sent, *end = at + r->sent_bytes; at < end;) {
    memcpy(head, at, sizeof head);
    const int64_t pages = tri_runner_pages_of(head[0] + head[1]);
    const int32_t *ids = (const int32_t *)(const void *)(at + sizeof head);
    const tri_runner_rows rows = {
        .ids = ids, .first = head[0], .count = head[1], .pages = ids + head[1], .logits = head[2]};
    TRI_TRY(tri_runner_add(r, &rows));
    at += sizeof head + (size_t)(head[1] + pages) * sizeof *ids;
  }
  return tri_runner_run_own(r);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

static bool samples(const tri_logit_query *query) { return query->given < 0 && query->temperature > 0; }

/* Returns the query for this rank's slice. If the query's token is in another slice, or is yet to be sampled, asks for
 * the slice's first token: the answer's numbers contain the sums over the slice (sums_of). */
static tri_logit_query own_query(const tri_runner *r, const tri_logit_query *query) {
  tri_logit_query own = *query;
  const int64_t given = query->given - r->first_id;
  if (query->given >= 0) own.given = given >= 0 && given < r->own_ids ? (int32_t)given : 0;
  if (samples(query)) own.given = 0;
  return own;
}

/* Answers queries about this rank's slice, and gathers the answers of all ranks: [ranks, count]. */
static tri_status gather_answers(tri_runner *r, const tri_logit_query *queries, int64_t count,
                                 const tri_slice_answer **out) {
  tri_slice_answer *own = (tri_slice_answer *)(void *)r->exchanged;
  const int32_t *ids = NULL;
  const double *numbers = NULL;
  TRI_TRY(tri_runner_query_own(r, queries, count, &ids, &numbers));
  for (int64_t i = 0; i < count; i++) {
    own[i].id = ids[i];
    memcpy(own[i].numbers, numbers + i * TRI_LOGIT_NUMBERS, sizeof own[i].numbers);
  }
  *out = (const tri_slice_answer *)(const void *)(r->exchanged + part_bytes(r));
  return tri_gather_bytes(r->tensor, (size_t)count * sizeof *own, own, r->exchanged + part_bytes(r));
}

/* Logarithms of the sums of exp(logit / temperature) over a slice. `model`: at temperature 1; `sampled`: at the query's
 * temperature, 0 if that is 0. */
typedef struct slice_sums {
  double model, sampled;
} slice_sums;

static slice_sums sums_of(const tri_logit_query *query, const tri_slice_answer *a) {
  const double value = a->numbers[TRI_LOGIT_VALUE];
  slice_sums out = {value - a->numbers[TRI_LOGIT_LOG_PROB], 0};
  if (query->temperature > 0) out.sampled = value / query->temperature - a->numbers[TRI_LOGIT_SAMPLED_LOG_PROB];
  return out;
}

/* Returns the logarithms of the sums over all slices; NaN if a logit is not finite. */
static slice_sums sums_of_all(const tri_runner *r, const tri_logit_query *query, const tri_slice_answer *answers,
                              int64_t count) {
  slice_sums most = {-INFINITY, -INFINITY}, sum = {0, 0};
  for (int k = 0; k < tri_runner_ranks(r); k++) {
    const slice_sums of = sums_of(query, &answers[k * count]);
    if (answers[k * count].id < 0) return (slice_sums){NAN, NAN};
    most.model = fmax(most.model, of.model);
    most.sampled = fmax(most.sampled, of.sampled);
  }
  for (int k = 0; k < tri_runner_ranks(r); k++) {
    const slice_sums of = sums_of(query, &answers[k * count]);
    sum.model += exp(of.model - most.model);
    sum.sampled += exp(of.sampled - most.sampled);
  }
  return (slice_sums){most.model + log(sum.model), most.sampled + log(sum.sampled)};
}

/* Returns the rank whose slice has the token of the answer: the given one, the likeliest one, or the first one at which
 * the cumulative probability is above query->uniform. *left: `uniform` rescaled to that slice's range of cumulative
 * probability, in [0, 1). */
static int choose_slice(const tri_runner *r, const tri_logit_query *query, const tri_slice_answer *answers,
                        int64_t count, double *left) {
  const int ranks = tri_runner_ranks(r);
  const slice_sums all = sums_of_all(r, query, answers, count);
  double passed = 0;
  int chosen = 0;
  *left = 0;
  if (query->given >= 0) {
    while (chosen + 1 < ranks && query->given >= tri_part_begin(r->model.vocab_size, ranks, chosen + 1)) chosen++;
    return chosen;
  }
  for (int k = 0; k < ranks; k++) {
    const tri_slice_answer *a = &answers[k * count];
    if (query->temperature == 0) {
      if (a->numbers[TRI_LOGIT_VALUE] > answers[chosen * count].numbers[TRI_LOGIT_VALUE]) chosen = k;
      continue;
    }
    const double share = exp(sums_of(query, a).sampled - all.sampled);
    if (share > 0) {
      chosen = k;
      *left = fmin(fmax((query->uniform - passed) / share, 0), 1 - 0x1p-53);
    }
    passed += share;
    if (passed > query->uniform) break;
  }
  return chosen;
}

/* Returns the entropy of the whole distribution, from the entropies of the slices. `sum`: sums_of_all().model. */
static double entropy_of_all(const tri_runner *r, const tri_logit_query *query, const tri_slice_answer *answers,
                             int64_t count, double sum) {
  double entropy = 0;
  for (int k = 0; k < tri_runner_ranks(r); k++) {
    const double log_share = sums_of(query, &answers[k * count]).model - sum;
    entropy += exp(log_share) * (answers[k * count].numbers[TRI_LOGIT_ENTROPY] - log_share);
  }
  return entropy;
}

/* A second query, for a query that samples. `slice`: the tensor rank whose slice has the token. */
typedef struct second {
  tri_logit_query query;
  int64_t slice;
} second;

static tri_status follow_second(tri_runner *r, const second *asked, int64_t count, const tri_slice_answer **answers) {
  tri_logit_query *queries = NULL;
  TRI_TRY(tri_alloc("queries", (size_t)count, sizeof *queries, &queries));
  for (int64_t i = 0; i < count; i++) {
    queries[i] = asked[i].query;
    if (asked[i].slice != r->tensor->rank) queries[i].given = 0;
  }
  const tri_status status = gather_answers(r, queries, count, answers);
  tri_free(queries);
  return status;
}

static tri_status follow_query(tri_runner *r, const tri_logit_query *queries, int64_t count,
                               const tri_slice_answer **answers) {
  tri_logit_query *own = NULL;
  TRI_TRY(tri_alloc("queries", (size_t)count, sizeof *own, &own));
  for (int64_t i = 0; i < count; i++) own[i] = own_query(r, &queries[i]);
  const tri_status status = gather_answers(r, own, count, answers);
  tri_free(own);
  return status;
}

/* Numbers of a query from all ranks' first answers, kept while the second queries are answered. `slice`: the tensor
 * rank whose slice has the token; `of_slice`: the sums of that slice. */
typedef struct joined {
  slice_sums of_slice, of_all;
  double entropy;
  int slice;
} joined;

/* Joins all ranks' answers [ranks, count] to the first queries. Sets out[count]; known[count], for each query the
 * answer of the rank whose slice has the token; and seconds[*num_seconds], one for each query that samples from finite
 * logits. */
static void join(const tri_runner *r, const tri_logit_query *queries, int64_t count, const tri_slice_answer *answers,
                 joined *out, tri_slice_answer *known, second *seconds, int64_t *num_seconds) {
  *num_seconds = 0;
  for (int64_t i = 0; i < count; i++) {
    double left = 0;
    out[i].of_all = sums_of_all(r, &queries[i], answers + i, count);
    out[i].slice = choose_slice(r, &queries[i], answers + i, count, &left);
    known[i] = answers[out[i].slice * count + i];
    out[i].of_slice = sums_of(&queries[i], &known[i]);
    out[i].entropy = entropy_of_all(r, &queries[i], answers + i, count, out[i].of_all.model);
    if (!samples(&queries[i]) || isnan(out[i].of_all.model)) continue;
    seconds[*num_seconds] = (second){queries[i], out[i].slice};
    seconds[*num_seconds].query.uniform = left;
    ++*num_seconds;
  }
}

static tri_status ask_second(tri_runner *r, const joined *of, const tri_logit_query *queries, int64_t count,
                             const second *seconds, int64_t num_seconds, tri_slice_answer *known) {
  call c = {.kind = CALL_QUERY, .first = 1, .count = num_seconds, .bytes = num_seconds * (int64_t)sizeof *seconds};
  const tri_slice_answer *answers = NULL;
  if (num_seconds == 0) return TRI_OK;
  TRI_TRY(send_call(r, &c, seconds));
  TRI_TRY(follow_second(r, seconds, num_seconds, &answers));
  for (int64_t i = 0, at = 0; i < count; i++) {
    if (!samples(&queries[i]) || isnan(of[i].of_all.model)) continue;
    known[i] = answers[of[i].slice * num_seconds + at];
    at++;
  }
  return TRI_OK;
}

/* Writes the results to the ids and numbers that tri_runner_query_own returned. */
static void write_results(const tri_runner *r, const tri_logit_query *queries, int64_t count, const joined *of,
                          const tri_slice_answer *known, int32_t *ids, double *numbers) {
  for (int64_t i = 0; i < count; i++) {
    double *to = numbers + i * TRI_LOGIT_NUMBERS;
    const slice_sums *slice = &of[i].of_slice, *all = &of[i].of_all;
    memset(to, 0, TRI_LOGIT_NUMBERS * sizeof *to);
    ids[i] = -1;
    if (isnan(all->model) || known[i].id < 0) continue;
    ids[i] = (int32_t)(known[i].id + tri_part_begin(r->model.vocab_size, tri_runner_ranks(r), of[i].slice));
    to[TRI_LOGIT_LOG_PROB] = known[i].numbers[TRI_LOGIT_LOG_PROB] + slice->model - all->model;
    to[TRI_LOGIT_ENTROPY] = of[i].entropy;
    to[TRI_LOGIT_VALUE] = known[i].numbers[TRI_LOGIT_VALUE];
    if (queries[i].temperature > 0)
      to[TRI_LOGIT_SAMPLED_LOG_PROB] = known[i].numbers[TRI_LOGIT_SAMPLED_LOG_PROB] + slice->sampled - all->sampled;
  }
}

/* Scratch memory of the first rank's queries, [count] each. */
typedef struct query_memory {
  joined *of;
  tri_slice_answer *known;
  second *seconds;
} query_memory;

static tri_status ask_all(tri_runner *r, const tri_logit_query *queries, int64_t count, const query_memory *memory) {
  call c = {.kind = CALL_QUERY, .count = count, .bytes = count * (int64_t)sizeof *queries};
  const tri_slice_answer *answers = NULL;
  int64_t num_seconds = 0;
  TRI_TRY(send_call(r, &c, queries));
  TRI_TRY(follow_query(r, queries, count, &answers));
  join(r, queries, count, answers, memory->of, memory->known, memory->seconds, &num_seconds);
  return ask_second(r, memory->of, queries, count, memory->seconds, num_seconds, memory->known);
}

static tri_status query_all(tri_runner *r, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                            const double **numbers) {
  query_memory memory = {.of = NULL};
  if (count == 0) return tri_runner_query_own(r, queries, 0, ids, numbers);
  tri_status status = tri_alloc("queries", (size_t)count, sizeof *memory.of, &memory.of);
  if (status == TRI_OK) status = tri_alloc("queries", (size_t)count, sizeof *memory.known, &memory.known);
  if (status == TRI_OK) status = tri_alloc("queries", (size_t)count, sizeof *memory.seconds, &memory.seconds);
  if (status == TRI_OK) status = ask_all(r, queries, count, &memory);
  if (status == TRI_OK)
    status = tri_runner_query_own(r, queries, 0, ids, numbers); /* sets only the addresses *ids and *numbers */
  if (status == TRI_OK)
    write_results(r, queries, count, memory.of, memory.known, (int32_t *)(uintptr_t)*ids,
                  (double *)(uintptr_t)*numbers);
  tri_free(memory.of);
  tri_free(memory.known);
  tri_free(memory.seconds);
  return status;
}

/* ---- logits ------------------------------------------------------------------------------------------------------ */

/* Gathers all ranks' slices of one logit row, at r->exchanged + part_bytes(r). */
static tri_status gather_row(tri_runner *r, int64_t row) {
  const size_t own = (size_t)r->own_ids * tri_dtype_bytes(tri_dtype_wide(r->precision));
  TRI_TRY(tri_runner_copy_logits(r, row, r->exchanged));
  memset(r->exchanged + own, 0, slice_bytes(r) - own);
  return tri_gather_bytes(r->tensor, slice_bytes(r), r->exchanged, r->exchanged + part_bytes(r));
}

static tri_status logits_all(tri_runner *r, int64_t first, int64_t count, const void **out) {
  const size_t element = tri_dtype_bytes(tri_dtype_wide(r->precision));
  call c = {.kind = CALL_LOGITS, .first = first, .count = count};
  TRI_TRY(send_call(r, &c, ""));
  for (int64_t row = first; row < first + count; row++) {
    char *to = (char *)r->logits + (size_t)(row * r->model.vocab_size) * element;
    TRI_TRY(gather_row(r, row));
    for (int k = 0; k < tri_runner_ranks(r); k++) {
      const int64_t begin = tri_part_begin(r->model.vocab_size, tri_runner_ranks(r), k);
      const int64_t end = tri_part_begin(r->model.vocab_size, tri_runner_ranks(r), k + 1);
      memcpy(to + (size_t)begin * element, r->exchanged + part_bytes(r) + (size_t)k * slice_bytes(r),
             (size_t)(end - begin) * element);
    }
  }
  *out = (char *)r->logits + (size_t)(first * r->model.vocab_size) * element;
  return TRI_OK;
}

static tri_status follow_logits(tri_runner *r, const call *c) {
  for (int64_t row = c->first; row < c->first + c->count; row++) TRI_TRY(gather_row(r, row));
  return TRI_OK;
}

static tri_status copy_page_all(tri_runner *r, int32_t from, int32_t to) {
  call c = {.kind = CALL_COPY_PAGE, .from = from, .to = to};
  TRI_TRY(send_call(r, &c, ""));
  return tri_runner_copy_page_own(r, from, to);
}

/* ---- calls of one rank or of all --------------------------------------------------------------------------------- */

tri_status tri_runner_run(tri_runner *r) { return r->tensor == NULL ? tri_runner_run_own(r) : run_all(r); }

tri_status tri_runner_query(tri_runner *r, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                            const double **numbers) {
  return r->tensor == NULL ? tri_runner_query_own(r, queries, count, ids, numbers)
                           : query_all(r, queries, count, ids, numbers);
}

tri_status tri_runner_logits(tri_runner *r, int64_t first, int64_t count, const void **out) {
  return r->tensor == NULL ? tri_runner_logits_own(r, first, count, out) : logits_all(r, first, count, out);
}

tri_status tri_runner_copy_page(tri_runner *r, int32_t from, int32_t to) {
  return r->tensor == NULL ? tri_runner_copy_page_own(r, from, to) : copy_page_all(r, from, to);
}

/* ---- the other ranks --------------------------------------------------------------------------------------------- */

static tri_status follow_call(tri_runner *r, const call *c) {
  const tri_slice_answer *unused = NULL;
  switch (c->kind) {
    case CALL_RUN: return follow_run(r);
    case CALL_QUERY:
      return c->first == 1 ? follow_second(r, (const second *)(const void *)r->sent, c->count, &unused)
                           : follow_query(r, (const tri_logit_query *)(const void *)r->sent, c->count, &unused);
    case CALL_LOGITS: return follow_logits(r, c);
    case CALL_COPY_PAGE: return tri_runner_copy_page_own(r, c->from, c->to);
    case CALL_PUBLISH: return tri_runner_publish_own(r);
    case CALL_DISMISS: break;
  }
  return TRI_OK;
}

tri_status tri_runner_follow(tri_runner *r) {
  call c = {.kind = CALL_RUN};
  while (c.kind != CALL_DISMISS) {
    TRI_TRY(receive_call(r, &c));
    TRI_TRY(follow_call(r, &c));
  }
  return TRI_OK;
}

/* All tensor ranks pack the weights at the same time, because the norms of DoRA are sums over these ranks. */
tri_status tri_runner_publish(tri_runner *r) {
  call c = {.kind = CALL_PUBLISH};
  if (r->tensor != NULL) TRI_TRY(send_call(r, &c, ""));
  return tri_runner_publish_own(r);
}

tri_status tri_runner_begin(tri_runner *r) {
  if (r->version < 0) TRI_TRY(tri_runner_publish(r));
  return tri_runner_begin_own(r);
}

tri_status tri_runner_dismiss(tri_runner *r) {
  call c = {.kind = CALL_DISMISS};
  return r->tensor == NULL ? TRI_OK : send_call(r, &c, "");
}
