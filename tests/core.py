"""The core of the tests: of everything that is registered the cheapest cases that fail if it is broken, and some of each promise.

A case is `oracle/test_FILE.py::test_NAME[PARAMETERS]` (of tests/oracle, by pytest), the same with `guarded/` or `emulated/` (run on that
device: tests/table.py), `unit/test_FILE` (a program of tests/unit), or `comm/`, `gpu/` or `floors/` with a name of tests/table.py. One case
may serve many things. oracle/test_core.py compares this table with what the program has: a new family, optimizer, schedule, operation,
device, command or section of run files needs a line here. A case should take a second of processor time, and at most three where it can;
oracle/test_each_layout.py and oracle/test_expert_models.py are good places for more."""


def layout(name, device="oracle"):
    return f"{device}/test_each_layout.py::test_beside_one_rank[{name}]"


def stored(name):
    """Losses and gradients that transformers found."""
    return f"oracle/test_families.py::test_stored_results[{name}]"


def experts(name):
    """Losses and gradients beside plain PyTorch."""
    return f"oracle/test_expert_models.py::test_gradients[{name}]"


def steps(name):
    """Twenty steps beside an optimizer in plain PyTorch."""
    return f"oracle/test_optimizers.py::test_twenty_steps[{name}]"


OPS = "unit/test_ops"  # each operation's gradients beside difference quotients
GPT2, LLAMA = "oracle/test_parity.py::test_gradients[gpt2 tied]", "oracle/test_parity.py::test_gradients[llama 4:2 tied]"
MIXTRAL = experts("mixtral")
RUN = "oracle/test_resume.py::test_the_same_run_twice"
FOLDERS = "oracle/test_folders.py::test_there_and_back[gpt2]"
SAMPLES = "oracle/test_samples.py::test_as_generate_writes_them"

CORE = {
    "families": {
        "gpt2": [GPT2],
        "llama": [LLAMA],
        "qwen3": [experts("qwen3")],
        "mixtral": [MIXTRAL],
        "qwen3_moe": [experts("qwen3_moe")],
        "olmoe": [experts("olmoe")],
        "dots1": [experts("dots1")],
        "gemma": [stored("gemma")],
        "gemma2": [stored("gemma2")],
        "gemma3": [stored("gemma3")],
        "phi": [stored("phi")],
        "phi3": [stored("phi3")],
        "gpt_neox": [stored("gpt_neox")],
        "olmo2": [stored("olmo2")],
        "smollm3": [stored("smollm3")],
        "falcon": [stored("falcon, 7B")],
        "stablelm": [stored("stablelm")],
        "granite": [stored("granite")],
        "opt": [stored("opt")],
        "starcoder2": [stored("starcoder2")],
    },
    "optimizers": {
        "adamw": [steps("adamw, gpt2")],
        "muon": [steps("muon, gpt2")],
        "schedule_free": [steps("schedule_free, gpt2")],
        "lion": [steps("lion, gpt2")],
        "sgd": [steps("sgd, gpt2")],
        "adafactor": [steps("adafactor, llama")],
        "galore": [steps("galore, gpt2")],
        "fira": [steps("fira, gpt2")],
    },
    "schedules": {
        "gpipe": [layout("gpipe")],
        "1f1b": [layout("1f1b")],
        "interleaved": [layout("interleaved")],
        "zero-bubble": [layout("zero-bubble")],
    },
    "operations": {
        "embedding": [OPS, GPT2],
        "layer_norm": [OPS],
        "rms_norm": [OPS],
        "head_norm": [OPS],
        "linear": [OPS],
        "factors": ["oracle/test_lora.py::test_gradients_of_factors_are_products[gpt2]"],
        "magnitude": ["oracle/test_lora.py::test_twenty_steps[llama-magnitudes of some]"],
        "left by dropout": ["oracle/test_lora.py::test_dropout[True]"],
        "first factors": ["oracle/test_pissa.py::test_what_training_begins_with[llama-lora]"],
        "lora_embedding": ["oracle/test_lora_everywhere.py::test_twenty_steps[embedding]"],
        "expert factors": ["oracle/test_expert_lora.py::test_gradients[mixtral-both]"],
        "join columns": ["oracle/test_lora.py::test_frozen[llama-['*.k_proj.weight']]"],
        "rope": [OPS, LLAMA],
        "attention": [OPS, "unit/test_attention_reference"],
        "attention_gather": [layout("context-gather")],
        "attention_ring": [layout("context-ring")],
        "exchange_heads": [layout("context-heads")],
        "gelu": [OPS],
        "silu": [OPS],
        "relu": [OPS],
        "quick_gelu": [OPS],
        "relu2": [OPS],
        "mish": [OPS],
        "tanh": [OPS],
        "swiglu": [OPS],
        "geglu": [OPS],
        "reglu": [OPS],
        "quick_geglu": [OPS],
        "reglu2": [OPS],
        "mish_glu": [OPS],
        "tanh_glu": [OPS],
        "add": [OPS],
        "scale": [OPS],
        "dropout": [OPS],
        "cross_entropy": [OPS],
        "row_logits": [OPS],
        "route": [MIXTRAL],
        "dispatch": [MIXTRAL, layout("expert")],
        "arrive": [MIXTRAL, layout("expert")],
        "experts": [MIXTRAL],
        "combine": [MIXTRAL, layout("expert-room")],
        "weighted_swiglu": [MIXTRAL],
        "weighted_geglu": ["oracle/test_expert_models.py::test_other_gates[gelu_tanh]"],
        "weighted_reglu": ["oracle/test_expert_models.py::test_other_gates[relu]"],
        "weighted_quick_geglu": ["oracle/test_expert_models.py::test_other_gates[quick_gelu]"],
        "weighted_reglu2": ["oracle/test_expert_models.py::test_other_gates[relu2]"],
        "weighted_mish_glu": ["oracle/test_expert_models.py::test_other_gates[mish]"],
        "weighted_tanh_glu": ["oracle/test_expert_models.py::test_other_gates[tanh]"],
        "stage_input": [layout("1f1b")],
        "stage_output": [layout("1f1b")],
        "copy_to_tensor": [layout("tensor")],
        "reduce_from_tensor": [layout("tensor")],
        "gather_sequence": [layout("sequence-parallel")],
        "scatter_sequence": [layout("sequence-parallel")],
        "take_slice": [layout("expert-of-tensor-ranks")],
        "join_slices": [layout("expert-of-tensor-ranks")],
        "join_tensor_heads": [layout("whole-norms")],
        "part_tensor_heads": [layout("whole-norms")],
    },
    "devices": {
        "cpu": [GPT2, "oracle/test_parity.py::test_twenty_steps[llama-bf16-0.02]"],
        "reference": [GPT2],
        "gpu": ["oracle/test_gpu_driver.py::test_train[1-fp64]"],  # a driver of the test's own, whose GPU is the CPU
        "guarded": ["unit/test_guarded", "unit/test_kernel_edges", layout("zero3", "guarded"), layout("context-ring", "guarded"), layout("expert", "guarded")],
        "emulated": ["unit/test_emulator", "unit/test_emulator_faults", layout("zero3", "emulated"), layout("tensor", "emulated")],
    },
    "commands": {
        "prepare": ["oracle/test_corpus.py::test_plain_text"],
        "train": [RUN],
        "simulate": ["oracle/test_plan.py::test_bubbles[4-4-1f1b-1]"],
        "plan": ["oracle/test_plan.py::test_search_beside_brute_force[0]"],
        "tune": ["oracle/test_tune.py::test_importance_adds_up"],
        "generate": [SAMPLES],
        "eval": ["oracle/test_ensemble.py::test_mean_of_probabilities"],
        "import": [FOLDERS],
        "export": [FOLDERS],
        "merge": ["oracle/test_merge.py::test_a_weighted_mean_has_the_bits_of_torch"],
        "compare": ["oracle/test_run_messages.py::test_compared"],
        "inspect": ["oracle/test_folders.py::test_inspect[gpt2]"],
        "calibrate": ["oracle/test_plan.py::test_calibrate_and_compare"],
        "validate": ["oracle/test_validate.py::test_what_was_published"],
        "doctor": ["oracle/test_gpu_choice.py::test_doctor"],
        "board": ["oracle/test_board.py::test_runs"],
        "serve": ["oracle/test_serve.py::test_prompts_in_all_forms"],
        "new": ["oracle/test_new.py::test_the_file_runs_as_it_is[words0-corpus-there0]"],
        "help": ["oracle/test_options.py::test_help"],
    },
    "sections": {
        "model": ["unit/test_model_config", GPT2],
        "data": ["oracle/test_mixture.py::test_shares_seen_are_said"],
        "layout": [layout("tensor"), layout("zero3")],
        "optimizer": [steps("adamw, gpt2"), "unit/test_learning_rate", "oracle/test_learning_rate.py::test_cosine[0.0-500-50]"],
        "average": ["oracle/test_average.py::test_beside_torch[ema-adamw]"],
        "evaluation": ["oracle/test_early_stop.py::test_the_rule"],
        "checkpoint": ["oracle/test_early_stop.py::test_the_best_is_a_model"],
        "samples": [SAMPLES],
        "rollout": ["oracle/test_reinforcement.py::test_mini_batches_are_parts_of_a_batch", "oracle/test_reinforcement.py::test_what_a_run_writes[fp64]"],
        "adapter": ["oracle/test_lora.py::test_gradients_of_factors_are_products[gpt2]"],
        "objective": ["oracle/test_preference_training.py::test_ten_steps[dpo-fp64]", "oracle/test_preference_training.py::test_ten_steps[kto-fp64]",
                      "oracle/test_preference_training.py::test_the_engine[dpo]", "oracle/test_preference_training.py::test_first_rewards_are_zero[tensor=2, fp32-dpo]",
                      "oracle/test_preference_runs.py::test_killed_and_gone_on[dpo]"],
    },
    "promises": {
        "recompute": ["oracle/test_recompute.py::test_one_rank[olmo2]"],
        "layouts": [layout(name) for name in (
            "tensor", "sequence-parallel", "1f1b", "interleaved", "data", "zero1", "zero2", "zero3", "full-recompute", "selective-recompute",
            "norms-behind-full-recompute", "norms-behind-selective-recompute",
            "context-gather", "context-heads", "context-ring", "expert", "expert-tensor", "expert-of-tensor-ranks", "expert-recompute",
            "expert-room", "whole-norms", "masked-documents")],
        "resume": ["oracle/test_resume.py::test_interrupt_and_go_on", "oracle/test_average.py::test_taken_up_under_another_layout"],
        "checkpoints": ["unit/test_checkpoint", "oracle/test_checkpoints.py::test_files", "oracle/test_checkpoints.py::test_checksums",
                        "oracle/test_resume.py::test_resume_passes_over_a_bad_checkpoint", "oracle/test_safetensors.py::test_they_read_what_we_write"],
        "kills": ["unit/test_checkpoint_crash", "unit/test_checkpoint_sync", "oracle/test_resume.py::test_kill_at_random_moments[0]", "oracle/test_ranks.py::test_kill_a_rank[0]",
                  "oracle/test_damaged_checkpoints.py::test_interrupted_rename[before the rename]"],
        "errors": ["oracle/test_printed_commands.py::test_messages_name_what_there_is",
                   "oracle/test_bad_input.py::test_run_file", "oracle/test_bad_input.py::test_command_line", "unit/test_status", "unit/test_yaml",
                   "unit/test_config", "unit/test_tokenizer_errors"],
        "memory": ["oracle/test_resume.py::test_summary_predicts_memory", "unit/test_memory_plan", "unit/test_peak", "unit/test_device_memory",
                   "oracle/test_optimizers.py::test_memory[adamw-fp32]"],
        "simulate": ["unit/test_price", "unit/test_measured", "unit/test_context_price", "unit/test_ranges", "unit/test_timeline",
                     "oracle/test_instructions.py::test_categories[one-stage-tied]", "oracle/test_instructions.py::test_categories[two-stages-tied]"],
        "the fastest layout": ["oracle/test_plan_tuned.py::test_best_of_all[['optimizer.state=int8', 'optimizer.embeddings.name=sgd']]"],
        "determinism": [RUN, "unit/test_exact_sum", "unit/test_sums", "unit/test_buckets"],
        "tokenizers": ["unit/test_tokenizer", "oracle/test_tokenizer_hf.py::test_same_ids_for_generated_text[gpt2]",
                       "oracle/test_tokenizer_families.py::test_same_ids_and_text_for_generated_text[gemma]"],
        "corpora": ["unit/test_corpus", "unit/test_source", "unit/test_prepare", "unit/test_packing", "unit/test_json_line",
                    "oracle/test_corpus.py::test_json_lines",
                    "oracle/test_documents.py::test_masked_windows[token]",
                    "oracle/test_documents.py::test_packed_is_each_document_alone[mixed-llama]", "oracle/test_chat.py::test_mask"],
        "generation": ["oracle/test_parity.py::test_logits_through_the_cache[gpt2 tied]", "unit/test_sampling", "unit/test_text_generator", "unit/test_scheduler", "unit/test_block_weights", "oracle/test_block_weights.py::test_cpu[llama-q8_0]", "unit/test_attention_pages",
                       *(f"oracle/test_families.py::test_generation[{name}]" for name in ("gpt2", "llama", "gemma3", "phi3", "mixtral"))],
        "adapters": ["oracle/test_lora.py::test_twenty_steps[llama-q and v]", "oracle/test_lora.py::test_dropout[True]", "oracle/test_lora.py::test_merged[gpt2]", "unit/test_peft", "unit/test_nf4"],
        "golden runs": ["oracle/test_golden.py::test_golden[one-rank]", "oracle/test_golden.py::test_golden[zero3-interleaved]"],
        "communication": ["unit/test_collectives", "comm/ranks-2", "comm/ranks-3", "comm/exchange-2-0", "comm/mismatch"],
        "floors": ["floors/tree", "floors/planted", "floors/includes", "floors/includes-planted", "floors/plan-links"],
        "library": ["unit/test_api"],
        "Hugging Face": [FOLDERS, "unit/test_huggingface", "oracle/test_families.py::test_there_and_back[gpt_neox]"],
        "dying ranks": ["unit/test_launcher_messages", "unit/test_cause", "unit/test_flight_recorder"],
        "one step": ["unit/test_executor", "unit/test_verbs", "unit/test_mesh", "unit/test_expert_rows"],
    },
}

CASES = {case for rows in CORE.values() for cases in rows.values() for case in cases}


def has(name):
    """Whether a case is of the core."""
    return name in CASES
