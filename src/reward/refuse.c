/* The error of a kind that cannot compare with the answer of a prompt (kind.h). */
#include "reward/kind.h"
#include "tokenizer/utf8.h"

#include <ctype.h>

tri_status tri_reward_refuse_answer(const tri_reward *reward, const tri_scored_completion *completion,
                                    const char *reason) {
  char shown[200];
  size_t bytes = 0;
  for (; bytes < completion->answer_bytes && bytes + 1 < sizeof shown; bytes++) {
    const unsigned char c = (unsigned char)completion->answer[bytes];
    shown[bytes] = (char)(c >= 0x80 || isprint(c) != 0 ? c : ' ');
  }
  bytes = tri_utf8_valid_bytes(shown, bytes);
  shown[bytes] = '\0';
  return tri_fail(TRI_BAD_FILE, "reward %s: answer: \"%s%s\" %s", reward->kind->name, shown,
                  bytes < completion->answer_bytes ? "..." : "", reason);
}
