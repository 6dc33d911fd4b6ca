#include "device/gpu/rtc.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- sources ----------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_texts_gather(const char *name, const char *stdint_text, tri_gpu_texts *out) {
  *out = (tri_gpu_texts){.count = 1, .names = {"stdint.h"}, .texts = {stdint_text}};
  for (const tri_gpu_source *source = tri_gpu_sources; source->name != NULL; source++) {
    if (strcmp(source->name, name) == 0) {
      out->own = source->text;
      continue;
    }
    if (out->count == TRI_GPU_MOST_TEXTS) {
      return tri_fail_internal("there are more than %d texts of kernels", TRI_GPU_MOST_TEXTS);
    }
    out->names[out->count] = source->name;
    out->texts[out->count++] = source->text;
  }
  if (out->own == NULL) return tri_fail_internal("this program has no text `%s`", name);
  return TRI_OK;
}

/* ---- chips ------------------------------------------------------------------------------------------------------- */

bool tri_gpu_chip_is_listed(const char *chips, const char *chip) {
  const size_t length = strlen(chip);
  while (*chips != '\0') {
    const size_t listed = strcspn(chips, " ");
    if (listed == length && memcmp(chips, chip, length) == 0) return true;
    chips += listed + (chips[listed] == ' ');
  }
  return false;
}

enum { LOG_IN_MESSAGE = 1500 };

const char *tri_gpu_rtc_beside(const tri_gpu_rtc *rtc, const char *name, char path[TRI_PATH_BYTES]) {
  const char *slash = strrchr(rtc->path, '/');
  int written =
      snprintf(path, TRI_PATH_BYTES, "%.*s%s", slash == NULL ? 0 : (int)(slash + 1 - rtc->path), rtc->path, name);
  if (slash == NULL || written >= TRI_PATH_BYTES || access(path, F_OK) != 0) path[0] = '\0';
  return path;
}

bool tri_gpu_rtc_open_beside(const tri_gpu_rtc *rtc, const char *name) {
  char path[TRI_PATH_BYTES];
  return tri_gpu_rtc_beside(rtc, name, path)[0] != '\0' && dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

static tri_status refused(const tri_gpu_rtc *rtc, const char *what, tri_gpu_rtc_enum error) {
  return tri_fail(TRI_UNSUPPORTED, "%s %s (%s) does not %s: %s%s", rtc->name, rtc->version, rtc->path, what,
                  rtc->calls.error_text(error), error == TRI_GPU_RTC_BUILTINS ? rtc->without_builtins : "");
}

static tri_status create_program(const tri_gpu_rtc *rtc, const char *name, tri_gpu_rtc_program *out) {
  tri_gpu_texts all;
  TRI_TRY(tri_gpu_texts_gather(name, rtc->stdint_text, &all));
  const tri_gpu_rtc_enum error = rtc->calls.create(out, all.own, name, all.count, all.texts, all.names);
  return error == 0 ? TRI_OK : refused(rtc, "begin", error);
}

static tri_status copy_log(const tri_gpu_rtc *rtc, tri_gpu_rtc_program program, char **out) {
  size_t bytes = 0;
  if (rtc->calls.log_bytes(program, &bytes) != 0) bytes = 0;
  TRI_TRY(tri_alloc("a compiler's messages", bytes + 1, 1, out));
  if (bytes > 0 && rtc->calls.log(program, *out) != 0) (*out)[0] = '\0';
  return TRI_OK;
}

static tri_status compile_program(const tri_gpu_rtc *rtc, tri_gpu_rtc_program program,
                                  const tri_gpu_rtc_options *options, char **log) {
  const tri_gpu_rtc_enum error = rtc->calls.compile(program, options->count, options->list);
  TRI_TRY(copy_log(rtc, program, log));
  if (error == 0) return TRI_OK;
  if (error != TRI_GPU_RTC_COMPILATION) return refused(rtc, options->doing, error);
  if ((*log)[0] == '\0' && rtc->without_log != NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s %s (%s) does not %s%s", rtc->name, rtc->version, rtc->path, options->doing,
                    rtc->without_log);
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "%s %s (%s) does not %s: a mistake of this program's, or of that version: another version of the "
                  "compiler may help. It says: %.*s",
                  rtc->name, rtc->version, rtc->path, options->doing, LOG_IN_MESSAGE, *log);
}

static tri_status copy_image(const tri_gpu_rtc *rtc, tri_gpu_rtc_program program, const tri_gpu_rtc_options *options,
                             void **out, size_t *out_bytes) {
  size_t bytes = 0;
  void *image = NULL;
  tri_gpu_rtc_enum error = options->output_bytes(program, &bytes);
  if (error != 0 || bytes == 0) return refused(rtc, "say how large its output is", error);
  TRI_TRY(tri_alloc("compiled kernels", bytes, 1, &image));
  error = options->output(program, image);
  if (error != 0) {
    tri_free(image);
    return refused(rtc, "hand out what it compiled", error);
  }
  *out = image;
  *out_bytes = bytes;
  return TRI_OK;
}

static tri_status compile_and_take(const tri_gpu_rtc *rtc, tri_gpu_rtc_program program, const tri_gpu_compilation *what,
                                   const tri_gpu_rtc_options *options, void **out, size_t *bytes, char **log) {
  void *image = NULL;
  TRI_TRY(compile_program(rtc, program, options, log));
  TRI_TRY(copy_image(rtc, program, options, &image, bytes));
  tri_status status = rtc->examine(what, options, image, *bytes, log);
  if (status != TRI_OK) {
    tri_free(image);
    return status;
  }
  *out = image;
  return TRI_OK;
}

tri_status tri_gpu_rtc_compile(const tri_gpu_rtc *rtc, const tri_gpu_compilation *what, void **out, size_t *bytes,
                               char **log) {
  tri_gpu_rtc_program program = NULL;
  tri_gpu_rtc_options options = {0};
  char *said = NULL;
  snprintf(options.type, sizeof options.type, "-DTRI_GPU_TYPE=%d", what->type_bits);
  TRI_TRY(rtc->choose(what, &options));
  TRI_TRY(create_program(rtc, what->source, &program));
  tri_status status = compile_and_take(rtc, program, what, &options, out, bytes, &said);
  (void)rtc->calls.destroy(&program);
  if (status != TRI_OK) {
    tri_free(said);
    return status;
  }
  *log = said;
  return TRI_OK;
}
