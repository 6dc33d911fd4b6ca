#include "device/guarded/guarded.h"

#include "base/memory.h"
#include "base/parent.h"
#include "base/random.h"
#include "base/system.h"
#include "device/guarded/internal.h"
#include "device/reference/reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct option {
  const char *name;
  size_t offset; /* offset in tri_guarded_options of a 64-bit number, signed or not */
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

static tri_status set_option(const char *kind, const char *others, const char *text, size_t length,
                             tri_guarded_options *out) {
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
    return tri_fail(TRI_BAD_CONFIG, "`%.*s` of `device: %s` should be %s=NUMBER, a whole number from %lld on",
                    (int)length, text, kind, o->name, o->least);
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "`%.*s` is not an option of `device: %s`; there are %sseed, fail_memory, fail_copy, fail_kernel and "
                  "rank, as in %s:seed=7,fail_copy=10",
                  (int)length, text, kind, others, kind);
}

/* Parses the options. If `rank` is given, all other ranks ignore the options that make something fail. */
static tri_status parse(const char *kind, const char *others, const char *text, tri_guarded_options *out) {
  *out = (tri_guarded_options){.rank = -1};
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    TRI_TRY(set_option(kind, others, text, length, out));
    text += length + (text[length] == ',');
  }
  int rank = tri_parent_rank();
  if (out->rank >= 0 && out->rank != (rank < 0 ? 0 : rank)) out->fail_memory = out->fail_copy = out->fail_kernel = 0;
  return TRI_OK;
}

tri_status tri_guarded_options_check(const char *kind, const char *others, const char *options) {
  tri_guarded_options parsed;
  return parse(kind, others, options, &parsed);
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

tri_status tri_guarded_state_create(const char *kind, const char *others, const char *options,
                                    tri_guarded_state **out) {
  tri_guarded_options parsed;
  tri_guarded_state *state = NULL;
  TRI_TRY(parse(kind, others, options, &parsed));
  TRI_TRY(tri_alloc("a device", 1, sizeof *state, &state));
  pthread_mutexattr_t checked;
  pthread_mutexattr_init(&checked);
  pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&state->lock, &checked);
  pthread_mutexattr_destroy(&checked);
  state->options = parsed;
  state->random = tri_random_stream(parsed.seed, TRI_RANDOM_TEST, 0);
  tri_guarded_watch(state);
  *out = state;
  return TRI_OK;
}

void tri_guarded_state_destroy(tri_guarded_state *state) {
  tri_guarded_unwatch(state);
  tri_guarded_release_all(state);
  pthread_mutex_destroy(&state->lock);
  tri_free(state);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static tri_status guarded_memory_create(tri_device *device, size_t bytes, void **out) {
  return tri_guarded_memory_create(device->state, bytes, out);
}

static tri_status guarded_host_create(tri_device *device, size_t bytes, void **out) {
  return tri_guarded_host_create(device->state, bytes, out);
}

static void guarded_release(tri_device *device, void *memory, size_t bytes) {
  (void)bytes;
  tri_guarded_memory_release(device->state, memory);
}

static tri_status guarded_queue_create(tri_queue *queue) {
  tri_guarded_queue *own = NULL;
  TRI_TRY(tri_guarded_queue_create(queue->device->state, queue, &own));
  queue->state = own;
  return TRI_OK;
}

static void guarded_queue_destroy(tri_queue *queue) { tri_guarded_queue_destroy(queue->state); }

static tri_status guarded_copy(tri_queue *queue, const tri_copy *copy) {
  return tri_guarded_queue_copy(queue->state, copy);
}

static tri_status guarded_undefine(tri_queue *queue, void *memory, size_t bytes) {
  return tri_guarded_queue_undefine(queue->state, memory, bytes);
}

static tri_status guarded_mark(tri_queue *queue, tri_device_event *out) {
  out->number = tri_guarded_queue_place(queue->state);
  return TRI_OK;
}

static tri_status guarded_wait(tri_queue *queue, const tri_device_event *event) {
  if (event->queue->device != queue->device) {
    return tri_fail_internal("a queue of the device waits for one of another device: a mistake of this program's");
  }
  return tri_guarded_queue_follow(queue->state, event->queue->state, event->number);
}

static tri_status guarded_event_wait(const tri_device_event *event) {
  return tri_guarded_queue_reach(event->queue->state, event->number);
}

static bool guarded_event_passed(const tri_device_event *event) {
  return tri_guarded_queue_has_passed(event->queue->state, event->number);
}

static void guarded_destroy(tri_device *device) { tri_guarded_state_destroy(device->state); }

static const tri_device_driver driver = {
    .memory_create = guarded_memory_create,
    .memory_destroy = guarded_release,
    .host_create = guarded_host_create,
    .host_destroy = guarded_release,
    .copy = guarded_copy,
    .undefine = guarded_undefine,
    .queue_create = guarded_queue_create,
    .queue_destroy = guarded_queue_destroy,
    .mark = guarded_mark,
    .wait = guarded_wait,
    .event_wait = guarded_event_wait,
    .event_passed = guarded_event_passed,
    .destroy = guarded_destroy,
};

tri_status tri_guarded_check(const char *options) { return tri_guarded_options_check("guarded", "", options); }

tri_status tri_guarded_create(const char *options, const tri_device_request *request, tri_device *out) {
  (void)request;
  tri_guarded_state *state = NULL;
  TRI_TRY(tri_guarded_state_create("guarded", "", options, &state));
  tri_guarded_fill_kernels(&state->kernels);
  unsigned types = out->info.types;
  out->info = (tri_device_info){
      .name = "guarded", .memory_bytes = tri_system_memory_available(), .host_memory = true, .types = types};
  out->driver = &driver;
  out->kernels = &state->kernels;
  out->description = tri_reference_description;
  out->state = state;
  return TRI_OK;
}
