#include "mesh/document_cut.h"

#include "base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct document {
  int64_t first, length;
} document;

/* A range of tokens that is assigned to a part. */
typedef struct given {
  int64_t part;
  tri_token_range range;
} given;

/* One attempt to cut a sequence: work and query-key pairs of each part, and its ranges. */
typedef struct attempt {
  double *load,  /* [parts]: work of each part, with that of earlier sequences */
      *area;     /* [parts]: query-key pairs of each part */
  int64_t *room; /* [parts]: number of tokens that each part still lacks */
  given *all;    /* [count]: assigned ranges, with room for tokens + 2 * parts */
  int64_t count;
  bool shares; /* whether a document is on several ranks */
} attempt;

struct tri_document_cut {
  int64_t tokens, parts;
  double row_pairs;
  int64_t *rows;       /* [parts]: tokens of each part */
  document *documents; /* [num_documents], with room for `tokens` */
  int64_t num_documents;
  attempt now, best;
  double *before; /* [parts]: load from earlier sequences */
  int64_t *order; /* [parts]: chosen parts (choose_least_loaded_parts) */
};

/* Tolerances to try: how far a rank's work may be above the mean, as a share of it, before a document is split over
 * more ranks. Below 0: every document is split over all ranks, which is always balanced. */
static const double tolerances[] = {0.0, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4, -1.0};

/* Maximum ratio of the largest area of a rank to the mean in a balanced cut. */
static const double balanced = 1.05;

static tri_status attempt_create(int64_t tokens, int64_t parts, attempt *out) {
  TRI_TRY(tri_alloc("a cut of documents", (size_t)parts, sizeof *out->load, &out->load));
  TRI_TRY(tri_alloc("a cut of documents", (size_t)parts, sizeof *out->area, &out->area));
  TRI_TRY(tri_alloc("a cut of documents", (size_t)parts, sizeof *out->room, &out->room));
  return tri_alloc("a cut of documents", (size_t)tokens + 2 * (size_t)parts, sizeof *out->all, &out->all);
}

static void attempt_destroy(attempt *a) {
  tri_free(a->load);
  tri_free(a->area);
  tri_free(a->room);
  tri_free(a->all);
}

static tri_status allocate_document_cut(tri_document_cut *cut, const int64_t *rows) {
  TRI_TRY(tri_alloc("a cut of documents", (size_t)cut->parts, sizeof *cut->rows, &cut->rows));
  TRI_TRY(tri_alloc("a cut of documents", (size_t)cut->parts, sizeof *cut->before, &cut->before));
  TRI_TRY(tri_alloc("a cut of documents", (size_t)cut->parts, sizeof *cut->order, &cut->order));
  TRI_TRY(tri_alloc("a cut of documents", (size_t)cut->tokens, sizeof *cut->documents, &cut->documents));
  memcpy(cut->rows, rows, (size_t)cut->parts * sizeof *rows);
  TRI_TRY(attempt_create(cut->tokens, cut->parts, &cut->now));
  return attempt_create(cut->tokens, cut->parts, &cut->best);
}

tri_status tri_document_cut_create(int64_t tokens, int64_t parts, const int64_t *rows, double row_pairs,
                                   tri_document_cut **out) {
  tri_document_cut *cut = NULL;
  TRI_TRY(tri_alloc("a cut of documents", 1, sizeof *cut, &cut));
  *cut = (tri_document_cut){.tokens = tokens, .parts = parts, .row_pairs = row_pairs};
  tri_status status = allocate_document_cut(cut, rows);
  if (status == TRI_OK) *out = cut;
  if (status != TRI_OK) tri_document_cut_destroy(cut);
  return status;
}

void tri_document_cut_destroy(tri_document_cut *cut) {
  if (cut == NULL) return;
  attempt_destroy(&cut->now);
  attempt_destroy(&cut->best);
  tri_free(cut->documents);
  tri_free(cut->order);
  tri_free(cut->before);
  tri_free(cut->rows);
  tri_free(cut);
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

static int longest_first(const void *a, const void *b) {
  const document *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

static void find_documents(tri_document_cut *cut, const int32_t *positions) {
  cut->num_documents = 0;
  for (int64_t t = 0; t < cut->tokens; t++) {
    if (t == 0 || positions[t] == 0) cut->documents[cut->num_documents++] = (document){t, 0};
    cut->documents[cut->num_documents - 1].length++;
  }
  qsort(cut->documents, (size_t)cut->num_documents, sizeof *cut->documents, longest_first);
}

/* Returns the query-key pairs of tokens [first, end) of a document. */
static double area_of(int64_t first, int64_t end) {
  return ((double)end * ((double)end + 1) - (double)first * ((double)first + 1)) / 2;
}

/* ---- one attempt ------------------------------------------------------------------------------------------------- */

/* Writes to cut->order, among the parts with room for at least `least` tokens, the `count` parts with the least load,
 * in the order of their room, most first. Returns false if there are too few such parts. */
static bool choose_least_loaded_parts(tri_document_cut *cut, int64_t count, int64_t least) {
  const attempt *a = &cut->now;
  int64_t found = 0;
  for (int64_t p = 0; p < cut->parts; p++) {
    if (a->room[p] < least) continue;
    int64_t at = found;
    if (found == count) {
      if (a->load[p] >= a->load[cut->order[count - 1]]) continue;
      at = count - 1;
    } else {
      found++;
    }
    for (; at > 0 && a->load[cut->order[at - 1]] > a->load[p]; at--) cut->order[at] = cut->order[at - 1];
    cut->order[at] = p;
  }
  if (found < count) return false;
  for (int64_t i = 1; i < count; i++) {
    int64_t p = cut->order[i], at = i;
    for (; at > 0 && a->room[cut->order[at - 1]] < a->room[p]; at--) cut->order[at] = cut->order[at - 1];
    cut->order[at] = p;
  }
  return true;
}

/* Returns the number of the zig-zag part that has index i if a document's parts are sorted by length, longest first. */
static int64_t by_size(int64_t length, int64_t degree, int64_t i) {
  return length % (2 * degree) > degree ? degree - 1 - i : i;
}

/* Returns the work of part i of a document that is cut into `degree` parts. Sets *area to the query-key pairs of the
 * part. */
static double work_of(const tri_document_cut *cut, int64_t length, int64_t degree, int64_t i, double *area) {
  tri_token_range a = tri_zigzag_chunk(length, degree, i), b = tri_zigzag_chunk(length, degree, 2 * degree - 1 - i);
  *area = area_of(a.first, a.end) + area_of(b.first, b.end);
  return *area + cut->row_pairs * (double)(length - (a.end - a.first) - (b.end - b.first));
}

/* Returns the largest load of the chosen parts after a document of `length` tokens is divided among them; below 0 if a
 * part has no room. */
static double load_with(const tri_document_cut *cut, int64_t length, int64_t degree) {
  double most = 0, area = 0;
  for (int64_t i = 0; i < degree; i++) {
    int64_t p = cut->order[i], part = by_size(length, degree, i);
    double load = cut->now.load[p] + work_of(cut, length, degree, part, &area);
    if (cut->now.room[p] < tri_zigzag_rows(length, degree, part)) return -1;
    if (load > most) most = load;
  }
  return most;
}

static void give(attempt *a, int64_t part, int64_t first, int64_t end) {
  if (first == end) return;
  a->all[a->count++] = (given){part, {first, end}};
  a->room[part] -= end - first;
}

static void give_shared(tri_document_cut *cut, const document *d, int64_t degree) {
  cut->now.shares = cut->now.shares || degree > 1;
  for (int64_t i = 0; i < degree; i++) {
    int64_t p = cut->order[i], part = by_size(d->length, degree, i);
    double area = 0;
    tri_token_range a = tri_zigzag_chunk(d->length, degree, part);
    tri_token_range b = tri_zigzag_chunk(d->length, degree, 2 * degree - 1 - part);
    cut->now.load[p] += work_of(cut, d->length, degree, part, &area);
    cut->now.area[p] += area;
    give(&cut->now, p, d->first + a.first, d->first + a.end);
    give(&cut->now, p, d->first + b.first, d->first + b.end);
  }
}

/* Assigns a document that fits at no degree: to parts with room, least work first, one range each. */
static void give_leftover(tri_document_cut *cut, const document *d) {
  attempt *a = &cut->now;
  a->shares = true;
  for (int64_t at = 0; at < d->length;) {
    int64_t to = -1;
    for (int64_t p = 0; p < cut->parts; p++) {
      if (a->room[p] > 0 && (to < 0 || a->load[p] < a->load[to])) to = p;
    }
    int64_t count = d->length - at < a->room[to] ? d->length - at : a->room[to];
    a->area[to] += area_of(at, at + count);
    a->load[to] += area_of(at, at + count) + cut->row_pairs * (double)at;
    give(a, to, d->first + at, d->first + at + count);
    at += count;
  }
}

/* Places a document. Degrees, the numbers of parts that share it, are tried from first_degree on, doubled each time,
 * until no part has more work than `limit`. If no degree satisfies that, uses the degree whose busiest part has the
 * least work; and if the parts lack the room at every degree, give_leftover. */
static void place(tri_document_cut *cut, const document *d, double limit, int64_t first_degree) {
  double least = -1;
  int64_t best = 0;
  for (int64_t degree = first_degree;; degree *= 2) {
    if (degree > cut->parts) degree = cut->parts;
    double load = choose_least_loaded_parts(cut, degree, d->length / degree) ? load_with(cut, d->length, degree) : -1;
    if (load >= 0 && (least < 0 || load < least)) {
      least = load;
      best = degree;
    }
    if ((load >= 0 && load <= limit) || degree == cut->parts) break;
  }
  if (best == 0) {
    give_leftover(cut, d);
    return;
  }
  (void)choose_least_loaded_parts(cut, best, d->length / best);
  give_shared(cut, d, best);
}

/* Cuts the sequence with one tolerance, into cut->now. */
static void try_one(tri_document_cut *cut, double tolerance) {
  attempt *a = &cut->now;
  double total = 0;
  a->count = 0;
  a->shares = false;
  for (int64_t p = 0; p < cut->parts; p++) {
    total += cut->before[p];
    a->load[p] = cut->before[p];
    a->area[p] = 0;
    a->room[p] = cut->rows[p];
  }
  for (int64_t i = 0; i < cut->num_documents; i++) total += area_of(0, cut->documents[i].length);
  double limit = total / (double)cut->parts * (1 + tolerance);
  for (int64_t i = 0; i < cut->num_documents; i++) {
    place(cut, &cut->documents[i], limit, tolerance < 0 ? cut->parts : 1);
  }
}

/* ---- the best of several ----------------------------------------------------------------------------------------- */

static double most_of(const double *values, int64_t count, double *mean) {
  double most = 0, sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += values[i];
    if (values[i] > most) most = values[i];
  }
  *mean = sum / (double)count;
  return most;
}

static bool is_balanced(const tri_document_cut *cut, const attempt *a) {
  double mean = 0, most = most_of(a->area, cut->parts, &mean);
  return most <= balanced * mean;
}

static bool is_better(const tri_document_cut *cut) {
  double mean = 0;
  bool now = is_balanced(cut, &cut->now), best = is_balanced(cut, &cut->best);
  if (cut->best.count == 0 || now != best) return cut->best.count == 0 || now;
  return most_of(cut->now.load, cut->parts, &mean) < most_of(cut->best.load, cut->parts, &mean);
}

static int by_part(const void *a, const void *b) {
  const given *x = a, *y = b;
  if (x->part != y->part) return x->part < y->part ? -1 : 1;
  return (x->range.first > y->range.first) - (x->range.first < y->range.first);
}

void tri_document_cut_sequence(tri_document_cut *cut, const int32_t *positions, double *load, tri_sequence_cut *out) {
  find_documents(cut, positions);
  memcpy(cut->before, load, (size_t)cut->parts * sizeof *load);
  cut->best.count = 0;
  for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++) {
    try_one(cut, tolerances[i]);
    if (!is_better(cut)) continue;
    attempt worse = cut->best;
    cut->best = cut->now;
    cut->now = worse;
    if (!cut->best.shares && is_balanced(cut, &cut->best)) break; /* no keys have to be transferred */
  }
  memcpy(load, cut->best.load, (size_t)cut->parts * sizeof *load);
  qsort(cut->best.all, (size_t)cut->best.count, sizeof *cut->best.all, by_part);
  tri_sequence_cut_clear(out);
  for (int64_t i = 0; i < cut->best.count; i++) {
    tri_sequence_cut_append(out, cut->best.all[i].part, cut->best.all[i].range);
  }
}
