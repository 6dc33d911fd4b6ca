/* The keys of a model: their table, with types, ranges, defaults and help. */
#include "model/family.h"
#include "model/model_config.h"

#include <assert.h>

#define FAMILY_WORD(VALUE, name) {#name, TRI_FAMILY_##VALUE},
static const tri_config_word families[] = {TRI_FAMILIES(FAMILY_WORD){NULL, 0}};
#define ACTIVATION_WORD(VALUE, name, ...) {#name, TRI_ACTIVATION_##VALUE},
static const tri_config_word activations[] = {TRI_ACTIVATIONS(ACTIVATION_WORD){NULL, 0}};

#define RESIDUALS(X)                                                                                                   \
  X("sequential", TRI_RESIDUAL_SEQUENTIAL)                                                                             \
  X("parallel", TRI_RESIDUAL_PARALLEL)                                                                                 \
  X("parallel_one_norm", TRI_RESIDUAL_PARALLEL_ONE_NORM)
TRI_CONFIG_WORDS(residuals, tri_residual, RESIDUALS)

TRI_CONFIG_WORDS(rope_types, tri_rope_type, TRI_ROPE_TYPES)

#define SCORINGS(X) X("softmax", TRI_ROUTER_SOFTMAX) X("sigmoid", TRI_ROUTER_SIGMOID)
TRI_CONFIG_WORDS(scorings, tri_router_scoring, SCORINGS)
#define BALANCES(X)                                                                                                    \
  X("none", TRI_BALANCE_EXPERTS_NONE)                                                                                  \
  X("sequence", TRI_BALANCE_EXPERTS_SEQUENCE)                                                                          \
  X("bias", TRI_BALANCE_EXPERTS_BIAS)
TRI_CONFIG_WORDS(balances, tri_balance_experts, BALANCES)

#define KEY(NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(tri_model, NAME)
#define COUNT(NAME, MOST) KEY(NAME, TRI_CONFIG_INT), .range = {.low = 1, .high = MOST}
#define COUNT_OR_NONE(NAME, MOST) KEY(NAME, TRI_CONFIG_INT), .fallback = "0", .range = {.low = 0, .high = MOST}
#define BOOLEAN(NAME) KEY(NAME, TRI_CONFIG_BOOL)
#define NUMBER(NAME) KEY(NAME, TRI_CONFIG_DOUBLE)
#define SCALING(NAME) .change = TRI_CHANGE_FUNCTION, .name = #NAME, .offset = offsetof(tri_rope_scaling, NAME)
#define POSITIVE .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true}
#define FACTORS(NAME)                                                                                                  \
  .type = TRI_CONFIG_NUMBERS, .fallback = "[]", .bytes = sizeof((tri_rope_scaling){0}.NAME),                           \
  .range = {.low = 1e-6, .high = 1e6}

static const tri_config_key rope_scaling_keys[] = {
    {SCALING(type), .type = TRI_CONFIG_CHOICE, .words = rope_types, .fallback = "llama3",
     .help = "llama3 (Llama 3.1), linear, dynamic (NTK, by data.sequence or the text so far), yarn, longrope (Phi-3): "
             "as transformers has them"},
    {SCALING(factor), .type = TRI_CONFIG_DOUBLE, .fallback = "1.0", .range = {.low = 1, .high = 1e6},
     .help = "how many times longer than in the first training texts may be; 1: no scaling (llama3, linear)"},
    {SCALING(low_freq_factor), .type = TRI_CONFIG_DOUBLE, .fallback = "1.0", POSITIVE,
     .help = "llama3: wavelengths above original_max_sequence / this are stretched in full"},
    {SCALING(high_freq_factor), .type = TRI_CONFIG_DOUBLE, .fallback = "4.0", POSITIVE,
     .help = "llama3: wavelengths below original_max_sequence / this are left alone"},
    {SCALING(original_max_sequence), .type = TRI_CONFIG_INT, .fallback = "8192", .range = {.low = 1, .high = 1 << 30},
     .help = "positions of the first training (llama3, dynamic, yarn, longrope)"},
    {SCALING(short_factor), FACTORS(short_factor),
     .help = "longrope: divisors of the rotary frequencies, one for each pair of components, in sequences up to "
             "original_max_sequence"},
    {SCALING(long_factor), FACTORS(long_factor), .help = "longrope: the same in longer sequences"},
    {SCALING(attention_factor), .type = TRI_CONFIG_DOUBLE, .fallback = "0.0", .range = {.low = 0, .high = 1e6},
     .help = "yarn, longrope: what queries and keys are multiplied by; 0 is 0.1 ln(factor) + 1, or what both mscales "
             "give; with longrope sqrt(1 + ln(factor) / ln(original_max_sequence))"},
    {SCALING(mscale), .type = TRI_CONFIG_DOUBLE, .fallback = "0.0", .range = {.low = 0, .high = 1e6},
     .help = "yarn: instead of that (0.1 mscale ln(factor) + 1) / (the same with mscale_all_dim); 0: unused"},
    {SCALING(mscale_all_dim), .type = TRI_CONFIG_DOUBLE, .fallback = "0.0", .range = {.low = 0, .high = 1e6},
     .help = "yarn: see mscale; 0: unused"},
    {SCALING(beta_fast), .type = TRI_CONFIG_DOUBLE, .fallback = "32.0", POSITIVE,
     .help = "yarn: frequencies with at least this many rotations within original_max_sequence are not scaled"},
    {SCALING(beta_slow), .type = TRI_CONFIG_DOUBLE, .fallback = "1.0", POSITIVE,
     .help = "yarn: frequencies with at most this many rotations are scaled in full"},
    {SCALING(truncate), .type = TRI_CONFIG_BOOL, .fallback = "true",
     .help = "yarn: the bounds of the range between them are rounded to whole pairs"},
};
static const tri_config_table rope_scaling_table = TRI_CONFIG_TABLE("rope_scaling", rope_scaling_keys);

static const tri_config_key model_keys[] = {
    TRI_CONFIG_ROW(FREE, KEY(name, TRI_CONFIG_STRING), .bytes = 64, .fallback = "inline",
                   .help = "what reports call the model; a preset's or file's own name"),
    TRI_CONFIG_ROW(SHAPE, KEY(family, TRI_CONFIG_CHOICE), .words = families, .example = "gpt2",
                   .help = "the architecture"),
    TRI_CONFIG_ROW(
        FREE, KEY(model_type, TRI_CONFIG_STRING), .bytes = 32, .fallback = "",
        .help = "what config.json calls it where several words would do (mistral, llama); empty: by its numbers"),
    TRI_CONFIG_ROW(SHAPE, COUNT(num_layers, 1 << 14), .example = "12", .help = "transformer blocks"),
    TRI_CONFIG_ROW(SHAPE, COUNT(hidden_size, 1 << 20), .example = "768", .help = "width of the residual stream"),
    TRI_CONFIG_ROW(FUNCTION, COUNT(num_heads, 1 << 16), .example = "12", .help = "attention heads"),
    TRI_CONFIG_ROW(FUNCTION, COUNT(num_kv_heads, 1 << 16), .derived = "num_heads",
                   .help = "heads of keys and values; fewer is grouped-query attention"),
    TRI_CONFIG_ROW(FUNCTION, COUNT(head_dim, 1 << 16), .derived = "hidden_size / num_heads",
                   .help = "width of one head"),
    TRI_CONFIG_ROW(SHAPE, COUNT(ffn_size, 1 << 22), .derived = "4 * hidden_size if not gated",
                   .help = "width of the feed-forward block; required by llama and all other families with gates"),
    TRI_CONFIG_ROW(SHAPE, COUNT(vocab_size, INT32_MAX), .example = "50257",
                   .help = "token ids are 0 .. vocab_size - 1"),
    /* A change of max_sequence needs no check here, since it shows in the shape of learned positions. */
    TRI_CONFIG_ROW(FREE, COUNT(max_sequence, 1 << 30), .is_length = true, .example = "1024",
                   .help = "longest sequence, in tokens (4k is 4096)"),
    TRI_CONFIG_ROW(SHAPE, KEY(tied, TRI_CONFIG_BOOL), .derived = "the family's: gpt2, gemma, opt, ... true",
                   .help = "whether the output projection is the token embedding"),
    TRI_CONFIG_ROW(LEARNING, NUMBER(dropout), .fallback = "0.0", .range = {.low = 0, .high = 1, .open_high = true},
                   .help = "dropout probability, on both residual branches, and on the embedding (gpt2, gpt_neox)"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(rope_theta), .fallback = "10000.0", POSITIVE,
                   .help = "base of the rotary frequencies (RoPE theta)"),
    TRI_CONFIG_ROW(
        FUNCTION, NUMBER(local_rope_theta), .fallback = "0.0", .range = {.low = 0, .high = TRI_CONFIG_MOST},
        .help = "the same in layers with a sliding window (gemma3), which rope_scaling does not change; 0: rope_theta"),
    TRI_CONFIG_ROW(
        FUNCTION, NUMBER(rotary_fraction), .derived = "gpt_neox and stablelm 0.25, phi 0.5, others 1",
        .range = {.low = 0, .high = 1, .open_low = true},
        .help =
            "fraction of each head's components that get rotary positions, from the first on (partial_rotary_factor)"),
    TRI_CONFIG_ROW(FUNCTION, KEY(rope_layers, TRI_CONFIG_STRING), .bytes = TRI_LAYER_SET_BYTES, .fallback = "all",
                   .help = "layers with rotary positions: all; 3 of 4 (smollm3: not every fourth); or 0, 4-7, 28-"),
    TRI_CONFIG_ROW(FREE, KEY(rope_scaling, TRI_CONFIG_SECTION), .table = &rope_scaling_table,
                   .help = "RoPE scaling, for longer texts than the model was first trained on"),
    TRI_CONFIG_ROW(FUNCTION, KEY(window, TRI_CONFIG_INT), .fallback = "0", .range = {.low = 0, .high = 1 << 30},
                   .help = "sliding window: the most tokens that a query attends to, its own included; 0: no window"),
    TRI_CONFIG_ROW(FUNCTION, KEY(window_layers, TRI_CONFIG_STRING), .bytes = TRI_LAYER_SET_BYTES, .fallback = "all",
                   .help = "layers with the sliding window: all; 5 of 6 (the first five of each six); or 0, 4-7, 28-"),
    TRI_CONFIG_ROW(
        SHAPE, KEY(attention_bias, TRI_CONFIG_BOOL),
        .derived = "true in gpt2, gpt_neox, opt, phi and starcoder2, else false",
        .help =
            "biases on queries, keys and values, and but for llama and stablelm on attention's output projection; in "
            "falcon, opt and starcoder2 on feed-forward parts, too; gpt2 and phi always have them"),
    TRI_CONFIG_ROW(
        SHAPE, BOOLEAN(output_bias), .fallback = "false",
        .help = "llama: a bias on attention's output projection, too (attention_bias of a LlamaForCausalLM)"),
    TRI_CONFIG_ROW(SHAPE, BOOLEAN(mlp_bias), .fallback = "false",
                   .help = "llama, granite, smollm3: biases on the three products of feed-forward parts"),
    TRI_CONFIG_ROW(FUNCTION, KEY(activation, TRI_CONFIG_CHOICE), .words = activations,
                   .derived = "the family's: llama silu, gpt2 gelu_tanh, opt relu, ...",
                   .help = "activation of the feed-forward block, or of its gates (SwiGLU is silu)"),
    TRI_CONFIG_ROW(
        FUNCTION, KEY(residual, TRI_CONFIG_CHOICE), .words = residuals,
        .derived = "gpt_neox parallel, phi and falcon parallel_one_norm, others sequential",
        .help =
            "whether the feed-forward block follows attention, or both take the layer's input, by a norm each or one"),
    TRI_CONFIG_ROW(
        FUNCTION, NUMBER(attention_scale), .fallback = "0.0", .range = {.low = 0, .high = 1e6},
        .help = "what queries times keys are multiplied by (gemma2, gemma3, granite); 0 is 1 / sqrt(head_dim)"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(attention_soft_cap), .fallback = "0.0", .range = {.low = 0, .high = 1e6},
                   .help = "c: scores become c tanh(score / c) (gemma2); 0: no cap"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(logit_soft_cap), .fallback = "0.0", .range = {.low = 0, .high = 1e6},
                   .help = "the same of the output's logits (gemma2)"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(embedding_scale), .derived = "gemma, gemma2 and gemma3 sqrt(hidden_size), others 1",
                   .range = {.low = 0, .high = 1e6, .open_low = true}, .help = "factor of the embeddings (granite)"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(residual_scale), .fallback = "1.0",
                   .range = {.low = 0, .high = 1e6, .open_low = true},
                   .help = "factor of each branch before it is added (granite)"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(logit_divisor), .fallback = "1.0",
                   .range = {.low = 0, .high = 1e6, .open_low = true},
                   .help = "divisor of the output's logits (granite)"),
    TRI_CONFIG_ROW(SHAPE, COUNT_OR_NONE(num_experts, TRI_ROUTER_EXPERTS),
                   .help = "experts of a layer; families with experts require it"),
    TRI_CONFIG_ROW(FUNCTION, COUNT_OR_NONE(experts_per_token, TRI_ROUTER_CHOSEN),
                   .help = "experts that each token is routed to (top-k)"),
    TRI_CONFIG_ROW(SHAPE, COUNT_OR_NONE(expert_ffn_size, 1 << 22), .help = "width inside an expert"),
    TRI_CONFIG_ROW(
        SHAPE, COUNT_OR_NONE(shared_experts, TRI_ROUTER_EXPERTS),
        .help = "shared experts, which all tokens go through; together one of this times expert_ffn_size (dots1)"),
    TRI_CONFIG_ROW(
        SHAPE, COUNT_OR_NONE(dense_layers, 1 << 14),
        .help = "first layers that have a dense feed-forward block of ffn_size instead of experts (qwen3_moe, dots1)"),
    TRI_CONFIG_ROW(FUNCTION, KEY(router_scoring, TRI_CONFIG_CHOICE), .words = scorings,
                   .derived = "dots1 sigmoid, others softmax",
                   .help = "scores of experts: softmax over all of them, or sigmoid of each"),
    TRI_CONFIG_ROW(FUNCTION, COUNT(router_groups, TRI_ROUTER_EXPERTS), .fallback = "1",
                   .help = "groups of adjacent experts; a token chooses its experts from the best groups"),
    TRI_CONFIG_ROW(FUNCTION, COUNT(router_kept_groups, TRI_ROUTER_EXPERTS), .derived = "router_groups",
                   .help = "groups that a token may choose from"),
    TRI_CONFIG_ROW(
        FUNCTION, BOOLEAN(router_quota), .fallback = "false",
        .help = "the same number of experts from each kept group, so that groups are balanced for all tokens (MoGE)"),
    TRI_CONFIG_ROW(FUNCTION, BOOLEAN(router_normalised), .derived = "olmoe false, others true",
                   .help = "whether the weights of the chosen experts are divided by their sum"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(router_scale), .fallback = "1.0",
                   .range = {.low = 0, .high = 1e6, .open_low = true}, .help = "factor of these weights"),
    TRI_CONFIG_ROW(SHAPE, BOOLEAN(router_bias), .derived = "dots1 true, others false",
                   .help = "a bias on scores for choosing alone, not for weights; it has no gradient (balance: bias)"),
    TRI_CONFIG_ROW(
        LEARNING, KEY(balance, TRI_CONFIG_CHOICE), .words = balances, .fallback = "none",
        .help = "load balancing: none, sequence (an auxiliary loss for each sequence) or bias (updated once a step)"),
    TRI_CONFIG_ROW(LEARNING, NUMBER(balance_rate), .derived = "sequence 1e-4, bias 1e-3",
                   .range = {.low = 0, .high = 1e6}, .help = "coefficient of that loss, or step of the bias"),
    TRI_CONFIG_ROW(LEARNING, NUMBER(z_loss), .fallback = "0.0", .range = {.low = 0, .high = 1e6},
                   .help = "coefficient of the router z-loss, the mean of log(sum(exp(logits)))^2; 0: none"),
    TRI_CONFIG_ROW(FUNCTION, NUMBER(norm_eps), .fallback = "1.0e-5", POSITIVE,
                   .help = "added to the variance in norms"),
    TRI_CONFIG_ROW(FREE, NUMBER(init_std), .fallback = "0.02", POSITIVE,
                   .help = "standard deviation of initial weights"),
};
const tri_config_table tri_model_table = TRI_CONFIG_TABLE("model file", model_keys);
