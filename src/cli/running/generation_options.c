#include "cli/running/generation_options.h"

enum { USUAL_DRAFT_TOKENS = 4 };

#define TRI_OPTION_VALUES tri_generation_request
const tri_option tri_guess_option_rows[] = {
    {TRI_INT("prompt-lookup", lookup, 1, TRI_MOST_GUESSES),
     .help = "  --prompt-lookup N   guess up to N tokens (1 to 16) from what followed the same tokens earlier in the "
             "text, while\n"
             "                      that is faster: the text is the same\n"},
    {TRI_PATH("draft", draft),
     .help = "  --draft FOLDER      guess with a smaller model that has the same tokenizer: the text is the same\n"},
    {TRI_INT("draft-tokens", draft_tokens, 1, TRI_MOST_GUESSES),
     .help = "  --draft-tokens N    tokens that the smaller model guesses at a time (4)\n"},
    {0}};

const tri_option tri_sampling_option_rows[] = {
    {TRI_INT("top-k", top_k, 0, 1 << 24), .help = "  --top-k K           draw from the K most likely (0: from all)\n"},
    {TRI_DOUBLE("top-p", top_p, 1e-9, 1.0),
     .help = "  --top-p P           draw from the most likely that together have probability P (1)\n"},
    {TRI_DOUBLE("min-p", min_p, 0.0, 1.0),
     .help =
         "  --min-p P           leave out tokens with less than P times the probability of the most likely one (0)\n"},
    {TRI_DOUBLE("repetition-penalty", repetition_penalty, 1e-2, 1e2),
     .help =
         "  --repetition-penalty R   divides the logits of tokens that are already in the text, if they are above 0 "
         "(1)\n"},
    {0}};

tri_status tri_check_guess_options(const char *command, const tri_generation_request *request) {
  if (request->lookup > 0 && request->draft != NULL)
    return tri_fail(TRI_BAD_USAGE, "%s: --prompt-lookup or --draft, one of them", command);
  if (request->draft_tokens > 0 && request->draft == NULL)
    return tri_fail(TRI_BAD_USAGE, "%s: --draft-tokens goes with --draft FOLDER", command);
  return TRI_OK;
}

void tri_default_guess_options(tri_generation_request *request) {
  if (request->draft_tokens == 0) request->draft_tokens = USUAL_DRAFT_TOKENS;
}
