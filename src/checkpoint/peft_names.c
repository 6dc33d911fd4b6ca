#include "checkpoint/folder.h"
#include "checkpoint/peft.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "base_model.model.";

void tri_peft_name(const char *own, char out[TRI_PEFT_NAME_BYTES]) {
  snprintf(out, TRI_PEFT_NAME_BYTES, "%s%s", prefix, own);
}

const char *tri_peft_own_name(const char *name) {
  return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
}

bool tri_peft_is_folder(const char *folder) {
  char path[TRI_PATH_BYTES];
  return tri_path_join(path, folder, TRI_FILE_ADAPTER_CONFIG) == TRI_OK && tri_path_exists(path);
}
