#include "model/module_names.h"

#include <ctype.h>
#include <string.h>

/* Names in files and in modules. A name has the same meaning in all families. */
static const struct {
  const char *in_file, *module;
} renamed[] = {
    {"embed_out", "lm_head"},             /* gpt_neox */
    {"block_sparse_moe.gate", "mlp.gate"} /* mixtral */
};
enum { RENAMED = sizeof renamed / sizeof renamed[0] };

static bool is_letter(char c) { return isalnum((unsigned char)c) != 0 || c == '_'; }

/* Returns the index of the row of `renamed` whose name in files begins at `text`; -1: none. `before`: the character
 * before `text`. */
static int row_at(const char *text, char before) {
  for (int r = 0; r < RENAMED && !is_letter(before); r++) {
    const size_t length = strlen(renamed[r].in_file);
    if (strncmp(text, renamed[r].in_file, length) == 0 && !is_letter(text[length])) return r;
  }
  return -1;
}

bool tri_module_names_differ(const char *text) {
  for (const char *at = text; *at != '\0'; at++) {
    if (row_at(at, at == text ? '.' : at[-1]) >= 0) return true;
  }
  return false;
}

void tri_module_names(const char *text, char *out, size_t out_bytes) {
  const char *at = text;
  size_t length = 0;
  while (*at != '\0' && length + 1 < out_bytes) {
    const int row = row_at(at, at == text ? '.' : at[-1]);
    const char *from = row < 0 ? at : renamed[row].module;
    size_t bytes = row < 0 ? 1 : strlen(from);
    if (bytes > out_bytes - 1 - length) bytes = out_bytes - 1 - length;
    memcpy(out + length, from, bytes);
    length += bytes;
    at += row < 0 ? 1 : strlen(renamed[row].in_file);
  }
  out[length] = '\0';
}
