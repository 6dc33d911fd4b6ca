#include "cli/running/chat_choice.h"

#include "chat/markers.h"

static tri_status add_chat_set(void *values, const char *text) {
  tri_chat_choice *out = values;
  if (out->num_sets == TRI_MOST_CHAT_SETS) {
    return tri_fail(TRI_BAD_USAGE, "--chat-set can be given %d times at most", TRI_MOST_CHAT_SETS);
  }
  out->sets[out->num_sets++] = text;
  return TRI_OK;
}

#define TRI_OPTION_VALUES tri_chat_choice
const tri_option tri_chat_choice_rows[] = {
    {TRI_PATH("chat-template", file),
     .help =
         "  --chat-template T, --chat-set NAME=VALUE   as in trireme prepare; the folder's template unless given\n"},
    {TRI_READ("chat-set", add_chat_set)},
    {0}};

tri_status tri_chat_choice_open(const tri_chat_choice *choice, const tri_generation *g, tri_chat_prompts *out) {
  const tri_chat_format_options options = {
      .tokenizer = g->tokenizer_file,
      .file = choice->file,
      .asked = true,
      .set = choice->sets,
      .num_set = choice->num_sets,
  };
  TRI_TRY(tri_chat_prompts_open(&options, out));
  return tri_chat_warn_of_markers(&out->format, out->turn_end, g->tokenizer, g->ends, g->num_ends);
}
