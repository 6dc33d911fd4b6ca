#include "reward/kind.h"

#include <ctype.h>

/* Bytes that are not printable ASCII are shown as spaces, except those of UTF-8, and a long answer is cut. */
tri_status tri_reward_refuse_answer(const tri_reward *reward, const tri_completion *completion, const char *reason) {
  char shown[200];
  size_t bytes = 0;
  const bool cut = completion->answer_bytes >= sizeof shown;
  for (; bytes < completion->answer_bytes && bytes + 1 < sizeof shown; bytes++) {
    const unsigned char c = (unsigned char)completion->answer[bytes];
    shown[bytes] = (char)(c >= 0x80 || isprint(c) != 0 ? c : ' ');
  }
  shown[bytes] = '\0';
  return tri_fail(TRI_BAD_FILE, "reward %s: answer: \"%s%s\" %s", reward->kind->name, shown, cut ? "..." : "", reason);
}
