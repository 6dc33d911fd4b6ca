#include "device/guarded/guarded.h"

#include "base/memory.h"
#include "base/parent.h"
#include "base/system.h"
#include "device/guarded/internal.h"
#include "device/reference/reference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tri_guarded_ordinal(uint64_t number, char buffer[32]) {
  static const char *const ends[] = {"th", "st", "nd", "rd"};
  bool teen = number / 10 % 10 == 1;
  snprintf(buffer, 32, "%llu%s", (unsigned long long)number, ends[teen || number % 10 > 3 ? 0 : number % 10]);
  return buffer;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct option {
  const char *name;
  size_t offset; /* of an unsigned or a signed number of 64 bits */
  long long least;
} option;

static const option all_options[] = {
    {"seed", offsetof(tri_guarded_options, seed), 0},
    {"fail_memory", offsetof(tri_guarded_options, fail_memory), 1},
    {"fail_copy", offsetof(tri_guarded_options, fail_copy), 1},
    {"fail_kernel", offsetof(tri_guarded_options, fail_kernel), 1},
    {"rank", offsetof(tri_guarded_options, rank), 0},
};
enum { NUM_OPTIONS = sizeof all_options / sizeof all_options[0] };

static tri_status set_option(const char *text, size_t length, tri_guarded_options *out) {
  const char *equals = memchr(text, '=', length);
  size_t name_length = equals == NULL ? length : (size_t)(equals - text);
  for (int i = 0; i < NUM_OPTIONS; i++) {
    const option *o = &all_options[i];
    if (strlen(o->name) != name_length || strncmp(o->name, text, name_length) != 0) continue;
    char *end = NULL;
    errno = 0;
    int64_t value = equals == NULL ? -1 : strtoll(equals + 1, &end, 10);
    if (equals != NULL && end == text + length && end != equals + 1 && errno == 0 && value >= o->least) {
      memcpy((char *)out + o->offset, &value, sizeof value);
      return TRI_OK;
    }
    return tri_fail(TRI_BAD_CONFIG, "`%.*s` of `device: guarded` should be %s=NUMBER, a whole number from %lld on",
                    (int)length, text, o->name, o->least);
  }
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%.*s` is not an option of `device: guarded`; there are seed, fail_memory, fail_copy, fail_kernel and "
      "rank, as in guarded:seed=7,fail_copy=10",
      (int)length, text);
}

/* Which of them hold is a question of the rank: those of another rank do not. */
static tri_status parse(const char *text, tri_guarded_options *out) {
  *out = (tri_guarded_options){.rank = -1};
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    TRI_TRY(set_option(text, length, out));
    text += length + (text[length] == ',');
  }
  int rank = tri_parent_rank();
  if (out->rank >= 0 && out->rank != (rank < 0 ? 0 : rank)) out->fail_memory = out->fail_copy = out->fail_kernel = 0;
  return TRI_OK;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static void guarded_destroy(tri_device *device) {
  tri_guarded_state *state = device->state;
  tri_guarded_unwatch(state);
  tri_guarded_release_all(state);
  pthread_mutex_destroy(&state->lock);
  tri_free(state);
}

static const tri_device_driver driver = {
    .memory_create = tri_guarded_memory_create,
    .memory_destroy = tri_guarded_memory_destroy,
    .host_create = tri_guarded_host_create,
    .host_destroy = tri_guarded_host_destroy,
    .copy = tri_guarded_copy,
    .undefine = tri_guarded_undefine,
    .queue_create = tri_guarded_queue_create,
    .queue_destroy = tri_guarded_queue_destroy,
    .mark = tri_guarded_mark,
    .wait = tri_guarded_wait,
    .event_wait = tri_guarded_event_wait,
    .event_passed = tri_guarded_event_passed,
    .destroy = guarded_destroy,
};

tri_status tri_guarded_create(const char *options, int threads, tri_device *out) {
  (void)threads;
  tri_guarded_options parsed;
  tri_guarded_state *state = NULL;
  TRI_TRY(parse(options, &parsed));
  TRI_TRY(tri_alloc("a device", 1, sizeof *state, &state));
  pthread_mutex_init(&state->lock, NULL);
  state->options = parsed;
  state->random = tri_random_stream(parsed.seed, TRI_RANDOM_TEST, 0);
  tri_guarded_fill_kernels(&state->kernels);
  tri_guarded_watch(state);
  unsigned types = out->info.types;
  out->info = (tri_device_info){
      .name = "guarded", .memory_bytes = tri_system_memory_available(), .host_memory = true, .types = types};
  out->driver = &driver;
  out->kernels = &state->kernels;
  out->description = tri_reference_description;
  out->state = state;
  return TRI_OK;
}
