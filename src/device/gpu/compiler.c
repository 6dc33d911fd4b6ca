/* Finds the compiler of a chip, and checks names of chips. The compilers themselves are in rtc.c. */
#include "device/gpu/compiler.h"

#include "config/nearest_word.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture) {
  static const tri_gpu_compiler *const all[] = {&tri_gpu_nvrtc, &tri_gpu_hiprtc};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i]->takes(architecture)) return all[i];
  }
  return NULL;
}

static size_t common_prefix(const char *a, const char *b) {
  size_t length = 0;
  while (a[length] != '\0' && a[length] == b[length]) length++;
  return length;
}

/* Returns the nearest among the listed chips that have the longest prefix in common with `chip`: sm_120a for sm_12, and
 * not sm_75, although tri_nearest_word may find both equally near. Returns NULL if no chip is similar. Splits `chips`
 * into words in place. */
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

/* The chips that the available compilers support: `words` for messages, `chips` separated by spaces. */
typedef struct known {
  char words[8192], chips[4096];
} known;

/* Adds the chips of a compiler, and its version and path, to the lists. Fails with TRI_UNSUPPORTED if the compiler is
 * not available. */
static tri_status add_known(const tri_gpu_compiler *compiler, known *to) {
  const size_t used = strlen(to->words), listed = strlen(to->chips);
  TRI_TRY(tri_gpu_compiler_open(compiler));
  snprintf(to->words + used, sizeof to->words - used, "%s%s %s (%s) compiles for %s", used == 0 ? "" : "; ",
           compiler->name, compiler->facts->version, compiler->facts->path, compiler->facts->chips);
  snprintf(to->chips + listed, sizeof to->chips - listed, "%s%s", listed == 0 ? "" : " ", compiler->facts->chips);
  return TRI_OK;
}

/* Lists the chips of the compiler that the beginning of the name selects (sm_ or gfx), and fails with TRI_UNSUPPORTED
 * if this compiler is not available. For other names, lists the chips of all available compilers. */
static tri_status list_chips(const char *chip, known *out) {
  const tri_gpu_compiler *only = tri_gpu_compiler_for(chip);
  out->words[0] = out->chips[0] = '\0';
  if (only != NULL) return add_known(only, out);
  (void)add_known(&tri_gpu_nvrtc, out);
  (void)add_known(&tri_gpu_hiprtc, out);
  return TRI_OK;
}

tri_status tri_gpu_chip_check(const char *chip) {
  known here;
  char lower[64], meant[64] = "";
  TRI_TRY(list_chips(chip, &here));
  if (tri_gpu_chip_is_listed(here.chips, chip)) return TRI_OK;
  if (here.words[0] == '\0') {
    return tri_fail(TRI_UNSUPPORTED,
                    "`%s` is not a chip, which has a name such as sm_90a or gfx90a; and there is no compiler here: "
                    "`trireme doctor` shows where it was looked for",
                    chip);
  }
  snprintf(lower, sizeof lower, "%s", chip);
  for (char *at = lower; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
  const char *nearest = nearest_chip(lower, here.chips);
  if (nearest != NULL) snprintf(meant, sizeof meant, "; did you mean `%s`?", nearest);
  return tri_fail(TRI_UNSUPPORTED, "`%s` is not a chip that is known here%s %s. Newer versions know newer chips", chip,
                  nearest != NULL ? meant : ":", here.words);
}
