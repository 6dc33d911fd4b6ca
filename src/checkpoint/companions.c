#include "checkpoint/companions.h"

#include "base/memory.h"
#include "base/write_fault.h"
#include "checkpoint/folder.h"
#include "checkpoint/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

const char *const tri_companion_names[] = {"tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "chat_template.jinja",
                                           "chat_template.json",
                                           "generation_config.json",
                                           "tokenizer.model",
                                           "vocab.json",
                                           "merges.txt",
                                           NULL};

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

static tri_status copy_one(const char *from, const char *to, const char *name) {
  char source[TRI_PATH_BYTES], target[TRI_PATH_BYTES];
  uint64_t bytes = 0, checksum = 0;
  TRI_TRY(tri_path_join(source, from, name));
  TRI_TRY(tri_path_join(target, to, name));
  return tri_path_exists(source) ? tri_output_copy(source, target, &bytes, &checksum) : TRI_OK;
}

static tri_status fill(const char *from, const char *to) {
  TRI_TRY(tri_directory_create(to));
  for (const char *const *name = tri_companion_names; *name != NULL; name++) TRI_TRY(copy_one(from, to, *name));
  TRI_TRY(copy_one(from, to, TRI_FILE_CONFIG));
  return tri_directory_sync(to);
}

static bool has_any(const char *folder) {
  char path[TRI_PATH_BYTES];
  for (const char *const *name = tri_companion_names; *name != NULL; name++) {
    if (tri_path_join(path, folder, *name) == TRI_OK && tri_path_exists(path)) return true;
  }
  return tri_path_join(path, folder, TRI_FILE_CONFIG) == TRI_OK && tri_path_exists(path);
}

tri_status tri_companions_keep(const char *from, const char *to) {
  char temporary[TRI_PATH_BYTES];
  if (tri_path_exists(to) || !has_any(from)) return TRI_OK;
  if (snprintf(temporary, sizeof temporary, "%s.tmp", to) >= (int)sizeof temporary) {
    return tri_fail(TRI_BAD_USAGE, "the path %s is too long", to);
  }
  TRI_TRY(tri_directory_remove(temporary)); /* of a process that was killed */
  TRI_TRY(fill(from, temporary));
  if (rename(temporary, to) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", temporary, to, tri_write_fault(errno));
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

tri_status tri_companions_take_ids(const char *folder, json_t *config) {
  static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id"};
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  json_t *from = json_loadb(text, bytes, 0, NULL); /* one that is none has been refused where it was read */
  tri_free(text);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    json_t *value = json_object_get(from, keys[i]);
    if (json_is_integer(value) || json_is_array(value)) json_object_set(config, keys[i], value);
  }
  json_decref(from);
  return TRI_OK;
}
