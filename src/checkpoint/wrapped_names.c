#include "checkpoint/wrapped_names.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

/* Parts of names that are removed at any position: no architecture has them. */
static const char *const wrappers[] = {"_orig_mod.",            /* torch.compile of a whole model or of layers */
                                       "_fsdp_wrapped_module.", /* FullyShardedDataParallel */
                                       "_checkpoint_wrapped_module." /* activation checkpointing */};
enum { WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

/* Prefix of DistributedDataParallel and DeepSpeed. It is removed only if all names have it; else it is part of the
 * model.
 */
static const char module[] = "module.";

static bool all_begin_with(const tri_safetensors_file *files, int64_t count, const char *beginning) {
  for (int64_t f = 0; f < count; f++) {
    for (int64_t t = 0; t < files[f].header.num_tensors; t++) {
      if (!tri_begins_with(files[f].header.tensors[t].name, beginning)) return false;
    }
  }
  return true;
}

/* Copies a name to `out`, which has room for it, without the wrappers' parts; also without the prefix `module` if
 * `in_module`. Returns the first part that was removed; NULL if none was. */
static const char *unwrap(const char *name, bool in_module, char *out) {
  const char *taken = NULL;
  bool begins_part = true;
  if (in_module) {
    taken = module;
    name += strlen(module);
  }
  while (*name != '\0') {
    const char *found = NULL;
    for (int w = 0; begins_part && found == NULL && w < WRAPPERS; w++) {
      if (tri_begins_with(name, wrappers[w])) found = wrappers[w];
    }
    if (found != NULL) {
      name += strlen(found);
      taken = taken == NULL ? found : taken;
      continue;
    }
    begins_part = *name == '.';
    *out++ = *name++;
  }
  *out = '\0';
  return taken;
}

static tri_status unwrap_file(tri_safetensors_file *file, bool in_module, const char **taken, int64_t *tensors) {
  tri_safetensors_header *header = &file->header;
  size_t bytes = 1;
  for (int64_t t = 0; t < header->num_tensors; t++) bytes += strlen(header->tensors[t].name) + 1;
  TRI_TRY(tri_alloc("the names of tensors", bytes, 1, &header->names));
  char *out = header->names;
  for (int64_t t = 0; t < header->num_tensors; t++) {
    const char *part = unwrap(header->tensors[t].name, in_module, out);
    if (part == NULL) continue;
    header->tensors[t].name = out;
    out += strlen(out) + 1;
    *taken = *taken == NULL ? part : *taken;
    ++*tensors;
  }
  return tri_safetensors_index(file->input.path, header);
}

tri_status tri_unwrap_names(tri_safetensors_file *files, int64_t count, const char **taken, int64_t *tensors) {
  const bool in_module = count > 0 && all_begin_with(files, count, module);
  *taken = NULL;
  *tensors = 0;
  for (int64_t f = 0; f < count; f++) TRI_TRY(unwrap_file(&files[f], in_module, taken, tensors));
  return TRI_OK;
}
