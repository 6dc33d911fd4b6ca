/* Settings of a reward and a completion of any bytes, each kind in turn: the settings are refused with a message that
 * names the kind, or a score is a number in the kind's range, no verdict, or a refused answer; and it is the same
 * again.
 *
 * The input: bytes for the keys and numbers, then the pattern (or the text to find), the answer and the completion with
 * a byte 0xFE between them. */
#include "base/memory.h"
#include "reward/reward.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 6, SEPARATOR = 0xFE };

typedef struct rest {
  const uint8_t *at;
  size_t bytes;
} rest;

/* Copies the bytes before the next separator to a block of their own, so that a read past its end is detected. */
static char *next_part(rest *r, size_t *bytes) {
  const uint8_t *end = r->bytes == 0 ? NULL : memchr(r->at, SEPARATOR, r->bytes);
  *bytes = end == NULL ? r->bytes : (size_t)(end - r->at);
  char *part = malloc(*bytes > 0 ? *bytes : 1);
  if (part == NULL) abort();
  if (*bytes > 0) memcpy(part, r->at, *bytes);
  r->at += *bytes + (end != NULL);
  r->bytes -= *bytes + (end != NULL);
  return part;
}

static tri_reward_settings settings_of(const uint8_t head[HEAD], const char *pattern, size_t bytes) {
  size_t count = 0;
  const char *const *names = tri_reward_names(&count);
  tri_reward_settings s = {.given = head[1] | (uint32_t)(head[2] & 15) << 8,
                           .weight = head[3],
                           .strip = head[3] & 1,
                           .ignore_case = head[3] & 2,
                           .ignore_punctuation = head[3] & 4,
                           .ignore_numbers = head[3] & 8,
                           .max = (int8_t)head[3],
                           .buffer = (int8_t)head[4],
                           .ngram = (int8_t)head[4] % 8,
                           .max_penalty = (int8_t)head[4],
                           .unit = head[3] & 1 ? TRI_REWARD_TOKENS : TRI_REWARD_WORDS};
  snprintf(s.name, sizeof s.name, "%s", names[head[0] % count]);
  if (bytes >= sizeof s.pattern) bytes = sizeof s.pattern - 1;
  memcpy(s.pattern, pattern, bytes);
  memcpy(s.text, pattern, bytes);
  return s;
}

static void check_score(const tri_reward *reward, const tri_reward_settings *s, const tri_scored_completion *c) {
  double first = 0, second = 0;
  const double least = strcmp(s->name, "repetition") == 0 ? -128 : -1;
  const tri_status status = tri_reward_score(reward, c, &first);
  if (status != TRI_OK && (!isnan(first) || strstr(tri_status_message(), s->name) == NULL)) abort();
  if (status == TRI_INTERNAL || status == TRI_OUT_OF_MEMORY) abort();
  if (status == TRI_OK && isnan(first) && c->answer != NULL) abort();
  if (!isnan(first) && (first < least || first > 1)) abort();
  if (tri_reward_score(reward, c, &second) != status || (first != second && !isnan(first))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEAD) return 0;
  const size_t held = tri_memory_bytes();
  rest r = {data + HEAD, size - HEAD};
  size_t pattern_bytes = 0, answer_bytes = 0, text_bytes = 0;
  char *pattern = next_part(&r, &pattern_bytes), *answer = next_part(&r, &answer_bytes),
       *text = next_part(&r, &text_bytes);
  const tri_reward_settings s = settings_of(data, pattern, pattern_bytes);
  const tri_scored_completion c = {.prompt = "",
                                   .text = text,
                                   .text_bytes = text_bytes,
                                   .answer = (data[2] & 8) != 0 ? NULL : answer,
                                   .answer_bytes = answer_bytes,
                                   .tokens = data[5],
                                   .max_tokens = 128};
  tri_reward *reward = NULL;
  if (tri_reward_create(&s, &reward) == TRI_OK) {
    check_score(reward, &s, &c);
  } else if (strncmp(tri_status_message(), "reward ", 7) != 0 || strstr(tri_status_message(), s.name) == NULL) {
    abort();
  }
  tri_reward_destroy(reward);
  if (tri_memory_bytes() != held) abort();
  free(pattern);
  free(answer);
  free(text);
  return 0;
}
