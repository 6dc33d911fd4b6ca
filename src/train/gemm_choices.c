#include "train/gemm_choices.h"

#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "device/gemm_choices.h"
#include "train/gemm_choices_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static int64_t count_lines(const char *text) {
  int64_t count = 0;
  for (const char *at = text; *at != '\0'; at++) count += *at == '\n';
  return count;
}

/* Returns whether a line of the text is `line`, or begins with it and a blank: a choice begins with its product. */
static bool has_line(const char *text, const char *line, size_t length) {
  while (*text != '\0') {
    const size_t whole = strcspn(text, "\n");
    if (whole >= length && memcmp(text, line, length) == 0 && (whole == length || text[length] == ' ')) return true;
    text += whole + (text[whole] == '\n');
  }
  return false;
}

/* Appends the lines of `more` to *text, except a line that is in `besides` or that a line of `besides` begins with.
 * `besides` NULL: compares with *text itself. */
static tri_status add_lines(char **text, const char *more, const char *besides) {
  const size_t used = *text == NULL ? 0 : strlen(*text);
  TRI_TRY(tri_realloc("a list of matrix products", used + strlen(more) + 1, 1, text));
  char *end = *text + used;
  *end = '\0';
  while (*more != '\0') {
    size_t length = strcspn(more, "\n");
    const bool known = has_line(besides == NULL ? *text : besides, more, length);
    length += more[length] == '\n';
    if (!known) {
      memcpy(end, more, length);
      end += length;
      *end = '\0';
    }
    more += length;
  }
  return TRI_OK;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Facts about the products that a rank will request from its device; ranks with the same part of the model request the
 * same products. */
typedef struct asked {
  char chooser[TRI_DEVICE_GEMM_LIBRARY_BYTES];
  uint64_t length, hash;
} asked;

/* Lists the products that this rank needs; planning the engine's memory requests them from the device. */
static tri_status ask_own(const tri_engine_options *options, tri_device *device, char **out) {
  tri_parts parts = {0};
  tri_memory_plan *plan = NULL;
  TRI_TRY(tri_engine_parts_create(options, &options->mesh->place, device, &parts));
  tri_memory_request request = tri_engine_memory_request(options, &parts, &options->mesh->place, device);
  tri_status status = tri_memory_plan_create(&request, &plan);
  tri_memory_plan_destroy(plan);
  tri_parts_destroy(&parts);
  return status == TRI_OK ? tri_device_gemms_asked(device, out) : status;
}

/* COLLECTIVE. Copies the text of rank r to all ranks. */
static tri_status share_text(const tri_group *world, int r, const char *own, uint64_t length, char **out) {
  char *text = NULL;
  tri_status status = tri_alloc("a list of matrix products", (size_t)length + 1, 1, &text);
  TRI_TRY(tri_common_status(world, status));
  if (world->rank == r) memcpy(text, own, (size_t)length);
  status = world->size == 1 || length == 0 ? TRI_OK : tri_broadcast(world, r, (size_t)length, text);
  if (status == TRI_OK) *out = text;
  if (status != TRI_OK) tri_free(text);
  return status;
}

static bool same_chooser(const asked *a, const asked *b) { return strcmp(a->chooser, b->chooser) == 0; }

/* Returns whether rank r has rank 0's chooser and requests products that no rank before it requests. */
static bool adds_something(const asked *all, int r) {
  if (!same_chooser(&all[0], &all[r])) return false;
  for (int before = 0; before < r; before++) {
    if (all[before].hash == all[r].hash && same_chooser(&all[0], &all[before])) return false;
  }
  return true;
}

/* COLLECTIVE. Collects the requests of all ranks that have rank 0's chooser. */
static tri_status gather_asked(const tri_group *world, const asked *all, const char *own, char **out) {
  *out = NULL;
  TRI_TRY(tri_strdup("", out));
  for (int r = 0; r < world->size; r++) {
    char *text = NULL;
    if (!adds_something(all, r)) continue;
    TRI_TRY(share_text(world, r, own, all[r].length, &text));
    tri_status status = tri_common_status(world, add_lines(out, text, NULL));
    tri_free(text);
    TRI_TRY(status);
  }
  return TRI_OK;
}

/* ---- the first rank chooses -------------------------------------------------------------------------------------- */

/* Reads the choices of an earlier part of the run, and gives them to the device; reads "" if the device cannot use
 * them. */
static tri_status read_choices(const char *path, const tri_run_config *config, tri_device *device, const char *chooser,
                               tri_gemm_choices_file *out) {
  bool found = false;
  *out = (tri_gemm_choices_file){.timed = config->time_products};
  tri_status status = tri_gemm_choices_file_read(path, &found, out);
  if (status == TRI_OK && found && strcmp(out->chooser, chooser) == 0) {
    status = tri_device_gemms_use(device, out->choices);
    if (status == TRI_OK && config->time_products && !out->timed) {
      tri_log("%s holds GEMM algorithms that were chosen without timing; remove it to have them timed", path);
    }
    if (status == TRI_OK) return TRI_OK;
  } else if (status == TRI_OK && found) {
    tri_log("%s is of %s, and this run has %s: GEMM algorithms are tuned again, and sums may differ in their last bits",
            path, out->chooser, chooser);
  }
  if (status != TRI_OK)
    tri_warn("GEMM algorithms are tuned again, and sums may differ in their last bits: %s", tri_status_message());
  tri_free(out->choices);
  *out = (tri_gemm_choices_file){.timed = config->time_products};
  return tri_strdup("", &out->choices);
}

/* Reads the earlier choices unless `anew`, lets the device choose the missing ones, and writes the file if any were
 * missing. *choices: all of them, one per line; release with tri_free. */
static tri_status choose_run_gemms(const tri_run_config *config, tri_device *device, const char *chooser,
                                   const char *products, bool anew, char **choices) {
  char path[TRI_PATH_BYTES];
  tri_gemm_choices_file file = {.timed = config->time_products};
  char *wanted = NULL, *chosen = NULL;
  TRI_TRY(tri_path_join(path, config->output, "products.json"));
  tri_status status = anew ? tri_strdup("", &file.choices) : read_choices(path, config, device, chooser, &file);
  const int64_t kept = status == TRI_OK ? count_lines(file.choices) : 0;
  if (status == TRI_OK) status = add_lines(&wanted, products, file.choices);
  if (status == TRI_OK) status = tri_device_gemms_choose(device, wanted, config->time_products, &chosen);
  if (status == TRI_OK) status = add_lines(&file.choices, chosen, NULL);
  if (status == TRI_OK && count_lines(chosen) > 0) {
    snprintf(file.chooser, sizeof file.chooser, "%s", chooser);
    status = tri_gemm_choices_file_write(path, &file);
    if (status == TRI_OK) {
      tri_log("%" PRId64 " matrix products chosen%s and %" PRId64 " kept, of %s", count_lines(chosen),
              config->time_products ? " by timing" : "", kept, chooser);
    }
  }
  tri_free(chosen);
  tri_free(wanted);
  if (status == TRI_OK) {
    *choices = file.choices;
  } else {
    tri_free(file.choices);
  }
  return status;
}

static void warn_of_others(const asked *all, int ranks) {
  int first = 0, others = 0;
  for (int r = 1; r < ranks; r++) {
    if (same_chooser(&all[0], &all[r])) continue;
    if (others++ == 0) first = r;
  }
  if (others == 0) return;
  tri_warn(
      "%d ranks use other GEMM algorithms than rank 0, and their sums may differ in the last bits: rank "
      "%d has %s, rank 0 has %s",
      others, first, all[first].chooser[0] == '\0' ? "nothing to choose from" : all[first].chooser,
      all[0].chooser[0] == '\0' ? "nothing to choose from" : all[0].chooser);
}

/* COLLECTIVE. Chooses on the first rank, shares the choices with all ranks, and gives them to the devices of the ranks
 * that have rank 0's chooser. Rank 0 warns of ranks with another chooser; if rank 0 has no chooser, nothing else is
 * done. */
static tri_status choose_together(const tri_run_config *config, const tri_group *world, tri_device *device,
                                  const asked *all, const char *products, bool anew) {
  char *choices = NULL, *text = NULL;
  const bool takes = all[0].chooser[0] != '\0';
  if (world->rank == 0) warn_of_others(all, world->size);
  if (!takes) return TRI_OK;
  tri_status status = TRI_OK;
  if (world->rank == 0) status = choose_run_gemms(config, device, all[0].chooser, products, anew, &choices);
  TRI_TRY(tri_first_rank_status(world, status));
  uint64_t length = choices == NULL ? 0 : strlen(choices);
  status = world->size == 1 ? TRI_OK : tri_broadcast(world, 0, sizeof length, &length);
  if (status == TRI_OK) status = share_text(world, 0, choices, length, &text);
  tri_free(choices);
  TRI_TRY(status);
  if (same_chooser(&all[0], &all[world->rank])) status = tri_device_gemms_use(device, text);
  tri_free(text);
  return tri_common_status(world, status);
}

tri_status tri_gemm_choices_agree(const tri_engine_options *options, const tri_run_config *config, tri_device *device,
                                  bool anew) {
  const tri_group *world = &options->mesh->world;
  asked own = {.length = 0}, *all = NULL;
  char *text = NULL, *products = NULL;
  tri_device_gemm_library(device, own.chooser);
  int64_t choosers = own.chooser[0] != '\0';
  TRI_TRY(tri_all_sum_int64(world, 1, &choosers));
  if (choosers == 0) return TRI_OK;
  TRI_TRY(tri_common_status(world, ask_own(options, device, &text)));
  own.length = strlen(text);
  own.hash = XXH3_64bits(text, strlen(text));
  tri_status status = tri_alloc("requests of ranks", (size_t)world->size, sizeof *all, &all);
  TRI_TRY_GOTO(tri_common_status(world, status), done);
  TRI_TRY_GOTO(tri_gather_bytes(world, sizeof own, &own, all), done);
  TRI_TRY_GOTO(gather_asked(world, all, text, &products), done);
  status = choose_together(config, world, device, all, products, anew);
done:
  tri_free(products);
  tri_free(all);
  tri_free(text);
  return status;
}
