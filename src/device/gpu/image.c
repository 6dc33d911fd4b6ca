/* Compiled modules. A module is looked up in the cache by a name that has the module, the type, the chip, a hash of all
 * sources and options, and the compiler's version; if it is missing, it is compiled and added. Without a compiler, the
 * last part of the name is unknown, so a module that was compiled by any version is used.
 *
 * Example: "norm-bf16-sm_90a-HASH-NVRTC-12.8.image". */
#include "device/gpu/image.h"

#include "base/memory.h"
#include "device/gpu/cache.h"
#include "device/gpu/compiler.h"
#include "files/cache_folder.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

/* A module to compile. */
typedef struct job {
  const tri_gpu_compiler *compiler;
  const char *architecture, *module;
  tri_dtype type;
} job;

/* Begins a job: finds the compiler of the chip. Fails with TRI_UNSUPPORTED if there is none for chips of this name. */
static tri_status begin(const char *architecture, const char *module, tri_dtype type, job *out) {
  *out = (job){tri_gpu_compiler_for(architecture), architecture, module, type};
  if (out->compiler == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "this program knows no compiler for chips named `%s`; it knows sm_... and gfx...",
                    architecture);
  }
  return TRI_OK;
}

/* ---- names in the cache ------------------------------------------------------------------------------------------ */

static void add_text(XXH3_state_t *hash, const char *text) { XXH3_128bits_update(hash, text, strlen(text) + 1); }

/* Builds the beginning of a name, such as "norm-bf16-sm_90a-HASH-". The hash covers all of the compiler's input, with
 * all sources, since a module may include any of them. */
static tri_status name_beginning(const job *j, char out[TRI_GPU_CACHE_NAME_BYTES]) {
  XXH3_state_t *hash = XXH3_createState();
  if (hash == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory for a checksum");
  XXH3_128bits_reset(hash);
  for (const tri_gpu_source *source = tri_gpu_sources; source->name != NULL; source++) {
    add_text(hash, source->name);
    add_text(hash, source->text);
  }
  add_text(hash, j->compiler->name);
  add_text(hash, j->compiler->options);
  const XXH128_hash_t sum = XXH3_128bits_digest(hash);
  XXH3_freeState(hash);
  snprintf(out, TRI_GPU_CACHE_NAME_BYTES, "%s-%s-%.32s-%016llx%016llx-", j->module, tri_dtype_name(j->type),
           j->architecture, (unsigned long long)sum.high64, (unsigned long long)sum.low64);
  return TRI_OK;
}

/* Builds the whole name, with the compiler's version in a form that is valid in a file name. */
static tri_status name_entry(const job *j, char out[TRI_GPU_CACHE_NAME_BYTES]) {
  TRI_TRY(name_beginning(j, out));
  size_t used = strlen(out);
  snprintf(out + used, TRI_GPU_CACHE_NAME_BYTES - used, "%s-%.64s.image", j->compiler->name,
           j->compiler->facts->version);
  for (char *at = out; *at != '\0'; at++) {
    if (*at == '/' || *at == ' ') *at = '_';
  }
  return TRI_OK;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static tri_status compile(const job *j, bool show_resources, void **out, size_t *bytes, char **log) {
  char source[128];
  snprintf(source, sizeof source, "device/gpu/kernels/%s.c", j->module);
  const tri_gpu_compilation what = {.source = source,
                                    .architecture = j->architecture,
                                    .type_bits = tri_gpu_type_bits(j->type),
                                    .show_resources = show_resources};
  return tri_gpu_compiler_compile(j->compiler, &what, out, bytes, log);
}

tri_status tri_gpu_image_compile_ahead(const char *folder, const char *architecture, const char *module, tri_dtype type,
                                       char **log) {
  job j;
  char name[TRI_GPU_CACHE_NAME_BYTES], *said = NULL;
  void *image = NULL;
  size_t bytes = 0;
  TRI_TRY(begin(architecture, module, type, &j));
  TRI_TRY(tri_gpu_compiler_open(j.compiler));
  TRI_TRY(name_entry(&j, name));
  TRI_TRY(compile(&j, true, &image, &bytes, &said));
  tri_status status = tri_gpu_cache_write(folder, name, image, bytes);
  tri_free(image);
  if (status == TRI_OK) *log = said;
  if (status != TRI_OK) tri_free(said);
  return status;
}

/* Compiles a module and writes it to the cache; a full or read-only disk does not stop a run. */
static tri_status compile_and_keep(const job *j, const char *folder, void **out, size_t *bytes) {
  char name[TRI_GPU_CACHE_NAME_BYTES], *log = NULL;
  TRI_TRY(name_entry(j, name));
  TRI_TRY(compile(j, false, out, bytes, &log));
  tri_free(log);
  if (folder[0] != '\0') (void)tri_gpu_cache_write(folder, name, *out, *bytes);
  return TRI_OK;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Finds a module in the cache that was compiled elsewhere, because there is no compiler. `missing` is the status of
 * opening the compiler, whose error message is set; the message of this function continues it. */
static tri_status find_without_compiler(const job *j, const char *folder, tri_status missing, void **out,
                                        size_t *bytes) {
  char beginning[TRI_GPU_CACHE_NAME_BYTES];
  tri_saved_error why = {.status = TRI_OK};
  tri_error_save(&why, missing);
  TRI_TRY(name_beginning(j, beginning));
  if (folder[0] != '\0' && tri_gpu_cache_find(folder, beginning, out, bytes)) return TRI_OK;
  return tri_fail(missing, "%s. Nor are the kernels for %s in the cache (%s), compiled ahead on another machine",
                  why.message, j->architecture, folder[0] == '\0' ? "none: set TRIREME_CACHE" : folder);
}

/* Finds or compiles a module. *cached: whether it was found in the cache. */
static tri_status get_image(const job *j, const char *folder, void **out, size_t *bytes, bool *cached) {
  char name[TRI_GPU_CACHE_NAME_BYTES];
  tri_status status = tri_gpu_compiler_open(j->compiler);
  *cached = true;
  if (status != TRI_OK) return find_without_compiler(j, folder, status, out, bytes);
  TRI_TRY(name_entry(j, name));
  if (folder[0] != '\0' && tri_gpu_cache_read(folder, name, out, bytes)) return TRI_OK;
  *cached = false;
  return compile_and_keep(j, folder, out, bytes);
}

/* Loads an image, and frees it. */
static tri_status load(const tri_gpu *gpu, const job *j, void *image, size_t bytes, tri_gpu_module **out) {
  const tri_gpu_image loaded = {.module = j->module, .type = j->type, .image = image, .bytes = bytes};
  tri_status status = gpu->runtime->module_load(gpu->context, &loaded, out);
  tri_free(image);
  return status;
}

tri_status tri_gpu_image_load(const tri_gpu *gpu, const char *module, tri_dtype type, tri_gpu_module **out) {
  job j;
  char folder[TRI_PATH_BYTES];
  void *image = NULL;
  size_t bytes = 0;
  bool cached = false;
  if (gpu->facts.architecture[0] == '\0') {
    const tri_gpu_image none = {.module = module, .type = type};
    return gpu->runtime->module_load(gpu->context, &none, out);
  }
  TRI_TRY(begin(gpu->facts.architecture, module, type, &j));
  if (!tri_cache_folder(folder)) folder[0] = '\0';
  TRI_TRY(get_image(&j, folder, &image, &bytes, &cached));
  tri_status status = load(gpu, &j, image, bytes, out);
  if (status != TRI_UNSUPPORTED || !cached || tri_gpu_compiler_open(j.compiler) != TRI_OK) return status;
  TRI_TRY(compile_and_keep(&j, folder, &image, &bytes));
  return load(gpu, &j, image, bytes, out);
}
