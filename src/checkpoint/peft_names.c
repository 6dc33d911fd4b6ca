/* Names of tensors in PEFT's adapter files: "base_model.model." and the name of the module in transformers. */
#include "checkpoint/folder.h"
#include "checkpoint/peft.h"
#include "model/module_names.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "base_model.model.";

void tri_peft_name(const char *own, char out[TRI_PEFT_NAME_BYTES]) {
  memcpy(out, prefix, sizeof prefix);
  tri_module_names(own, out + strlen(prefix), TRI_PEFT_NAME_BYTES - strlen(prefix));
}

void tri_peft_file_name(const char *own, char out[TRI_PEFT_NAME_BYTES]) {
  snprintf(out, TRI_PEFT_NAME_BYTES, "%s%s", prefix, own);
}

void tri_peft_base_layer_name(const char *own, char out[TRI_PEFT_NAME_BYTES]) {
  char name[TRI_PEFT_NAME_BYTES];
  tri_peft_name(own, name);
  const char *end = strrchr(name, '.');
  snprintf(out, TRI_PEFT_NAME_BYTES, "%.*s.base_layer%s", (int)(end - name), name, end);
}

const char *tri_peft_own_name(const char *name) {
  return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
}

bool tri_peft_is_folder(const char *folder) {
  char path[TRI_PATH_BYTES];
  return tri_path_join(path, folder, TRI_FILE_ADAPTER_CONFIG) == TRI_OK && tri_path_exists(path);
}
