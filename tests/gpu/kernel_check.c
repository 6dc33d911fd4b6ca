/* Proves the kernels of a device beside the reference device:
 *
 *   kernel_check DEVICE [--types fp64,fp32,bf16] [--kernels add,matmul] [--seed N] [--seeds N] [--json FILE] [--quick]
 *
 * Every kernel of device/kernels.h, in every type that the device runs, on random inputs of many sizes (checker.c,
 * cases_*.c). --seed repeats a run whose seed was printed, --seeds takes that many fresh seeds one after the other.
 * --quick leaves out what is large. A line for each kernel and type: the worst error by norm, of how many cases; the
 * exit status is 0 if all are right, 1 if one is wrong or missing, and else the program's own (base/status.h). */
#include "checker.h"

#include "base/clock.h"
#include "base/system.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
  const char *device, *types, *kernels, *json;
  uint64_t seed;
  int64_t seeds;
  bool quick, seeded;
} options;

static const tri_dtype all_types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
enum { NUM_TYPES = sizeof all_types / sizeof all_types[0] };

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tri_status number_of(const char *name, const char *text, uint64_t *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoull(text, &end, 10);
  if (errno == 0 && *text >= '0' && *text <= '9' && *end == '\0') return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "%s takes a whole number, not `%s`", name, text);
}

static tri_status set_option(const char *name, const char *value, options *out) {
  uint64_t number = 0;
  if (strcmp(name, "--types") == 0) {
    out->types = value;
  } else if (strcmp(name, "--kernels") == 0) {
    out->kernels = value;
  } else if (strcmp(name, "--json") == 0) {
    out->json = value;
  } else if (strcmp(name, "--seed") == 0) {
    out->seeded = true;
    return number_of(name, value, &out->seed);
  } else if (strcmp(name, "--seeds") == 0) {
    TRI_TRY(number_of(name, value, &number));
    if (number < 1 || number > 1000000) return tri_fail(TRI_BAD_USAGE, "--seeds takes 1 to 1000000");
    out->seeds = (int64_t)number;
  } else {
    return tri_fail(TRI_BAD_USAGE,
                    "`%s` is not an option; there are --types, --kernels, --seed, --seeds, --json and "
                    "--quick",
                    name);
  }
  return TRI_OK;
}

static bool is_in(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return list == NULL;
}

/* Each word of a list is one of those that is_known knows. */
static tri_status check_words(const char *option, const char *list, bool (*is_known)(const char *word)) {
  char word[64];
  for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    if (!is_known(word)) return tri_fail(TRI_BAD_USAGE, "%s: there is no `%s`", option, word);
  }
  return TRI_OK;
}

static bool is_type(const char *word) {
  for (int t = 0; t < NUM_TYPES; t++)
    if (strcmp(word, tri_dtype_name(all_types[t])) == 0) return true;
  return false;
}

static bool is_kernel(const char *word) {
  for (const kernel_cases *k = all_kernels; k->name != NULL; k++)
    if (strcmp(word, k->name) == 0) return true;
  return false;
}

static tri_status parse(int count, char **words, options *out) {
  *out = (options){.seeds = 1};
  for (int i = 1; i < count; i++) {
    if (strcmp(words[i], "--quick") == 0) {
      out->quick = true;
    } else if (strncmp(words[i], "--", 2) != 0 && out->device == NULL) {
      out->device = words[i];
    } else if (strncmp(words[i], "--", 2) == 0 && i + 1 < count) {
      TRI_TRY(set_option(words[i], words[i + 1], out));
      i++;
    } else {
      return tri_fail(TRI_BAD_USAGE, "`%s` is one word too many, or its value is missing", words[i]);
    }
  }
  if (out->device == NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "usage: kernel_check DEVICE [--types fp64,fp32,bf16] [--kernels add,matmul] "
                    "[--seed N] [--seeds N] [--json FILE] [--quick]");
  }
  TRI_TRY(check_words("--types", out->types, is_type));
  return check_words("--kernels", out->kernels, is_kernel);
}

static tri_status fresh_seed(uint64_t *out) {
  char text[TRI_UNIQUE_BYTES];
  TRI_TRY(tri_system_unique(text));
  text[9] = '\0';
  *out = strtoull(text, NULL, 16);
  return TRI_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void print_result(const kernel_result *r) {
  if (r->missing) {
    printf("%-28s %-5s MISSING: %s\n", r->kernel, tri_dtype_name(r->type), r->first);
  } else {
    printf("%-28s %-5s worst %-9.3g %4lld cases  %s\n", r->kernel, tri_dtype_name(r->type), r->worst,
           (long long)r->cases, r->failures == 0 ? "ok" : "FAILED");
    if (r->failures > 0) printf("    %lld failures, the first: %s\n", (long long)r->failures, r->first);
  }
  fflush(stdout);
}

static json_t *json_of(const kernel_result *r, uint64_t seed) {
  json_t *out = json_pack("{s:s, s:s, s:I, s:b, s:f, s:I, s:I}", "kernel", r->kernel, "type", tri_dtype_name(r->type),
                          "seed", (json_int_t)seed, "ok", r->failures == 0, "worst", r->worst, "cases",
                          (json_int_t)r->cases, "failures", (json_int_t)r->failures);
  if (out != NULL && r->failures > 0) json_object_set_new(out, "first", json_string(r->first));
  return out;
}

typedef struct account {
  json_t *results;
  int64_t kernels, wrong, cases;
} account;

static tri_status run_seed(const options *o, checker *c, account *all) {
  printf("kernel_check: %s (%s), seed %llu%s\n", o->device, c->device->info.name, (unsigned long long)c->seed,
         c->quick ? ", quick" : "");
  for (const kernel_cases *k = all_kernels; k->name != NULL; k++) {
    for (int t = 0; t < NUM_TYPES; t++) {
      const bool can = (c->device->info.types >> (unsigned)all_types[t] & 1u) != 0;
      kernel_result result;
      if (!is_in(o->kernels, k->name) || !is_in(o->types, tri_dtype_name(all_types[t]))) continue;
      if (!can && o->types == NULL) continue;
      TRI_TRY(tri_device_supports(c->device, all_types[t]));
      TRI_TRY(checker_run(c, k, all_types[t], &result));
      print_result(&result);
      json_array_append_new(all->results, json_of(&result, c->seed));
      all->kernels++;
      all->cases += result.cases;
      if (result.failures > 0) all->wrong++;
    }
  }
  return TRI_OK;
}

static tri_status run_seeds(const options *o, checker *c, account *all) {
  for (int64_t s = 0; s < o->seeds; s++) {
    c->seed = o->seed + (uint64_t)s;
    if (!o->seeded) TRI_TRY(fresh_seed(&c->seed));
    TRI_TRY(run_seed(o, c, all));
  }
  return TRI_OK;
}

static tri_status write_json(const options *o, const checker *c, const account *all, double seconds) {
  if (o->json == NULL) return TRI_OK;
  json_t *document =
      json_pack("{s:s, s:s, s:b, s:f, s:I, s:O}", "device", o->device, "name", c->device->info.name, "quick", o->quick,
                "seconds", seconds, "wrong", (json_int_t)all->wrong, "results", all->results);
  const int failed = document == NULL || json_dump_file(document, o->json, JSON_INDENT(1)) != 0;
  json_decref(document);
  return failed ? tri_fail(TRI_IO_FAILED, "%s cannot be written: %s", o->json, strerror(errno)) : TRI_OK;
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

static tri_status open_by_name(const void *which, tri_device **out) { return tri_device_create(which, 0, out); }

static tri_status prove(const options *o, account *all) {
  checker c = {.open = open_by_name, .which = o->device, .quick = o->quick};
  TRI_TRY(checker_open(&c));
  const double begin = tri_clock_s();
  tri_status status = run_seeds(o, &c, all);
  const double seconds = tri_clock_s() - begin;
  if (status == TRI_OK) {
    printf("kernel_check: %lld of %lld are wrong or missing; %lld cases, %.1f s\n", (long long)all->wrong,
           (long long)all->kernels, (long long)all->cases, seconds);
    status = write_json(o, &c, all, seconds);
  }
  checker_close(&c);
  return status;
}

int main(int count, char **words) {
  options o;
  account all = {.results = json_array()};
  tri_status status = parse(count, words, &o);
  if (status == TRI_OK) status = prove(&o, &all);
  json_decref(all.results);
  if (status == TRI_OK) return all.wrong > 0 ? 1 : 0;
  fprintf(stderr, "kernel_check: %s\n", tri_status_message());
  return tri_status_exit(status);
}
