#include "config/name_aliases.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

typedef struct other_name_row {
  const char *name;   /* our name, with its section if the name alone is ambiguous */
  const char *others; /* names in other programs, separated by spaces */
} other_name_row;

static const other_name_row rows[] = {
    /* Keys of models. */
    {"num_layers", "num_hidden_layers n_layer n_layers decoder_layers depth"},
    {"hidden_size", "n_embd d_model dim embed_dim embedding_dim emb_dim hidden_dim model_dim width"},
    {"num_heads", "num_attention_heads n_head n_heads attention_heads"},
    {"num_kv_heads", "num_key_value_heads n_kv_heads n_kv_head num_query_groups"},
    {"head_dim", "kv_channels d_head head_size"},
    {"ffn_size", "intermediate_size ffn_hidden_size n_inner ffn_dim mlp_dim mlp_size d_ff mlp_hidden_size"},
    {"vocab_size", "n_vocab vocabulary_size padded_vocab_size vocab"},
    {"max_sequence", "max_position_embeddings n_positions n_ctx block_size max_seq_len context_length context_size"},
    {"tied", "tie_word_embeddings tie_embeddings tied_embeddings weight_tying"},
    {"rope_theta", "rotary_base rope_base rotary_emb_base"},
    {"rotary_fraction", "rotary_pct partial_rotary_factor rotary_percent"},
    {"window", "sliding_window window_size attention_window"},
    {"attention_bias", "qkv_bias add_qkv_bias use_qkv_bias"},
    {"activation", "hidden_act hidden_activation activation_function act_fn"},
    {"norm_eps", "eps rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon"},
    {"init_std", "initializer_range init_method_std"},
    {"dropout", "hidden_dropout hidden_dropout_prob resid_pdrop residual_dropout embd_pdrop"},
    {"attention_soft_cap", "attn_logit_softcapping"},
    {"logit_soft_cap", "final_logit_softcapping"},
    {"num_experts", "num_local_experts n_routed_experts moe_num_experts n_experts"},
    {"experts_per_token", "num_experts_per_tok num_experts_per_token moe_router_topk moe_top_k"},
    {"expert_ffn_size", "moe_intermediate_size moe_ffn_hidden_size"},
    {"shared_experts", "n_shared_experts num_shared_experts"},
    {"z_loss", "moe_z_loss_coeff router_z_loss_coef"},
    {"balance_rate", "router_aux_loss_coef moe_aux_loss_coeff"},
    {"family", "architecture architectures arch"},

    /* Keys of data. */
    {"data.train", "data_path train_path train_data train_data_path train_file train_files dataset dataset_path"},
    {"data.validation", "val valid val_data valid_data eval_data validation_data validation_path eval_dataset"},
    {"sequence", "seq_length seq_len sequence_length max_length max_seq_length max_seq_len block_size context_length"},
    {"data.sequence", "block_size max_seq_len context_length"}, /* at the top of a run file; below `model:` these words
                                                                   mean max_sequence */
    {"ignore_token", "ignore_index label_pad_token_id"},
    {"max_samples", "max_train_samples"},
    {"data.preferences", "preference_data preference_path preference_dataset"},

    /* Keys of layouts. */
    {"tensor", "tp tp_size tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size"},
    {"pipeline",
     "pp pp_size pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
     "pipeline_model_parallel_size"},
    {"context", "cp cp_size context_parallel context_parallel_size context_parallel_degree"},
    {"layout.data", "dp dp_size data_parallel data_parallel_size data_parallel_degree data_parallel_replicate_degree"},
    {"expert", "ep ep_size expert_parallel expert_parallel_size expert_parallel_degree expert_model_parallel_size"},
    {"expert_tensor", "etp expert_tensor_parallel_size expert_tensor_parallel_degree"},
    {"sequence_parallel", "sp enable_sequence_parallel"},
    {"virtual_stages",
     "vpp virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank "
     "num_layers_per_virtual_pipeline_stage num_model_chunks"},
    {"stage_layers",
     "pipeline_model_parallel_layout decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers "
     "num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage module_fqns_per_model_part "
     "pipeline_parallel_split_points"},
    {"schedule", "pipeline_schedule pipeline_parallel_schedule"},
    {"zero", "zero_stage zero_optimization fsdp data_parallel_shard_degree use_distributed_optimizer"},
    {"recompute",
     "gradient_checkpointing activation_checkpointing activation_checkpoint recompute_granularity "
     "recompute_activations checkpoint_activations"},
    {"micro_batch",
     "micro_batch_size microbatch_size mbs per_device_train_batch_size device_batch_size "
     "local_batch_size train_micro_batch_size_per_gpu"},
    {"bucket_bytes", "bucket_cap_mb reduce_bucket_size ddp_bucket_size"},

    /* Keys of optimizers. */
    {"global_batch",
     "global_batch_size batch_size train_batch_size total_batch_size gradient_accumulation_steps grad_accum"},
    {"steps", "max_steps num_steps total_steps training_steps train_steps train_iters max_iters iterations iters"},
    {"optimizer.epochs", "num_epochs num_train_epochs epoch max_epochs"},
    {"lr", "learning_rate max_lr peak_lr base_lr"},
    {"min_lr_ratio", "min_lr_rate cosine_min_lr_ratio min_lr_factor lr_min_ratio min_lr_fraction"},
    {"warmup_ratio", "lr_warmup_fraction warmup_fraction lr_warmup_ratio"},
    {"min_lr", "min_learning_rate lr_min minimum_lr final_lr"},
    {"warmup", "warmup_steps warmup_iters num_warmup_steps lr_warmup_steps lr_warmup_iters"},
    {"optimizer.decay", "lr_scheduler lr_scheduler_type lr_schedule lr_decay_style scheduler schedule"},
    {"decay_fraction", "decay_ratio"},
    {"optimizer.name", "optim optimizer_type type algorithm"},
    {"betas", "beta1 beta2 adam_beta1 adam_beta2"},
    {"optimizer.eps", "adam_eps adam_epsilon epsilon"},
    {"weight_decay", "wd"},
    {"clip", "grad_clip clip_grad clip_grad_norm max_grad_norm max_norm gradient_clipping gradient_clip_val"},

    /* Keys of reinforcement learning. */
    {"data.prompts", "prompt_data prompt_file prompts_file prompt_dataset"},
    {"num_generations", "group_size samples_per_prompt rollout_n n_samples_per_prompt num_return_sequences"},
    {"max_completion_length", "max_response_length max_new_tokens max_tokens response_length generate_max_len"},
    {"slots", "max_num_seqs"},
    {"filter", "filter_groups dynamic_sampling dynamic_filtering"},
    {"max_filtered", "max_num_gen_batches"},
    {"reward", "reward_funcs reward_functions rewards reward_fn"},
    {"objective.beta", "kl_loss_coef kl_coef init_kl_coef kl_beta"},
    {"objective.epsilon", "clip_ratio clip_ratio_low cliprange clip_range eps_clip epsilon_low clip_eps"},
    {"epsilon_high", "clip_ratio_high eps_clip_high"},
    {"objective.delta", "clip_ratio_c"},
    {"entropy_coef", "entropy_coeff"},
    {"objective.num_iterations", "ppo_epochs num_ppo_epochs"},
    {"mini_batches", "num_mini_batches ppo_mini_batch_size steps_per_generation"},
    {"importance_sampling", "vllm_importance_sampling_correction rollout_is"},
    {"baseline", "adv_estimator advantage_estimator"},
    {"scale_rewards", "norm_adv_by_std_in_grpo"},

    /* Keys of runs. */
    {"evaluation.every", "eval_interval eval_steps eval_every val_every interval steps"},
    {"evaluation.sequences", "eval_samples eval_sequences val_samples max_eval_samples"},
    {"batches", "eval_iters eval_batches val_max_steps iters"},
    {"stop_after", "patience early_stopping early_stopping_patience"},
    {"evaluation", "eval validation validate"},
    {"checkpoint.every", "save_interval save_steps save_every checkpoint_interval interval steps"},
    {"checkpoint.keep", "save_total_limit keep_latest_k keep_last max_to_keep"},
    {"checkpoint.best", "load_best_model_at_end save_best"},
    {"checkpoint.async", "async_save async_mode"},
    {"average", "ema swa"},
    {"precision", "dtype torch_dtype mixed_precision amp param_dtype compute_dtype"},
    {"output", "output_dir out_dir out save save_dir log_dir run_dir"},
    {"seed", "random_seed manual_seed rng_seed"},
    {"device", "accelerator device_type"},
    {"init", "load pretrained from_pretrained init_from model_name_or_path base_model finetune"},
    {"hang_timeout", "timeout distributed_timeout_minutes"},
    {"freeze", "frozen freeze_layers"},
    {"adapter", "lora peft"},
    {"adapter.rank", "r lora_r lora_rank"},
    {"adapter.alpha", "lora_alpha"},
    {"adapter.scaling", "use_rslora rslora rs_lora"},
    {"adapter.magnitude", "use_dora dora"},
    {"adapter.init", "init_lora_weights"},
    {"adapter.train", "modules_to_save lora_modules_to_save additional_trainable_modules"},
    {"adapter.from", "adapter_name_or_path lora_model_dir"},
    {"adapter.dropout", "lora_dropout"},
    {"adapter.targets", "target_modules lora_target_modules lora_target target_linear"},
    {"adapter.quantise", "quantize quantization load_in_4bit bits"},

    /* Keys of studies and clusters. */
    {"space", "parameters search_space params"},
    {"space.name", "key parameter param"},
    {"space.low", "min minimum lower from"},
    {"space.high", "max maximum upper"},
    {"space.powers", "log log_scale"},
    {"objective", "metric goal direction"},
    {"validation_loss", "loss val_loss eval_loss test_loss"},
    {"halving", "successive_halving sha asha hyperband"},
    {"node_devices", "devices_per_node gpus_per_node num_gpus"},
    {"memory_bytes", "memory device_memory hbm vram"},
    {"memory_bandwidth", "hbm_bandwidth"},
    {"peak_bf16", "peak_flops flops peak_fp16"},

    /* Options. */
    {"out", "output o output_dir out_dir output_prefix save_path to"},
    {"tokens", "max_tokens max_new_tokens max_length n_predict num_tokens length days"},
    {"samples", "num_samples num_return_sequences n"},
    {"prompt", "input text start p"},
    {"validation", "val_set_size val_split validation_split split split_ratio test_size eval_ratio"},
    {"temperature", "temp t"},
    {"repetition-penalty", "repeat_penalty"},
    {"devices", "gpus num_gpus n_gpus ngpus world_size nodes num_devices ranks"},
    {"ranks", "np nproc nproc_per_node num_ranks processes num_processes gpus num_gpus world_size"},
    {"resume", "resume_from_checkpoint load_checkpoint continue"},
    {"cluster", "machine hardware"},
    {"trials", "n_trials num_trials max_trials run_cap budget"},
    {"choices", "questions task"},
    {"preferences", "preference preference_data dpo kto pairwise"},

    /* Values. */
    {"bf16", "bfloat16 bf16_mixed fp16 float16 half fp16_mixed"},
    {"fp32", "float32 float single"},
    {"fp64", "float64 double"},
    {"gpu", "cuda hip rocm nvidia amd"},
    {"accelerator", "gpu cuda hip rocm nvidia amd"},
    {"full", "true all yes"},
    {"none", "false off no"},
    {"zero-bubble", "zb zbh1 zb_h1 ZBVZeroBubble"},
    {"interleaved", "Interleaved1F1B vpp"},
    {"gelu_erf", "gelu"},
    {"gelu_tanh", "gelu_new gelu_pytorch_tanh gelu_fast approx_gelu"},
    {"silu", "swish swiglu"},
    {"adamw", "adam fused_adam"},
    {"wsd", "warmup_stable_decay trapezoidal"},
    {"gpt2-124m", "gpt2 gpt2_small"},
    {"gpt2-1.5b", "gpt2_xl"},

    /* Commands. */
    {"train", "pretrain fit run"},
    {"prepare", "tokenize preprocess tokenise"},
    {"generate", "sample infer inference complete predict"},
    {"eval", "evaluate test score"},
    {"simulate", "estimate"},
    {"plan", "search optimize"},
    {"doctor", "check diagnose env info"},
    {"inspect", "show describe list ls"},
    {"board", "dashboard tensorboard ui"},
    {"calibrate", "benchmark bench measure profile"},
    {"compare", "diff plot"},
};

static char plain(char letter) { return letter == '-' ? '_' : (char)tolower((unsigned char)letter); }

static bool is_same(const char *a, size_t bytes, const char *b) {
  if (strlen(b) != bytes) return false;
  for (size_t i = 0; i < bytes; i++) {
    if (plain(a[i]) != plain(b[i])) return false;
  }
  return true;
}

bool tri_name_is_among(const char *word, const char *words) {
  for (size_t length; *words != '\0'; words += length + (words[length] == ' ')) {
    length = strcspn(words, " ");
    if (is_same(words, length, word)) return true;
  }
  return false;
}

bool tri_is_name_alias(const char *word, const char *name) {
  word += strspn(word, "-");
  name += strspn(name, "-");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (is_same(name, strlen(name), rows[i].name) && tri_name_is_among(word, rows[i].others)) return true;
  }
  return false;
}
