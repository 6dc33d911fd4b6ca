/* Log-probabilities of a run's answers under its reference, which is the model as the run begins. They are computed
 * once, before the first update, and stored in the run's folder. So no second model is in memory, and a resumed run
 * reads what its first start computed. Only if the reference is the base of an adapter can they be computed again
 * later.
 *
 * The file has a head of REFERENCE_HEAD_BYTES, lines of text padded with zeros, and then a double for each label, in
 * the order of the corpus. For a loss with a KL divergence, the same number of doubles for the mismatched answers
 * follows. */
#include "train/train_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "comm/agreement.h"
#include "files/file.h"
#include "run/preference_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { REFERENCE_HEAD_BYTES = 1024, HASH_BYTES = 32, WHY_BYTES = 192 };

static int64_t num_numbers(const tri_preference_source *source) {
  return source->num_labels * (source->options.mismatched ? 2 : 1);
}

static size_t file_bytes(const tri_preference_source *source) {
  return REFERENCE_HEAD_BYTES + (size_t)num_numbers(source) * sizeof(double);
}

/* Prints the head of the file without its last line, the hash of the numbers. The head describes the data that the
 * numbers belong to; its first line is the format. The line with the run comes last in the head, so that the function
 * `find` can search for this line alone. In this way `find` distinguishes a file of this run for other data from a file
 * of another run. */
static size_t print_head(const tri_training *t, const tri_preference_source *source, const char *fingerprint,
                         char out[REFERENCE_HEAD_BYTES]) {
  memset(out, 0, REFERENCE_HEAD_BYTES);
  snprintf(out, REFERENCE_HEAD_BYTES,
           "trireme reference log-probabilities 1\ndata %s\ntokenizer %s\nsequence %" PRId64
           "\ntoo_long %s\nsequences %" PRId64 " of %s\nlabels %" PRId64 "\nrun %s\n",
           fingerprint, t->identity.tokenizer, source->options.sequence,
           tri_run_config_too_long(source->options.too_long), source->per_epoch,
           source->options.paired ? "pairs" : "answers", num_numbers(source), t->identity.run);
  return strlen(out);
}

static void print_hash(const tri_preference_source *source, const double *numbers, char out[HASH_BYTES]) {
  const size_t bytes = (size_t)num_numbers(source) * sizeof *numbers;
  snprintf(out, HASH_BYTES, "numbers %016" PRIx64 "\n", (uint64_t)XXH3_64bits(numbers, bytes));
}

/* Returns the first line of `theirs` that differs from `ours`, in a static buffer; NULL if no line differs. */
static const char *first_difference(const char *ours, const char *theirs) {
  static char line[128];
  while (*ours != '\0') {
    const size_t length = strcspn(ours, "\n");
    if (strncmp(ours, theirs, length) != 0 || theirs[length] != '\n') {
      snprintf(line, sizeof line, "%.*s", (int)strcspn(theirs, "\n"), theirs);
      return line;
    }
    ours += length + 1;
    theirs += length + 1;
  }
  return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tri_status map_file(const char *path, const tri_preference_source *source, const double **out) {
  int file = -1;
  struct stat found;
  TRI_TRY(tri_file_open_plain(path, &file));
  const bool whole = fstat(file, &found) == 0 && found.st_size == (off_t)file_bytes(source);
  void *mapped = whole ? mmap(NULL, file_bytes(source), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const int why = errno;
  close(file);
  if (!whole)
    return tri_fail(TRI_BAD_FILE, "%s does not have the %zu bytes that it should have", path, file_bytes(source));
  if (mapped == MAP_FAILED) return tri_fail(TRI_IO_FAILED, "cannot map %s: %s", path, strerror(why));
  *out = (const double *)(const void *)((const char *)mapped + REFERENCE_HEAD_BYTES);
  return TRI_OK;
}

void tri_reference_close(const tri_preference_source *source, const double *reference) {
  if (reference == NULL) return;
  munmap((void *)((uintptr_t)reference - REFERENCE_HEAD_BYTES), file_bytes(source));
}

/* Checks the numbers of a file whose head is right. `why`: the reason why they are wrong; "" if they are right. */
static void check_numbers(const tri_preference_source *source, const char *path, const char *hash,
                          char why[WHY_BYTES]) {
  const double *numbers = NULL;
  char own[HASH_BYTES];
  why[0] = '\0';
  if (map_file(path, source, &numbers) != TRI_OK) {
    snprintf(why, WHY_BYTES, "it has not the %zu bytes that it should have", file_bytes(source));
    return;
  }
  print_hash(source, numbers, own);
  if (strcmp(own, hash) != 0) snprintf(why, WHY_BYTES, "its numbers are damaged");
  tri_reference_close(source, numbers);
}

/* State of an existing file. */
typedef struct finding {
  int64_t there, fits,
      of_other_data;   /* whether the file exists; whether it fits; whether this run wrote it for other data */
  char why[WHY_BYTES]; /* why the file does not fit */
} finding;

/* On the first rank: examines the file at `path`. */
static void find(const tri_training *t, const tri_preference_source *source, const char *path, const char *fingerprint,
                 finding *out) {
  char ours[REFERENCE_HEAD_BYTES], theirs[REFERENCE_HEAD_BYTES + 1] = {0};
  char *why = out->why;
  int file = -1;
  const size_t length = print_head(t, source, fingerprint, ours);
  out->there = tri_path_exists(path);
  snprintf(why, WHY_BYTES, "it is cut off");
  if (!out->there || tri_file_open_plain(path, &file) != TRI_OK) return;
  const bool read_all = read(file, theirs, REFERENCE_HEAD_BYTES) == REFERENCE_HEAD_BYTES;
  close(file);
  if (!read_all) return;
  const char *difference = first_difference(ours, theirs);
  if (difference == NULL) check_numbers(source, path, theirs + length, why);
  if (difference != NULL) snprintf(why, WHY_BYTES, "it says `%s`", difference);
  out->fits = why[0] == '\0';
  out->of_other_data = difference != NULL && strstr(theirs, strstr(ours, "\nrun ")) != NULL;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

/* Returns the policy whose log-probabilities are computed: the current weights, or the reference (the base alone).
 * Factors that begin as parts of the base cancel with their initial values except for rounding, and magnitudes are
 * norms except for rounding. Only the base alone can be computed again later to the bit. */
static tri_policy policy_of(const tri_training *t) {
  const tri_adapter *adapter = &t->config->model.tuning.adapter;
  const bool rounds = tri_adapter_is_principal(adapter) || adapter->magnitude;
  const bool is_base = t->progress.updates > 0 || (rounds && t->config->adapter_from[0] == '\0');
  return is_base ? TRI_POLICY_REFERENCE : TRI_POLICY_TRAINED;
}

/* Computes the log-probabilities of sequences [first, first + count) of the source, and stores each label's number at
 * its place in `numbers`, unless that is NULL. */
static tri_status compute_some(tri_training *t, const tri_preference_source *source, int64_t first, int64_t count,
                               double *rows, double *numbers) {
  const int64_t sequence = source->options.sequence;
  for (int mismatched = 0; mismatched <= (source->options.mismatched ? 1 : 0); mismatched++) {
    const tri_preference_at at = {source, first, true, mismatched == 1};
    const tri_feed feed = tri_preference_feed(&at);
    TRI_TRY(tri_engine_log_probs(t->engine, &feed, count, policy_of(t), rows));
    for (int64_t s = 0; s < count && numbers != NULL; s++)
      TRI_TRY(tri_preference_store(&at, s, rows + s * sequence, numbers));
  }
  return TRI_OK;
}

static int64_t batch_at(const tri_training *t, const tri_preference_source *source, int64_t first) {
  const int64_t left = source->per_epoch - first, batch = t->config->optimizer.global_batch;
  return left < batch ? left : batch;
}

/* A file that is being computed. The first rank has its image in memory; the other ranks take part in the computation.
 */
typedef struct computing {
  tri_training *t;
  const tri_preference_source *source;
  const char *path, *fingerprint;
  double *rows;    /* log-probabilities of the labels of a batch */
  char *image;     /* the whole file; NULL on ranks other than the first */
  double *numbers; /* the numbers inside `image` */
} computing;

/* Writes the path of PATH.part, the file that a stopped computation leaves: it has the numbers of the first sequences,
 * and their count in its head. */
static tri_status part_path(const computing *c, char out[TRI_PATH_BYTES]) {
  return tri_path_with(out, c->path, ".part");
}

/* On the first rank: writes the numbers of the first `done` sequences, and zeros for the rest. */
static tri_status keep_part(const computing *c, int64_t done) {
  char path[TRI_PATH_BYTES];
  char *line = c->image + print_head(c->t, c->source, c->fingerprint, c->image);
  TRI_TRY(part_path(c, path));
  line += snprintf(line, HASH_BYTES, "done %" PRId64 "\n", done);
  print_hash(c->source, c->numbers, line);
  return tri_file_replace(path, c->image, file_bytes(c->source));
}

/* On the first rank: reads the file of an interrupted computation; *done is 0 if there is no file that fits. */
static tri_status read_part(const computing *c, int64_t *done) {
  char path[TRI_PATH_BYTES], head[REFERENCE_HEAD_BYTES], hash[HASH_BYTES], *text = NULL;
  const size_t length = print_head(c->t, c->source, c->fingerprint, head);
  size_t bytes = 0;
  int used = 0;
  *done = 0;
  TRI_TRY(part_path(c, path));
  if (!tri_path_exists(path) || tri_file_read_plain(path, file_bytes(c->source), &text, &bytes) != TRI_OK)
    return TRI_OK;
  const bool whole = bytes == file_bytes(c->source) && text[REFERENCE_HEAD_BYTES - 1] == '\0';
  if (whole && first_difference(head, text) == NULL &&
      sscanf(text + length, "done %" SCNd64 "\n%n", done, &used) == 1) {
    memcpy(c->image, text, bytes);
    print_hash(c->source, c->numbers, hash);
    const bool good = *done > 0 && *done < c->source->per_epoch && strcmp(text + length + used, hash) == 0;
    if (!good) *done = 0;
  }
  tri_free(text);
  if (*done == 0) memset(c->image, 0, file_bytes(c->source));
  return TRI_OK;
}

/* COLLECTIVE. Sets *same to whether the current weights give the stored numbers of the first batch, to the bit. */
static tri_status is_of_these_weights(const computing *c, bool *same) {
  const size_t bytes = (size_t)num_numbers(c->source) * sizeof(double);
  double *before = NULL;
  int64_t wrong = 0;
  tri_status status = c->image == NULL ? TRI_OK : tri_alloc("reference log-probabilities", bytes, 1, &before);
  TRI_TRY(tri_common_status(&c->t->mesh.world, status));
  if (before != NULL) memcpy(before, c->numbers, bytes);
  status = compute_some(c->t, c->source, 0, batch_at(c->t, c->source, 0), c->rows, c->numbers);
  if (before != NULL) wrong = memcmp(before, c->numbers, bytes) != 0;
  tri_free(before);
  TRI_TRY(status);
  TRI_TRY(tri_all_sum_int64(&c->t->mesh.world, 1, &wrong));
  *same = wrong == 0;
  return TRI_OK;
}

/* COLLECTIVE. Sets *done, on all ranks, to the number of sequences that a stopped computation has completed; to 0 if
 * the current weights do not give its numbers. */
static tri_status find_part(const computing *c, int64_t *done) {
  const tri_group *world = &c->t->mesh.world;
  bool same = true;
  TRI_TRY(tri_first_rank_status(world, c->image != NULL ? read_part(c, done) : TRI_OK));
  TRI_TRY(tri_broadcast(world, 0, sizeof *done, done));
  if (*done > 0) TRI_TRY(is_of_these_weights(c, &same));
  if (!same) *done = 0;
  return TRI_OK;
}

static tri_status stop_computing(const computing *c, int64_t done) {
  const char *kept = done > 0 ? "the log-probabilities computed so far are kept" : "the next run begins them again";
  const bool first = c->image != NULL && done > 0;
  TRI_TRY(tri_first_rank_status(&c->t->mesh.world, first ? keep_part(c, done) : TRI_OK));
  return tri_fail(TRI_INTERRUPTED, "interrupted after %ld of %ld sequences of %s; %s", (long)done,
                  (long)c->source->per_epoch, c->path, kept);
}

static tri_status compute_all(const computing *c) {
  tri_training *t = c->t;
  int64_t first = 0;
  TRI_TRY(find_part(c, &first));
  while (first < c->source->per_epoch) {
    const int64_t count = batch_at(t, c->source, first);
    int64_t stop = tri_stop_asked();
    TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &stop));
    if (stop > 0) return stop_computing(c, first);
    TRI_TRY(compute_some(t, c->source, first, count, c->rows, c->numbers));
    first += count;
    tri_log_progress("reference log-probabilities of %ld of %ld sequences", (long)first, (long)c->source->per_epoch);
  }
  tri_log_progress_end();
  return TRI_OK;
}

/* On the first rank: writes the complete file, and removes the partial one. */
static tri_status write_all(const computing *c) {
  char part[TRI_PATH_BYTES];
  memset(c->image, 0, REFERENCE_HEAD_BYTES);
  print_hash(c->source, c->numbers, c->image + print_head(c->t, c->source, c->fingerprint, c->image));
  TRI_TRY(tri_file_replace(c->path, c->image, file_bytes(c->source)));
  if (part_path(c, part) == TRI_OK) (void)unlink(part);
  return TRI_OK;
}

static tri_status compute(tri_training *t, const tri_preference_source *source, const char *path,
                          const char *fingerprint) {
  const bool first = tri_training_is_rank0(t);
  computing c = {.t = t, .source = source, .path = path, .fingerprint = fingerprint};
  tri_stop_defer("interrupted twice, so it ends at once; reference log-probabilities begin again");
  if (first)
    tri_log_to_parent("step %ld", (long)t->progress.step); /* from here on the parent may pass on a stop request */
  tri_status status =
      tri_alloc("log-probabilities of a batch", (size_t)(t->config->optimizer.global_batch * source->options.sequence),
                sizeof *c.rows, &c.rows);
  if (status == TRI_OK && first) status = tri_alloc("reference log-probabilities", file_bytes(source), 1, &c.image);
  status = tri_common_status(&t->mesh.world, status);
  if (c.image != NULL) c.numbers = (double *)(void *)(c.image + REFERENCE_HEAD_BYTES);
  if (status == TRI_OK) status = compute_all(&c);
  if (status == TRI_OK) status = tri_first_rank_status(&t->mesh.world, first ? write_all(&c) : TRI_OK);
  tri_free(c.image);
  tri_free(c.rows);
  return status;
}

/* COLLECTIVE. Before the first update, sets *same to whether the current weights give the stored numbers of the first
 * batch, to the bit. */
static tri_status check_first(tri_training *t, const tri_preference_source *source, const double *stored, bool *same) {
  const int64_t count = batch_at(t, source, 0);
  double *rows = NULL, *numbers = NULL;
  int64_t wrong = 0;
  tri_status status =
      tri_alloc("log-probabilities of a batch", (size_t)(count * source->options.sequence), sizeof *rows, &rows);
  if (status == TRI_OK)
    status = tri_alloc("reference log-probabilities", (size_t)num_numbers(source), sizeof *numbers, &numbers);
  status = tri_common_status(&t->mesh.world, status);
  if (status == TRI_OK) {
    memcpy(numbers, stored, (size_t)num_numbers(source) * sizeof *numbers);
    status = compute_some(t, source, 0, count, rows, numbers);
  }
  if (status == TRI_OK) {
    wrong = memcmp(numbers, stored, (size_t)num_numbers(source) * sizeof *numbers) != 0;
    status = tri_all_sum_int64(&t->mesh.world, 1, &wrong);
  }
  *same = wrong == 0;
  tri_free(numbers);
  tri_free(rows);
  return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Fails with the reason why the file cannot be used. After the first update, the numbers exist only in the file that
 * the run wrote when it began. */
static tri_status refuse(const tri_training *t, const tri_preference_source *source, const char *path,
                         const finding *found) {
  const bool held_out = source == &t->data.validation_preferences;
  const long updates = (long)t->progress.updates;
  if (found->of_other_data) {
    return tri_fail(TRI_BAD_FILE,
                    "`%s`: %s has the reference's log-probabilities of other data (%s), and the reference is the model "
                    "as this run began, before %ld updates; %s, or begin a new run with `init` in a new output",
                    held_out ? "data.validation_preferences" : "data.preferences", path, found->why, updates,
                    held_out ? "name the pairs of before, or none" : "restore the earlier `data` and `objective`");
  }
  if (!found->there && held_out) {
    return tri_fail(
        TRI_BAD_FILE,
        "`data.validation_preferences`: %s is missing, which would have the log-probabilities of these pairs "
        "under the reference, the model as this run began, and %ld updates have been made since; if they "
        "are new to the run, leave the key out, or begin a new run with `init` in a new output; if not, "
        "bring the file back",
        path, updates);
  }
  if (!found->there) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is missing: it has the log-probabilities of the reference, the model as this run began, and "
                    "%ld updates have been made since; bring it back, or begin a new run with `init` in a new output",
                    path, updates);
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s is not of this run and its data (%s); bring back the file of this run, or begin a new "
                  "run with `init` in a new output",
                  path, found->why);
}

tri_status tri_reference_open(tri_training *t, const tri_preference_source *source, const char *name,
                              const char *fingerprint, const double **out) {
  const tri_group *world = &t->mesh.world;
  char path[TRI_PATH_BYTES];
  finding found = {0};
  TRI_TRY(tri_path_join(path, t->config->output, name));
  if (tri_training_is_rank0(t)) find(t, source, path, fingerprint, &found);
  TRI_TRY(tri_broadcast(world, 0, sizeof found, &found));
  if (t->progress.updates > 0 && found.fits == 0 && !tri_preferences_keep_reference(t->config)) {
    return tri_first_rank_status(world, tri_training_is_rank0(t) ? refuse(t, source, path, &found) : TRI_OK);
  }
  if (found.fits > 0) {
    bool same = true;
    TRI_TRY(tri_common_status(world, map_file(path, source, out)));
    if (t->progress.updates == 0) TRI_TRY(check_first(t, source, *out, &same));
    if (same) return TRI_OK;
    tri_reference_close(source, *out);
    *out = NULL;
  }
  if (t->progress.updates > 0) {
    tri_log("%s %s; it is computed again, from the base of the adapter", path,
            found.there > 0 ? "is not of this run and its data" : "is missing");
  }
  TRI_TRY(compute(t, source, path, fingerprint));
  return tri_common_status(world, map_file(path, source, out));
}
