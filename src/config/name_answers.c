#include "config/name_answers.h"

#include "config/name_aliases.h"

#include <stddef.h>
#include <string.h>

typedef struct answer_row {
  const char *words; /* with spaces between */
  const char *answer;
} answer_row;

#define FINE_TUNING "fine-tuning is `trireme train` of a run file with `init: FOLDER` (docs/finetuning.md)"
#define PREFERENCES                                                                                                    \
  "preference training is `trireme train` of a run file with data.preferences and `objective: {name: dpo}`"
#define REINFORCEMENT                                                                                                  \
  "reinforcement learning is not supported; the nearest is preference training, `trireme train` of a run file with "   \
  "data.preferences and `objective: {name: dpo}`"
#define FP8                                                                                                            \
  "Trireme computes no product in FP8, use precision: bf16; plans for programs that do: trireme plan --system "        \
  "megatron-core-fp8-2025, torchtitan-float8 or deepseek-v3-2024"
static const answer_row commands[] = {
    {"chat talk", "talk with a model by: trireme generate RUN --chat"},
    {"serve server api_server",
     "there is no server; talk with a model by `trireme generate RUN --chat`, or serve what `trireme export` writes "
     "with vLLM or llama.cpp"},
    {"sft finetune fine_tune instruct", FINE_TUNING},
    {"lora qlora peft_train",
     "an adapter is the section `adapter:` of a run file for `trireme train` (docs/finetuning.md)"},
    {"dpo orpo kto cpo simpo ipo preference preferences", PREFERENCES},
    {"grpo ppo rlhf rloo reward reward_model", REINFORCEMENT},
    {"convert",
     "`trireme import` reads a Hugging Face folder, `trireme export` writes one; for GGUF run llama.cpp's "
     "convert_hf_to_gguf.py on it"},
    {"push upload", "nothing is uploaded; hf upload takes the folder that `trireme export` writes"},
    {"download pull",
     "nothing is downloaded: hf download NAME, and then name it where a folder is read (docs/finetuning.md)"},
};

static const answer_row keys[] = {
    {"dpo orpo kto cpo simpo ipo preference preferences", PREFERENCES},
    {"grpo ppo rlhf rloo reward reward_model", REINFORCEMENT},
    {"push_to_hub hub_model_id", "nothing is uploaded; hf upload takes the folder that `trireme export` writes"},
    {"report_to wandb wandb_project wandb_log use_wandb mlflow",
     "every step is in metrics.jsonl and in TensorBoard's events in the run's folder; examples/follow_metrics.py "
     "--wandb "
     "passes them on to Weights & Biases"},
    {"logging_steps log_interval logging_dir tensorboard_dir",
     "every step is in metrics.jsonl and in TensorBoard's events in the run's folder"},
    {"neftune_noise_alpha neftune", "noise on embeddings (NEFTune) is not supported; the nearest is model.dropout"},
    {"label_smoothing label_smoothing_factor",
     "label smoothing of the next token is not supported; objective.label_smoothing is of preferences"},
    {"loss loss_type loss_fn",
     "the loss is objective.name: cross_entropy, the next token (label_weight of data.train weighs sources), or one of "
     "preferences, such as dpo, which is TRL's sigmoid"},
    {"loss_weights rpo_alpha", "objective.sft_weight weighs the cross entropy of chosen answers beside another loss"},
    {"ref_model reference_model precompute_ref_log_probs ref_model_name_or_path",
     "the reference is the model as the run begins (`init`), whose log-probabilities are computed once"},
    {"f_divergence_type f_alpha_divergence_coef ld_alpha use_weighting reference_free sync_ref_model",
     "this variant of preference losses is not supported; objective.name lists those that are"},
    {"bf16", "it is precision: bf16"},
    {"fp16 half float16", "fp16 is not supported; use precision: bf16"},
    {"fp8 float8 mxfp8 fp8_recipe fp8_format fp8_hybrid", FP8},
    {"cpu_offload cpu_offloading activation_offloading fine_grained_activation_offloading offload_activations offload",
     "activations are kept on the device or computed again (layout.recompute), never moved to the host; plans for "
     "programs "
     "that do: trireme plan --system megatron-core-offload-2025"},
    {"bf16_full_eval tf32", "use precision: bf16, or allow_tf32: true"},
    {"load_in_8bit", "8-bit weights are not supported; use adapter.quantise: nf4 (QLoRA)"},
    {"tasks", "questions from a file: trireme eval RUN --choices FILE (docs/judging.md)"},
    {"deepspeed fsdp_config", "sharding is layout.zero: 1, 2 or 3 (docs/architecture.md)"},
    {"attn_implementation use_flash_attention_2 flash_attention use_flash_attn flash_attn",
     "attention never writes its scores to memory; there is nothing to turn on"},
    {"torch_compile compile", "there is nothing to compile; kernels are chosen at the start"},
    {"group_by_length", "documents of any length are packed: data.packing: documents"},
    {"dataloader_num_workers num_workers dataset_num_proc",
     "text is tokenised beforehand, by `trireme prepare --threads N`"},
    {"dataset_text_field text_column", "the key of the text is prepare's: trireme prepare --key KEY"},
    {"chat_template", "the template is prepare's: trireme prepare --chat --chat-template FILE"},
};

static const char *find(const answer_row *rows, size_t count, const char *word) {
  word += strspn(word, "-");
  for (size_t i = 0; i < count; i++) {
    if (tri_name_is_among(word, rows[i].words)) return rows[i].answer;
  }
  return NULL;
}

const char *tri_command_answer(const char *word) { return find(commands, sizeof commands / sizeof commands[0], word); }

static const answer_row values[] = {{"fp8 float8 mxfp8", FP8}};

const char *tri_value_answer(const char *word) { return find(values, sizeof values / sizeof values[0], word); }

const char *tri_key_answer(const char *word) { return find(keys, sizeof keys / sizeof keys[0], word); }
