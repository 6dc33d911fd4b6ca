#include "config/name_answers.h"

#include "config/name_aliases.h"

#include <stddef.h>
#include <string.h>

typedef struct answer_row {
  const char *words; /* words that the answer is for, separated by spaces */
  const char *answer;
} answer_row;

#define FINE_TUNING "fine-tuning is `trireme train` of a run file with `init: FOLDER` (docs/finetuning.md)"
#define PREFERENCES                                                                                                    \
  "learning from preferences is `trireme train` of a run file with data.preferences and objective.name: dpo, kto, "    \
  "orpo, simpo, ... (docs/preferences.md)"
#define REINFORCEMENT                                                                                                  \
  "reinforcement learning is `trireme train` of a run file with objective.name: grpo, data.prompts, rollout and "      \
  "reward (docs/reinforcement.md); RLOO is objective.recipe: rloo"
#define CRITIC                                                                                                         \
  "PPO's critic and reward models are not supported; the nearest is objective.name: grpo, with rewards by rules "      \
  "(docs/reinforcement.md)"
#define FP8                                                                                                            \
  "Trireme computes no product in FP8, use precision: bf16; plans for programs that do: trireme plan --system "        \
  "megatron-core-fp8-2025, torchtitan-float8 or deepseek-v3-2024"
static const answer_row commands[] = {
    {"chat talk", "talk with a model by: trireme generate RUN --chat"},
    {"server api_server openai", "a model is served by `trireme serve RUN` (docs/serving.md)"},
    {"sft finetune fine_tune instruct", FINE_TUNING},
    {"lora qlora peft_train",
     "an adapter is the section `adapter:` of a run file for `trireme train` (docs/finetuning.md)"},
    {"dpo orpo kto cpo simpo ipo rlhf preference preferences", PREFERENCES},
    {"grpo rloo reinforce rl rlvr", REINFORCEMENT},
    {"ppo reward reward_model", CRITIC},
    {"convert",
     "`trireme import` reads a Hugging Face folder; `trireme export` writes one, or a GGUF file: trireme export MODEL "
     "FILE.gguf"},
    {"push upload", "nothing is uploaded; hf upload takes the folder that `trireme export` writes"},
    {"download pull",
     "nothing is downloaded: hf download NAME, and then name it where a folder is read (docs/finetuning.md)"},
    {"gguf quantize quantise",
     "trireme export MODEL FILE.gguf --dtype q8_0 writes a GGUF file for llama.cpp; q4_0, fp16, bf16 and fp32 are the "
     "other types "
     "(docs/gguf.md)"},
    {"init create", "trireme new NAME --model M --data PREFIX writes a run file"},
};

static const answer_row keys[] = {
    {"dpo orpo kto cpo simpo ipo rlhf", PREFERENCES},
    {"grpo rloo", REINFORCEMENT},
    {"ppo reward_model reward_model_path critic value_model gae_lambda cliprange_value vf_coef", CRITIC},
    {"reward_weights", "the weight of a reward is a key of it: reward: [{name: exact, weight: 1.0}]"},
    {"use_vllm vllm_mode vllm_server_host vllm_gpu_memory_utilization use_transformers_paged",
     "completions are sampled by the ranks that train, without a server; memory is rollout.slots and rollout.cache"},
    {"top_entropy_quantile", "a loss on the tokens of highest entropy alone is not supported"},
    {"entropy_target target_entropy adaptive_entropy",
     "the entropy bonus has a constant factor, objective.entropy_coef"},
    {"multi_objective_aggregation normalize_then_sum",
     "the reward of a completion is the weighted sum of its rewards (`weight`); normalising each first is not "
     "supported"},
    {"ref_model_sync_steps ref_model_mixup_alpha", "a reference that follows the policy is not supported"},
    {"push_to_hub hub_model_id", "nothing is uploaded; hf upload takes the folder that `trireme export` writes"},
    {"report_to wandb wandb_project wandb_log use_wandb mlflow",
     "every step is in metrics.jsonl and in TensorBoard's events in the run's folder; examples/follow_metrics.py "
     "--wandb "
     "passes them on to Weights & Biases"},
    {"logging_steps log_interval logging_dir tensorboard_dir",
     "every step is in metrics.jsonl and in TensorBoard's events in the run's folder"},
    {"neftune_noise_alpha neftune",
     "noise on embeddings (NEFTune) is not supported; the nearest is adapter.dropout of LoRA"},
    {"label_smoothing_factor",
     "label smoothing of the cross entropy is not supported; objective.label_smoothing is of losses of preferences"},
    {"loss loss_fn loss_weights rpo_alpha",
     "the loss is objective.name: cross_entropy of the next token, or of preferences (sigmoid is dpo; [sigmoid, sft] "
     "with "
     "loss_weights is dpo with objective.sft_weight)"},
    {"ref_model reference_model precompute_ref_log_probs sync_ref_model reference_free",
     "the reference is the model as the run begins; its log-probabilities are computed once, and no second model is "
     "kept"},
    {"f_divergence_type", "divergences other than the reverse KL are not supported"},
    {"ld_alpha", "length desensitization (LD-DPO) is not supported; length-normalised losses are sigmoid_norm and ipo"},
    {"use_weighting", "weighted preference optimization (WPO) is not supported"},
    {"max_prompt_length truncation_mode",
     "prompts of pairs are cut from their beginning by data.too_long: truncate_prompt, where a pair is longer than "
     "data.sequence; prompts of grpo are left out by data.skip_long"},
    {"bf16", "it is precision: bf16"},
    {"fp16 half float16", "fp16 is not supported; use precision: bf16"},
    {"fp8 float8 mxfp8 fp8_recipe fp8_format fp8_hybrid", FP8},
    {"cpu_offload cpu_offloading activation_offloading fine_grained_activation_offloading offload_activations offload",
     "activations are kept on the device or computed again (layout.recompute), never moved to the host; plans for "
     "programs "
     "that do: trireme plan --system megatron-core-offload-2025"},
    {"bf16_full_eval tf32", "use precision: bf16, or allow_tf32: true"},
    {"dora use_dora peft_use_dora", "it is adapter.magnitude: true"},
    {"rslora use_rslora lora_use_rslora", "it is adapter.scaling: rslora"},
    {"init_lora_weights",
     "it is adapter.init: kaiming (true), gaussian or pissa; OLoRA, EVA, LoftQ and others are not supported"},
    {"modules_to_save",
     "it is adapter.train, by patterns of tensor names: [\"*embed_tokens.weight\", \"lm_head.weight\"]"},
    {"exclude_modules layers_to_transform layers_pattern",
     "modules are chosen by adapter.targets, by the ends of their names: [layers.0.self_attn.q_proj]"},
    {"lora_bias", "factors have no biases; biases of the model are trained by adapter.train: [\"*.bias\"]"},
    {"target_parameters",
     "factors of experts are among adapter.targets: [mlp.experts.gate_up_proj, mlp.experts.down_proj]"},
    {"trainable_token_indices", "rows of an embedding are trained with all of it: adapter.train: [\"*embed_tokens*\"]"},
    {"layer_replication", "layers cannot be repeated; model.num_layers is that of the base"},
    {"loftq_config use_qalora",
     "a base in 4 bits is adapter.quantise: nf4 (QLoRA); LoftQ and QA-LoRA are not supported"},
    {"pissa use_pissa pissa_init", "it is adapter.init: pissa"},
    {"corda_config eva_config lora_ga_config olora",
     "factors begin by adapter.init: kaiming, gaussian or pissa; beginnings by data are not supported"},
    {"fan_in_fan_out", "the layout of the base's matrices is known from its model; leave it out"},
    {"peft_type", "adapters are LoRA: adapter.rank; other kinds of PEFT's are not supported"},
    {"completion_only_loss assistant_only_loss train_on_inputs train_on_responses_only",
     "which tokens count in the loss is the corpus' mask: trireme prepare --chat marks the answers "
     "(docs/finetuning.md)"},
    {"lora_target_linear", "it is adapter.targets: all-linear, the default"},
    {"load_in_8bit", "8-bit weights are not supported; use adapter.quantise: nf4 (QLoRA)"},
    {"tasks", "questions from a file: trireme eval RUN --choices FILE (docs/judging.md)"},
    {"deepspeed fsdp_config", "sharding is layout.zero: 1, 2 or 3 (docs/architecture.md)"},
    {"attn_implementation use_flash_attention_2 flash_attention use_flash_attn flash_attn",
     "attention never writes its scores to memory; there is nothing to turn on"},
    {"torch_compile compile", "Trireme does not compile the model; kernels are chosen at the start"},
    {"group_by_length", "documents of any length are packed: data.packing: documents"},
    {"dataloader_num_workers num_workers dataset_num_proc",
     "text is tokenised beforehand, by `trireme prepare --threads N`"},
    {"dataset_text_field text_column", "the key of the text is prepare's: trireme prepare --key KEY"},
    {"num_fewshot fewshot fewshot_as_multiturn",
     "no examples are put before a question: write them into it (docs/judging.md)"},
    {"apply_chat_template", "it is --chat of trireme eval and trireme generate"},
    {"chat_template",
     "the template is prepare's: trireme prepare --chat --chat-template NAME, or a file (trireme help templates)"},
};

static const char *find(const answer_row *rows, size_t count, const char *word) {
  word += strspn(word, "-");
  for (size_t i = 0; i < count; i++) {
    if (tri_name_is_among(word, rows[i].words)) return rows[i].answer;
  }
  return NULL;
}

const char *tri_command_answer(const char *word) { return find(commands, sizeof commands / sizeof commands[0], word); }

static const answer_row values[] = {
    {"fp8 float8 mxfp8", FP8},
    {"adamw_8bit adamw8bit adamw_bnb_8bit adam_8bit paged_adamw_8bit paged_adamw8bit",
     "it is optimizer.name: adamw with optimizer.state: int8"},
    {"lion_8bit lion8bit paged_lion_8bit", "it is optimizer.name: lion with optimizer.state: int8"},
    {"ademamix ademamix_8bit paged_ademamix_32bit paged_ademamix_8bit",
     "AdEMAMix is not supported; the nearest is adamw"},
    {"paged_adamw_32bit paged_adamw", "it is optimizer.name: adamw, whose states stay on the device"},
    {"paged_lion_32bit paged_lion", "it is optimizer.name: lion, whose states stay on the device"},
    {"aot aot_pair aot_unpaired",
     "it compares the sorted rewards of a batch, and is not supported; the nearest is dpo"},
    {"rloo reinforce reinforce_plus_plus", REINFORCEMENT},
    {"ppo", CRITIC},
    {"bnpo luspo sapo vespo", "this loss is not supported; objective.loss_type is dapo, grpo, dr_grpo or cispo"},
    {"sigmoid hinge ipo exo_pair nca_pair robust bco_pair sppo_hard apo_zero apo_down discopop sigmoid_norm",
     "a loss of preferences is objective.name (sigmoid is dpo); objective.loss_type is of grpo"},
    {"sft nll", "in addition to a loss of preferences it is objective.sft_weight; alone it is cross_entropy"},
};

const char *tri_value_answer(const char *word) { return find(values, sizeof values / sizeof values[0], word); }

static const struct {
  const char *section;
  answer_row row;
} sections[] = {
    {"rollout",
     {"top_k top_p min_p repetition_penalty presence_penalty frequency_penalty",
      "completions that are trained on are drawn from the whole distribution at rollout.temperature; those of held-out "
      "prompts have rollout.validation_top_k, validation_top_p, validation_min_p and validation_repetition_penalty"}},
    {"rollout",
     {"ranks max_staleness staleness",
      "all ranks sample and train in turn, so that completions are of the weights that are trained; leave it out"}},
    {"rollout", {"n", "completions of a prompt are rollout.num_generations"}},
    {"rollout", {"gpu_memory_utilization", "memory of completions is rollout.slots and rollout.cache"}},
};

const char *tri_section_answer(const char *section, const char *word) {
  for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
    const char *answer = strcmp(sections[i].section, section) == 0 ? find(&sections[i].row, 1, word) : NULL;
    if (answer != NULL) return answer;
  }
  return tri_key_answer(word);
}

const char *tri_key_answer(const char *word) { return find(keys, sizeof keys / sizeof keys[0], word); }

#define RUN_FIRST "the folder of a run or model is the first argument: trireme "
static const struct {
  const char *command;
  answer_row row;
} options[] = {
    {"prepare",
     {"dataset data input inputs file files text train_file dataset_name dataset_path data_path train_data",
      "files are named without an option: trireme prepare --tokenizer T --out PREFIX FILE..."}},
    {"prepare",
     {"vocab_size vocab vocabulary_size", "a tokenizer of 2048 tokens is trained by --tokenizer train:2048"}},
    {"train",
     {"config config_file config_path file yaml f", "the run file is the first argument: trireme train run.yaml"}},
    {"tune",
     {"config config_file config_path file yaml f study", "the study is the first argument: trireme tune study.yaml"}},
    {"generate", {"model checkpoint ckpt run model_path model_name_or_path m", RUN_FIRST "generate RUN"}},
    {"eval", {"model checkpoint ckpt run model_path model_name_or_path m", RUN_FIRST "eval RUN CORPUS"}},
    {"export", {"model checkpoint ckpt run model_path model_name_or_path m", RUN_FIRST "export RUN FOLDER"}},
};

const char *tri_option_answer(const char *command, const char *word) {
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    const char *answer = strcmp(options[i].command, command) == 0 ? find(&options[i].row, 1, word) : NULL;
    if (answer != NULL) return answer;
  }
  return NULL;
}
