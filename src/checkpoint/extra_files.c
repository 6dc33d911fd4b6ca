#include "checkpoint/extra_files.h"

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/named_folder.h"
#include "checkpoint/output.h"
#include "files/json_reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

static const char *const extra_file_names[] = {"tokenizer_config.json",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "chat_template.jinja",
                                               "chat_template.json",
                                               "generation_config.json",
                                               "processor_config.json",
                                               "preprocessor_config.json",
                                               "tokenizer.model",
                                               "vocab.json",
                                               "merges.txt",
                                               NULL};

#define TEMPLATES "additional_chat_templates"

/* ---- copying ----------------------------------------------------------------------------------------------------- */

static bool is_template(const char *name) {
  const size_t length = strlen(name), of_ending = strlen(".jinja");
  return name[0] != '.' && length > of_ending && strcmp(name + length - of_ending, ".jinja") == 0;
}

static tri_status walk_templates(const char *folder, tri_extra_file_visit *visit, void *context) {
  char path[TRI_PATH_BYTES], name[TRI_PATH_BYTES];
  tri_status status = TRI_OK;
  TRI_TRY(tri_path_join(path, folder, TEMPLATES));
  DIR *templates = opendir(path);
  if (templates == NULL) return TRI_OK;
  for (const struct dirent *entry; status == TRI_OK && (entry = readdir(templates)) != NULL;) {
    if (!is_template(entry->d_name)) continue;
    status = tri_path_join(name, TEMPLATES, entry->d_name);
    if (status == TRI_OK) status = visit(context, name);
  }
  closedir(templates);
  return status;
}

tri_status tri_extra_files_walk(const char *folder, tri_extra_file_visit *visit, void *context) {
  char path[TRI_PATH_BYTES];
  for (const char *const *name = extra_file_names; *name != NULL; name++) {
    TRI_TRY(tri_path_join(path, folder, *name));
    if (tri_path_exists(path)) TRI_TRY(visit(context, *name));
  }
  return walk_templates(folder, visit, context);
}

typedef struct keeping {
  const char *from, *to;
  const char *template; /* source of the chat template; NULL: the templates in the folder's files are copied */
  int64_t count;
} keeping;

/* Copies an extra file from the folder `from` to the folder `to` of `context`, a keeping; skips the chat templates if
 * another one replaces them. */
static tri_status keep_one(void *context, const char *name) {
  const keeping *k = context;
  char source[TRI_PATH_BYTES], target[TRI_PATH_BYTES];
  uint64_t bytes = 0, checksum = 0;
  if (k->template != NULL && strstr(name, "chat_template") != NULL) return TRI_OK;
  TRI_TRY(tri_path_join(source, k->from, name));
  TRI_TRY(tri_path_join(target, k->to, name));
  if (strchr(name, '/') != NULL) {
    char folder[TRI_PATH_BYTES];
    TRI_TRY(tri_path_join(folder, k->to, TEMPLATES));
    TRI_TRY(tri_directory_create(folder));
  }
  return tri_output_copy(source, target, &bytes, &checksum);
}

/* Adds 1 to the number of files in `context`, a keeping. */
static tri_status count_one(void *context, const char *name) {
  (void)name;
  ((keeping *)context)->count++;
  return TRI_OK;
}

static tri_status copy_extra_files(const char *from, const char *to, const char *template) {
  keeping k = {from, to, template, 0};
  char config[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  TRI_TRY(tri_extra_files_walk(from, keep_one, &k));
  TRI_TRY(tri_path_join(path, to, "chat_template.jinja"));
  if (template != NULL) TRI_TRY(tri_file_replace(path, template, strlen(template)));
  TRI_TRY(tri_path_join(config, from, TRI_FILE_CONFIG));
  return tri_path_exists(config) ? keep_one(&k, TRI_FILE_CONFIG) : TRI_OK;
}

static bool has_any(const char *folder) {
  keeping k = {folder, NULL, NULL, 0};
  char path[TRI_PATH_BYTES];
  if (tri_extra_files_walk(folder, count_one, &k) != TRI_OK || k.count > 0) return true;
  return tri_path_join(path, folder, TRI_FILE_CONFIG) == TRI_OK && tri_path_exists(path);
}

tri_status tri_extra_files_keep(const char *from, const char *to, const char *template) {
  tri_named_folder folder;
  if (tri_path_exists(to) || !has_any(from)) return TRI_OK;
  TRI_TRY(tri_named_folder_begin(to, &folder));
  tri_status status = copy_extra_files(from, folder.temporary, template);
  if (status == TRI_OK) status = tri_named_folder_finish(&folder);
  (void)tri_named_folder_drop(&folder);
  return status;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

tri_status tri_extra_files_copy_ids(const char *folder, json_t *config) {
  static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id"};
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  json_t *from = NULL; /* an invalid file was refused earlier */
  (void)tri_json_parse(path, text, bytes, 0, &from);
  tri_free(text);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    json_t *value = json_object_get(from, keys[i]);
    if (json_is_integer(value) || json_is_array(value)) json_object_set(config, keys[i], value);
  }
  json_decref(from);
  return TRI_OK;
}
