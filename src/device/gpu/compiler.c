#include "device/gpu/compiler.h"

#include "base/format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const tri_gpu_compiler *const all[] = {&tri_gpu_nvrtc, &tri_gpu_hiprtc};
enum { NUM_COMPILERS = sizeof all / sizeof all[0] };

const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture) {
  for (size_t i = 0; i < NUM_COMPILERS; i++) {
    if (all[i]->takes(architecture)) return all[i];
  }
  return NULL;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_texts_gather(const char *name, const char *stdint_text, tri_gpu_texts *out) {
  *out = (tri_gpu_texts){.count = 1, .names = {"stdint.h"}, .texts = {stdint_text}};
  for (const tri_gpu_source *source = tri_gpu_sources; source->name != NULL; source++) {
    if (strcmp(source->name, name) == 0) {
      out->own = source->text;
      continue;
    }
    if (out->count == TRI_GPU_MOST_TEXTS) {
      return tri_fail(TRI_INTERNAL, "there are more than %d texts of kernels", TRI_GPU_MOST_TEXTS);
    }
    out->names[out->count] = source->name;
    out->texts[out->count++] = source->text;
  }
  if (out->own == NULL) return tri_fail(TRI_INTERNAL, "this program has no text `%s`", name);
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

static size_t common_prefix(const char *a, const char *b) {
  size_t length = 0;
  while (a[length] != '\0' && a[length] == b[length]) length++;
  return length;
}

/* Of the listed chips that begin as `chip` does for longest, the nearest: sm_120a for sm_12, and not sm_75, which is as
 * near. NULL where none is meant. Cuts `chips` into words. */
static const char *nearest_chip(const char *chip, char *chips) {
  enum { MOST = 1024 };
  const char *alike[MOST];
  size_t count = 0, longest = 0;
  char *rest = NULL;
  for (char *word = strtok_r(chips, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    const size_t length = common_prefix(chip, word);
    if (length > longest) count = 0;
    if (length > longest) longest = length;
    if (length == longest && count < MOST) alike[count++] = word;
  }
  return tri_nearest_word(chip, alike, count);
}

/* What compilers here know, in words and as a list; of one of them alone where the name is of its kind. */
static tri_status list_chips(const tri_gpu_compiler *only, char *words, size_t words_bytes, char *chips,
                             size_t chips_bytes) {
  words[0] = chips[0] = '\0';
  for (size_t i = 0; i < NUM_COMPILERS; i++) {
    const size_t used = strlen(words), listed = strlen(chips);
    if (only != NULL && all[i] != only) continue;
    const tri_status status = all[i]->open();
    if (status != TRI_OK && only != NULL) return status;
    if (status != TRI_OK) continue;
    snprintf(words + used, words_bytes - used, "%s%s %s (%s) compiles for %s", used == 0 ? "" : "; ", all[i]->name,
             all[i]->version(), all[i]->path(), all[i]->chips());
    snprintf(chips + listed, chips_bytes - listed, "%s%s", listed == 0 ? "" : " ", all[i]->chips());
  }
  return TRI_OK;
}

tri_status tri_gpu_chip_check(const char *chip) {
  char words[8192], chips[4096], lower[64], meant[64] = "";
  TRI_TRY(list_chips(tri_gpu_compiler_for(chip), words, sizeof words, chips, sizeof chips));
  if (tri_gpu_chip_is_listed(chips, chip)) return TRI_OK;
  if (words[0] == '\0') {
    return tri_fail(TRI_UNSUPPORTED,
                    "`%s` is no chip, which has a name such as sm_90a or gfx90a; and there is no compiler here: "
                    "`trireme doctor` says where they were looked for",
                    chip);
  }
  snprintf(lower, sizeof lower, "%s", chip);
  for (char *at = lower; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
  const char *nearest = nearest_chip(lower, chips);
  if (nearest != NULL) snprintf(meant, sizeof meant, "; did you mean `%s`?", nearest);
  return tri_fail(TRI_UNSUPPORTED, "`%s` is no chip that is known here%s %s. Newer versions know newer chips", chip,
                  nearest != NULL ? meant : ":", words);
}
