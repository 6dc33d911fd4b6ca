/* A line in which a user's program gives the reward of a completion:
 * {"id": N, "reward": x}, {"id": N, "reward": null} or {"id": N, "reward": {"NAME": x, ...}}.
 *
 * A number x is at most 1e100 in magnitude. An object has 1 to TRI_REWARD_PARTS parts, whose names have 1 to
 * TRI_REWARD_PART_BYTES - 1 bytes, and are not "mean" or "std". */
#ifndef TRI_REWARD_ANSWER_H
#define TRI_REWARD_ANSWER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { TRI_REWARD_PARTS = 64, TRI_REWARD_PART_BYTES = 64 };

/* A part of a reward, which is the sum of its parts. */
typedef struct tri_reward_part {
  char name[TRI_REWARD_PART_BYTES]; /* UTF-8 without control characters */
  double value;
} tri_reward_part;

typedef struct tri_reward_answer {
  int64_t id;
  double reward;          /* NaN: null */
  tri_reward_part *parts; /* [num_parts]; NULL: the reward is a number or null */
  int64_t num_parts;
} tri_reward_answer;

/* Reads a line; other keys are ignored. Release out->parts with tri_free. Fails with TRI_BAD_FILE if the line is not
 * such an answer; the message has the line's beginning. */
tri_status tri_reward_answer_read(const char *line, size_t bytes, tri_reward_answer *out);

/* Writes the beginning of a text on one line to `out`, for messages, and returns `out`. Control characters become
 * spaces. The text is cut before the first byte that is not UTF-8. */
enum { TRI_REWARD_SHOWN_BYTES = 200 };
const char *tri_reward_show(const char *text, size_t bytes, char out[TRI_REWARD_SHOWN_BYTES]);

#endif
