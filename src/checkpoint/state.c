#include "checkpoint/state.h"

#include "base/text.h"
#include "checkpoint/folder.h"
#include "checkpoint/output.h"
#include "checkpoint/peft.h"
#include "checkpoint/safetensors.h"
#include "files/json_reader.h"

#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "trireme checkpoint"

enum { VERSION = 2, STATE_LIMIT_BYTES = 1 << 28, COMPLETE_LIMIT_BYTES = 256 };

json_t *tri_state_checksum(uint64_t checksum) { return json_sprintf("%016" PRIx64, checksum); }

bool tri_state_parse_checksum(const json_t *value, uint64_t *out) {
  const char *text = json_string_value(value);
  if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
  *out = strtoull(text, NULL, 16);
  return true;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static tri_status print_state(const tri_checkpoint_state *state, json_t *files, char **out) {
  json_t *document = json_pack("{s:s, s:i, s:I, s:I, s:I, s:o, s:s?, s:O?, s:O}", "format", FORMAT, "version",
                               (int)VERSION, "step", (json_int_t)state->step, "samples", (json_int_t)state->samples,
                               "tokens", (json_int_t)state->tokens, "seed", json_sprintf("%" PRIu64, state->seed),
                               "config", state->run_config, "progress", state->progress, "files", files);
  *out = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
  json_decref(document);
  if (*out == NULL) {
    return tri_fail_internal("the state of step %" PRId64 " cannot be written as JSON: not UTF-8, or no memory",
                             state->step);
  }
  return TRI_OK;
}

/* Prints the content of COMPLETE. Returns its length. */
static int print_complete(char line[COMPLETE_LIMIT_BYTES], size_t bytes, uint64_t checksum) {
  return snprintf(line, COMPLETE_LIMIT_BYTES, "%s %zu %016" PRIx64 "\n", TRI_FILE_STATE, bytes, checksum);
}

tri_status tri_state_save(const char *folder, const tri_checkpoint_state *state, json_t *files) {
  char path[TRI_PATH_BYTES], *text = NULL;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_STATE));
  TRI_TRY(print_state(state, files, &text));
  size_t bytes = strlen(text);
  char line[COMPLETE_LIMIT_BYTES];
  int length = print_complete(line, bytes, tri_checksum(text, bytes));
  tri_status status = tri_output_file(path, text, bytes);
  free(text);
  TRI_TRY(status);
  /* The names of all other files reach the disk before COMPLETE can. */
  TRI_TRY(tri_directory_sync(folder));
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_COMPLETE));
  TRI_TRY(tri_output_file(path, line, (size_t)length));
  return tri_directory_sync(folder);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Loads the text of state.json, and writes the path of the file to `path`. Fails with TRI_BAD_FILE if the text does not
 * match COMPLETE. */
static tri_status load_text(const char *folder, char path[TRI_PATH_BYTES], char **out, size_t *out_bytes) {
  char *line = NULL, *text = NULL;
  size_t bytes = 0, wanted = 0;
  uint64_t checksum = 0;
  char complete[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(complete, folder, TRI_FILE_COMPLETE));
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_STATE));
  if (!tri_path_exists(complete)) {
    return tri_fail(TRI_BAD_FILE, "%s has no %s: the save was not finished, or the file was removed", folder,
                    TRI_FILE_COMPLETE);
  }
  TRI_TRY(tri_file_read_plain(complete, COMPLETE_LIMIT_BYTES, &line, &bytes));
  /* Accept only the exact line that a save writes: scanf also accepts other blanks and capitals. */
  char exact[COMPLETE_LIMIT_BYTES];
  bool whole = sscanf(line, TRI_FILE_STATE " %zu %16" SCNx64, &wanted, &checksum) == 2;
  print_complete(exact, wanted, checksum);
  whole = whole && bytes == strlen(exact) && memcmp(line, exact, bytes) == 0;
  tri_free(line);
  if (!whole) return tri_fail(TRI_BAD_FILE, "%s is damaged", complete);
  if (!tri_path_exists(path)) {
    return tri_fail(TRI_BAD_FILE, "cannot open %s: %s; a checkpoint that has %s but not this file is damaged", path,
                    strerror(ENOENT), TRI_FILE_COMPLETE);
  }
  TRI_TRY(tri_file_read_plain(path, STATE_LIMIT_BYTES, &text, &bytes));
  if (bytes != wanted || tri_checksum(text, bytes) != checksum) {
    tri_free(text);
    return tri_fail(TRI_BAD_FILE,
                    "%s is damaged: it has %zu bytes, and its checksum differs from the one in %s (%zu bytes)", path,
                    bytes, TRI_FILE_COMPLETE, wanted);
  }
  *out = text;
  *out_bytes = bytes;
  return TRI_OK;
}

static bool get_count(const json_t *document, const char *key, int64_t *out) {
  const json_t *value = json_object_get(document, key);
  *out = (int64_t)json_integer_value(value);
  return json_is_integer(value) && *out >= 0;
}

static tri_status parse_state(const char *path, const json_t *document, tri_checkpoint_state *out) {
  const char *format = json_string_value(json_object_get(document, "format"));
  const char *seed = json_string_value(json_object_get(document, "seed"));
  int64_t version = 0;
  if (format == NULL || strcmp(format, FORMAT) != 0 || !get_count(document, "version", &version)) {
    return tri_fail(TRI_BAD_FILE, "%s is not the state of a Trireme checkpoint", path);
  }
  if (version != VERSION) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s has format version %" PRId64 "; this program reads version %d; use the one that wrote it", path,
                    version, VERSION);
  }
  tri_checkpoint_state state = {
      .run_config = json_string_value(json_object_get(document, "config")),
      .progress = json_object_get(document, "progress"),
  };
  char *end = NULL;
  state.seed = seed == NULL ? 0 : strtoull(seed, &end, 10);
  if (seed == NULL || *seed == '\0' || *end != '\0' || !get_count(document, "step", &state.step) ||
      !get_count(document, "samples", &state.samples) || !get_count(document, "tokens", &state.tokens) ||
      !json_is_object(json_object_get(document, "files"))) {
    return tri_fail(TRI_BAD_FILE, "%s lacks one of `step`, `samples`, `tokens`, `seed` and `files`", path);
  }
  if (json_is_null(state.progress)) state.progress = NULL;
  *out = state;
  return TRI_OK;
}

tri_status tri_state_load(const char *folder, json_t **document, tri_checkpoint_state *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(load_text(folder, path, &text, &bytes));
  json_t *parsed = NULL;
  tri_status status = tri_json_parse(path, text, bytes, JSON_REJECT_DUPLICATES, &parsed);
  tri_free(text);
  if (status == TRI_OK) status = parse_state(path, parsed, out);
  if (status == TRI_OK) *document = parsed;
  if (status != TRI_OK) json_decref(parsed);
  return status;
}

static tri_status has_file(const char *folder, const char *name, bool *out) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, name));
  *out = tri_path_exists(path);
  return TRI_OK;
}

tri_status tri_state_load_any(const char *folder, json_t **document, tri_checkpoint_state *out) {
  bool has_state = false, has_complete = false;
  TRI_TRY(has_file(folder, TRI_FILE_STATE, &has_state));
  TRI_TRY(has_file(folder, TRI_FILE_COMPLETE, &has_complete));
  if (has_state || has_complete) return tri_state_load(folder, document, out);
  *document = NULL;
  return TRI_OK;
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

/* The share of a checkpoint that one rank reads: an equal part of the bytes of all files together. A tensor, or a file
 * without tensors, is read by the rank whose part has its middle. */
typedef struct share {
  const tri_state_scope *scope;
  uint64_t seen, all; /* number of bytes before the current tensor or file, and of all files in the scope */
} share;

static bool is_mine(share *of, uint64_t bytes) {
  double middle = (double)of->seen + 0.5 * (double)bytes;
  of->seen += bytes;
  int ranks = of->scope->ranks, owner = of->all == 0 ? 0 : (int)(middle / (double)of->all * ranks);
  return (owner < ranks ? owner : ranks - 1) == of->scope->rank;
}

static tri_status compare_sums(const tri_safetensors_file *file, const char *part, uint64_t offset, uint64_t bytes,
                               const json_t *recorded, uint64_t found) {
  uint64_t wanted = 0;
  if (!tri_state_parse_checksum(recorded, &wanted)) {
    return tri_fail(TRI_BAD_FILE, "%s: %s has no checksum in %s", file->input.path, part, TRI_FILE_STATE);
  }
  if (found == wanted) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: %s is damaged: its bytes [%" PRIu64 ", %" PRIu64 ") have the checksum %016" PRIx64
                  ", not %016" PRIx64,
                  file->input.path, part, offset, offset + bytes, found, wanted);
}

static tri_status verify_mine(const tri_safetensors_file *file, const json_t *facts, share *of, char *buffer) {
  const tri_safetensors_header *header = &file->header;
  const json_t *tensors = json_object_get(facts, "tensors");
  uint64_t sum = 0;
  TRI_TRY(tri_input_checksum(&file->input, 0, header->data_offset, &sum));
  TRI_TRY(compare_sums(file, "its header", 0, header->data_offset, json_object_get(facts, "header"), sum));
  for (int64_t i = 0; i < header->num_tensors && of->scope->tensors; i++) {
    const tri_safetensors_tensor *tensor = &header->tensors[i];
    char part[256];
    if (!is_mine(of, tensor->bytes)) continue;
    snprintf(part, sizeof part, "tensor `%.200s`", tensor->name);
    TRI_TRY(tri_safetensors_sum(file, tensor, buffer, &sum));
    TRI_TRY(compare_sums(file, part, tensor->offset, tensor->bytes, json_object_get(tensors, tensor->name), sum));
  }
  return TRI_OK;
}

static tri_status verify_tensors(const char *path, const json_t *facts, share *of) {
  tri_safetensors_file file;
  char *buffer = NULL;
  TRI_TRY(tri_safetensors_open(path, &file));
  tri_status status = tri_alloc("the buffer of a checksum", TRI_SAFETENSORS_SUM_BYTES, 1, &buffer);
  if (status == TRI_OK) status = verify_mine(&file, facts, of, buffer);
  tri_free(buffer);
  tri_safetensors_close(&file);
  return status;
}

static tri_status compare_plain(const char *path, const json_t *facts, uint64_t found) {
  uint64_t wanted = 0;
  if (!tri_state_parse_checksum(json_object_get(facts, "xxh3"), &wanted)) {
    return tri_fail(TRI_BAD_FILE, "%s has no checksum in %s", path, TRI_FILE_STATE);
  }
  if (found == wanted) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s is damaged: it has the checksum %016" PRIx64 ", not %016" PRIx64, path, found,
                  wanted);
}

static tri_status compare_size(const char *path, int64_t found, int64_t wanted) {
  if (found == wanted) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s has %" PRId64 " bytes, not %" PRId64 "; it is %s", path, found, wanted,
                  found < wanted ? "truncated" : "damaged");
}

static tri_status verify_plain(const char *path, uint64_t bytes, const json_t *facts) {
  uint64_t found = 0;
  tri_input file = {.file = -1};
  TRI_TRY(tri_input_open(path, &file));
  tri_status status = tri_input_checksum(&file, 0, bytes, &found);
  tri_input_close(&file);
  TRI_TRY(status);
  return compare_plain(path, facts, found);
}

tri_status tri_state_facts(const char *folder, const json_t *document, const char *name, const json_t **out) {
  *out = json_object_get(json_object_get(document, "files"), name);
  if (*out != NULL) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s/%s is not listed in %s: the checkpoint is damaged, or the file does not belong there", folder,
                  name, TRI_FILE_STATE);
}

/* Returns whether a name stays in the folder: it has no directory except that of chat templates. */
static bool is_own(const char *name) {
  static const char templates[] = "additional_chat_templates/";
  const size_t length = sizeof templates - 1;
  if (strncmp(name, templates, length) == 0 && name[length] != '.') name += length;
  return strchr(name, '/') == NULL;
}

static tri_status bytes_of(const char *folder, const char *name, const json_t *facts, int64_t *out) {
  if (is_own(name) && get_count(facts, "bytes", out)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s/%s does not describe `%.200s` as a file", folder, TRI_FILE_STATE, name);
}

tri_status tri_state_verify_content(const char *folder, const json_t *document, const char *name, const void *content,
                                    size_t bytes) {
  char path[TRI_PATH_BYTES];
  const json_t *facts = NULL;
  int64_t wanted = 0;
  TRI_TRY(tri_path_join(path, folder, name));
  TRI_TRY(tri_state_facts(folder, document, name, &facts));
  TRI_TRY(bytes_of(folder, name, facts, &wanted));
  TRI_TRY(compare_size(path, (int64_t)bytes, wanted));
  return compare_plain(path, facts, tri_checksum(content, bytes));
}

tri_status tri_state_verify_read(const char *folder, const char *name, const void *content, size_t bytes) {
  json_t *document = NULL;
  tri_checkpoint_state state;
  TRI_TRY(tri_state_load_any(folder, &document, &state));
  if (document == NULL) return TRI_OK;
  tri_status status = tri_state_verify_content(folder, document, name, content, bytes);
  json_decref(document);
  return status;
}

static tri_status verify_file(const char *folder, const char *name, const json_t *facts, share *of) {
  char path[TRI_PATH_BYTES];
  int64_t wanted = 0;
  TRI_TRY(bytes_of(folder, name, facts, &wanted));
  TRI_TRY(tri_path_join(path, folder, name));
  struct stat found;
  if (stat(path, &found) != 0) return tri_fail(TRI_BAD_FILE, "cannot open %s: %s", path, strerror(errno));
  TRI_TRY(compare_size(path, (int64_t)found.st_size, wanted));
  if (json_object_get(facts, "tensors") != NULL) return verify_tensors(path, facts, of);
  return is_mine(of, (uint64_t)wanted) ? verify_plain(path, (uint64_t)wanted, facts) : TRI_OK;
}

/* Returns whether a name is a file of a stem: a single file, a shard or the index. */
static bool is_tensors(const char *name, const char *stem) {
  size_t length = strlen(stem);
  return tri_begins_with(name, stem) && (name[length] == '.' || name[length] == '-') &&
         (tri_ends_with(name, ".safetensors") || tri_ends_with(name, ".safetensors.index.json"));
}

static bool is_in_scope(const tri_state_scope *scope, const char *name) {
  return scope->optimizer || !is_tensors(name, "optimizer");
}

/* Returns whether readers use a file of this name for the model, the tokenizer or the optimizer's states, so that it
 * must be listed in state.json. Other files in the folder may be the user's. */
static bool is_read(const char *name) {
  static const char *const files[] = {TRI_FILE_CONFIG, TRI_FILE_ADAPTER_CONFIG, TRI_FILE_TOKENIZER};
  static const char *const stems[] = {"model", TRI_PEFT_STEM, "optimizer"};
  bool read = false;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) read = read || strcmp(name, files[i]) == 0;
  for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) read = read || is_tensors(name, stems[i]);
  return read;
}

static tri_status verify_listed(const char *folder, const json_t *document, const tri_state_scope *scope) {
  tri_status status = TRI_OK;
  const json_t *facts = NULL;
  DIR *directory = opendir(folder);
  if (directory == NULL) return tri_fail(TRI_BAD_FILE, "cannot look into %s: %s", folder, strerror(errno));
  for (const struct dirent *entry; status == TRI_OK && (entry = readdir(directory)) != NULL;) {
    if (!is_read(entry->d_name) || !is_in_scope(scope, entry->d_name)) continue;
    status = tri_state_facts(folder, document, entry->d_name, &facts);
  }
  closedir(directory);
  return status;
}

tri_status tri_state_verify(const char *folder, const json_t *document, const tri_state_scope *scope) {
  json_t *files = json_object_get(document, "files"), *facts = NULL;
  const char *name = NULL;
  share of = {.scope = scope};
  json_object_foreach(files, name, facts) {
    int64_t bytes = 0;
    if (is_in_scope(scope, name) && get_count(facts, "bytes", &bytes)) of.all += (uint64_t)bytes;
  }
  json_object_foreach(files, name, facts) {
    if (is_in_scope(scope, name)) TRI_TRY(verify_file(folder, name, facts, &of));
  }
  return scope->rank == 0 ? verify_listed(folder, document, scope) : TRI_OK;
}
