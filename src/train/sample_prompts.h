/* Prompts of a run's samples: `samples.prompts` unchanged, and `samples.chat` through the chat template. */
#ifndef TRI_TRAIN_SAMPLE_PROMPTS_H
#define TRI_TRAIN_SAMPLE_PROMPTS_H

#include "chat/session.h"
#include "generation/written.h"
#include "run/run_config.h"

enum { TRI_MOST_SAMPLE_PROMPTS = 2 * TRI_MOST_SAMPLES };

/* Number of bytes that a template may add to a message according to the memory plan. */
enum { TRI_SAMPLE_TEMPLATE_BYTES = 8192 };

typedef struct tri_sample_prompts {
  tri_prompt list[TRI_MOST_SAMPLE_PROMPTS];      /* [count], prompts of samples.prompts, then rendered ones of
                                                    samples.chat */
  const char *messages[TRI_MOST_SAMPLE_PROMPTS]; /* [count], text of samples.chat in the configuration; NULL: a prompt
                                                    of samples.prompts */
  int64_t count;
  char turn_end[TRI_TURN_END_BYTES]; /* text that the template prints after an answer; "": unknown, or the run has no
                                        samples.chat */
} tri_sample_prompts;

static inline int64_t tri_num_samples(const tri_run_config *config) {
  return config->samples.num_prompts + config->samples.num_chat;
}

/* Renders all prompts with the template next to the tokenizer. Fails with TRI_BAD_CONFIG if there are chat samples and
 * no template is found. Release with tri_sample_prompts_release, also after a failure. */
tri_status tri_sample_prompts_make(const tri_run_config *config, const char *tokenizer_file, tri_sample_prompts *out);
void tri_sample_prompts_release(tri_sample_prompts *prompts);

#endif
