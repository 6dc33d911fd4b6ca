#include "device/device.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/nearest_word.h"
#include "device/kinds.h"
#include "device/libraries.h"
#include "device/queue.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

enum { MOST_KINDS = 16 };

static bool is_here(const tri_device_kind *kind) { return kind->create != NULL; }

const char *tri_device_kind_name(int index) {
  for (const tri_device_kind *kind = tri_device_kinds; kind->name != NULL; kind++) {
    if (is_here(kind) && index-- == 0) return kind->name;
  }
  return NULL;
}

bool tri_device_has_kinds_for_tests(void) {
  for (const tri_device_kind *kind = tri_device_kinds; kind->name != NULL; kind++) {
    if (is_here(kind) && kind->for_tests) return true;
  }
  return false;
}

/* Returns the kind in a device's name, and sets *options to the text after the colon. NULL: the kind is unknown. */
static const tri_device_kind *find_kind(const char *name, const char **options) {
  *options = "";
  for (const tri_device_kind *kind = tri_device_kinds; kind->name != NULL; kind++) {
    size_t length = strlen(kind->name);
    if (strncmp(name, kind->name, length) != 0 || (name[length] != '\0' && name[length] != ':')) continue;
    if (name[length] == ':') *options = name + length + 1;
    return kind;
  }
  return NULL;
}

static bool gpu_is_visible(void) {
  const char *options;
  const tri_device_kind *gpu = find_kind("gpu", &options);
  return gpu != NULL && gpu->is_visible();
}

static bool is_auto(const char *name) { return strcmp(name, "auto") == 0; }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static tri_status no_such_kind(const char *name) {
  const char *known[MOST_KINDS] = {"auto"}, *nearest = NULL;
  char begin[16], meant[48] = "";
  int count = 1;
  for (const char *kind; count < MOST_KINDS && (kind = tri_device_kind_name(count - 1)) != NULL; count++) {
    known[count] = kind;
  }
  snprintf(begin, sizeof begin, "%.*s", (int)strcspn(name, ":"), name);
  for (char *at = begin; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
  nearest = tri_nearest_word(begin, known, count);
  if (nearest != NULL) snprintf(meant, sizeof meant, "; did you mean `%s`?", nearest);
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%s` is not a device; there are auto, cpu (cpu:avx2, ... for one vector unit), reference, gpu (gpu:2, ... for "
      "one of several)%s%s",
      name,
      tri_device_has_kinds_for_tests()
          ? ", and for tests guarded (guarded:seed=7, ...) and emulated (emulated:warp=64, ...)"
          : "",
      meant);
}

/* Returns whether an option in `words` before `word`, which points into `words`, has the same name. A name ends at
 * the option's `=` or at its end. */
static bool is_repeated(const char *words, const char *word, size_t length) {
  const char *equals = memchr(word, '=', length);
  const size_t name = equals == NULL ? length : (size_t)(equals - word);
  while (words < word) {
    const size_t other = strcspn(words, ",");
    if (strcspn(words, "=,") == name && memcmp(words, word, name) == 0) return true;
    words += other + 1;
  }
  return false;
}

/* Checks the syntax of all kinds' options: words separated by commas, none of them empty or repeated. */
static tri_status check_words(const char *name, const char *rest) {
  if (*rest == '\0') {
    return tri_fail(TRI_BAD_CONFIG, "`%s` has nothing behind its colon; `%.*s` alone has no options", name,
                    (int)strcspn(name, ":"), name);
  }
  for (const char *word = rest;; word++) {
    const size_t length = strcspn(word, ",");
    if (length == 0) {
      return tri_fail(TRI_BAD_CONFIG, "`%s` has an empty option; options have one comma between them", name);
    }
    if (is_repeated(rest, word, length)) {
      return tri_fail(TRI_BAD_CONFIG, "`%s` says %.*s twice; say it once", name, (int)strcspn(word, "=,"), word);
    }
    word += length;
    if (*word == '\0') return TRI_OK;
  }
}

static tri_status find(const char *name, const tri_device_kind **out, const char **options) {
  *out = find_kind(name, options);
  if (*out == NULL) return no_such_kind(name);
  if (!is_here(*out)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "this build has no device `%s`, which is for tests: `make build-tests` makes build/trireme-test, "
                    "which has it; to train, use `device: auto`, cpu, reference or gpu",
                    name);
  }
  if (strchr(name, ':') != NULL) TRI_TRY(check_words(name, *options));
  return (*out)->check == NULL ? TRI_OK : (*out)->check(*options);
}

static tri_status create_device_of_kind(const tri_device_request *request, tri_device *device) {
  const tri_device_kind *kind = NULL;
  const char *options;
  TRI_TRY(find(request->name, &kind, &options));
  device->info.types = kind->types;
  return kind->create(options, request, device);
}

tri_status tri_device_check_name(const char *name) {
  const tri_device_kind *kind = NULL;
  const char *options;
  return is_auto(name) ? TRI_OK : find(name, &kind, &options);
}

static bool kind_runs(const tri_device_kind *kind, tri_dtype activations) {
  return (kind->types >> (unsigned)activations & 1u) != 0;
}

tri_status tri_device_check_type(const char *name, tri_dtype activations) {
  const char *options;
  const tri_device_kind *found = find_kind(is_auto(name) ? "cpu" : name, &options);
  char others[128] = "";
  if (found == NULL || !is_here(found) || kind_runs(found, activations)) return TRI_OK;
  if (is_auto(name) && gpu_is_visible()) return TRI_OK;
  for (const tri_device_kind *kind = tri_device_kinds; kind->name != NULL; kind++) {
    size_t used = strlen(others);
    if (kind->for_tests || !kind_runs(kind, activations)) continue;
    snprintf(others + used, sizeof others - used, "%s`device: %s`", used == 0 ? "" : " or ", kind->name);
  }
  return tri_fail(TRI_BAD_CONFIG, "`precision` %s needs %s, not `device: %s`", tri_dtype_name(activations), others,
                  name);
}

static tri_status create(const tri_device_request *request, tri_device **out) {
  tri_device *device = NULL;
  TRI_TRY(tri_alloc("a device", 1, sizeof *device, &device));
  tri_status status = create_device_of_kind(request, device);
  if (status != TRI_OK) {
    tri_free(device);
    return status;
  }
  status = tri_device_share(device, 1);
  if (status == TRI_OK) status = tri_queue_create(device, &device->queue);
  if (status == TRI_OK) *out = device;
  if (status != TRI_OK) tri_device_destroy(device);
  return status;
}

/* Creates the best device. If a GPU is visible but cannot be used, logs a warning, because the user might not
 * notice. */
static tri_status create_best(const tri_device_request *request, tri_device **out) {
  tri_device_request gpu = *request, cpu = *request;
  gpu.name = "gpu";
  cpu.name = "cpu";
  if (gpu_is_visible()) {
    if (create(&gpu, out) == TRI_OK) return TRI_OK;
    tri_warn("running on the CPU, because the GPU cannot be used: %s", tri_status_message());
  }
  return create(&cpu, out);
}

tri_status tri_device_create_for(const tri_device_request *request, tri_device **out) {
  return is_auto(request->name) ? create_best(request, out) : create(request, out);
}

tri_status tri_device_create(const char *name, int threads, tri_device **out) {
  return tri_device_create_for(&(tri_device_request){.name = name, .threads = threads}, out);
}

void tri_device_destroy(tri_device *device) {
  if (device == NULL) return;
  tri_queue_destroy(device->queue);
  if (device->memory_bytes != 0 || device->host_bytes != 0) {
    tri_warn("%zu bytes of the device's memory were still held when it was given up: a mistake of this program's",
             device->memory_bytes + device->host_bytes);
  }
  if (device->driver->destroy != NULL) device->driver->destroy(device);
  tri_free(device);
}

/* Memory that this process has already allocated counts as its own, and the other processes are assumed to have
 * allocated the same. */
tri_status tri_device_share(tri_device *device, int sharers) {
  tri_device_info *info = &device->info;
  size_t left = 0, ranks = (size_t)(sharers < 1 ? 1 : sharers);
  info->sharers = (int)ranks;
  if (device->driver->memory_free == NULL) return TRI_OK;
  TRI_TRY(device->driver->memory_free(device, &left));
  size_t all = left + ranks * device->memory_bytes;
  info->memory_bytes = left / ranks + device->memory_bytes;
  info->taken_bytes = info->total_bytes > all ? info->total_bytes - all : 0;
  return TRI_OK;
}

void tri_device_limit_memory(tri_device *device, size_t bytes) {
  size_t *has = &device->info.memory_bytes;
  if (bytes != 0 && (*has == 0 || bytes < *has)) *has = bytes;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void count(size_t bytes, size_t *held, size_t *peak) {
  *held += bytes;
  if (*held > *peak) *peak = *held;
}

tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out) {
  size_t limit = device->info.memory_bytes;
  if (limit != 0 && (device->memory_bytes > limit || bytes > limit - device->memory_bytes)) {
    char wanted[32], has[32], taken[32];
    return tri_fail(TRI_OUT_OF_MEMORY, "the device %s has %s of memory, %s of it in use; %zu bytes (%s) do not fit",
                    device->info.name, tri_format_bytes((double)limit, has, sizeof has),
                    tri_format_bytes((double)device->memory_bytes, taken, sizeof taken), bytes,
                    tri_format_bytes((double)bytes, wanted, sizeof wanted));
  }
  TRI_TRY(device->driver->memory_create(device, bytes, out));
  count(bytes, &device->memory_bytes, &device->memory_peak_bytes);
  return TRI_OK;
}

void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  device->driver->memory_destroy(device, memory, bytes);
  device->memory_bytes -= bytes;
}

tri_status tri_device_host_create(tri_device *device, size_t bytes, void **out) {
  if (device->driver->host_create == NULL) {
    TRI_TRY(tri_alloc("host memory", bytes, 1, out));
  } else {
    TRI_TRY(device->driver->host_create(device, bytes, out));
  }
  count(bytes, &device->host_bytes, &device->host_peak_bytes);
  return TRI_OK;
}

void tri_device_host_destroy(tri_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  if (device->driver->host_destroy == NULL) {
    tri_free(memory);
  } else {
    device->driver->host_destroy(device, memory, bytes);
  }
  device->host_bytes -= bytes;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

const char *tri_device_describe(const tri_device *device, char *text, size_t text_bytes) {
  const tri_device_info *info = &device->info;
  if (info->place[0] != '\0') {
    snprintf(text, text_bytes, "%s (GPU %d at %s)", info->name, info->ordinal, info->place);
  } else {
    snprintf(text, text_bytes, "%s with %d thread%s", info->name, device->description.threads,
             TRI_PLURAL(device->description.threads));
  }
  return text;
}

const char *tri_device_describe_reserved(const tri_device_info *info, char *text, size_t text_bytes) {
  char total[32], taken[32], shared[64] = "";
  text[0] = '\0';
  if (info->total_bytes == 0) return text;
  if (info->sharers > 1) snprintf(shared, sizeof shared, ", and %d ranks share the rest", info->sharers);
  snprintf(text, text_bytes, " (of %s; others, and the driver for this program, have taken %s%s)",
           tri_format_bytes((double)info->total_bytes, total, sizeof total),
           tri_format_bytes((double)info->taken_bytes, taken, sizeof taken), shared);
  return text;
}

/* ---- supported types --------------------------------------------------------------------------------------------- */

static bool runs(const tri_device *device, tri_dtype type) { return (device->info.types >> (unsigned)type & 1u) != 0; }

tri_status tri_device_supports(const tri_device *device, tri_dtype activations) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  char known[64] = "";
  if (runs(device, activations)) return TRI_OK;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!runs(device, all[i])) continue;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : " and ", tri_dtype_name(all[i]));
  }
  return tri_fail(TRI_UNSUPPORTED, "the device %s does not run precision %s; it runs %s", device->info.name,
                  tri_dtype_name(activations), known);
}
