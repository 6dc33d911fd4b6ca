"""Which tests a change touches: from folders of the tree to the tests that say most about what is in them.

    touched_by("src/checkpoint/save.c")     the patterns for a changed file

Patterns are fnmatch's, over these names:

    unit/test_x         a program of tests/unit/test_x.c
    oracle/test_x.py    a file of tests/oracle
    guarded/test_x.py   the same on the guarded device, as far as the suite of this name in tests/table.py has it
    emulated/test_x.py  the same on the emulated GPU
    comm/x, gpu/x, floors/x    programs of tests/table.py

Of the keys, the longest that is the file's path or begins it counts. The table has no unit tests: a unit test belongs to the folders
whose headers it includes (unit_touches). It names the few tests that would show most mistakes in a folder first, not all tests that
run its lines: every oracle test runs src/base.
"""

import functools
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parent

# Headers that unit tests build their inputs with: a test that includes one is not about it, unless it includes nothing else.
INPUT_HEADERS = {"files/file.h", "mesh/label.h", "base/memory.h", "mesh/parts.h", "base/random.h"}

TOUCHES = {
    # A folder that has no entry of its own yet.
    "src": ["oracle/test_touches.py", "floors/*"],
    "src/api": ["oracle/test_install.py"],
    "src/files/hub.c": ["oracle/test_hub_cache.py"],
    "src/base": ["oracle/test_bad_input.py", "oracle/test_extreme_numbers.py", "oracle/test_options.py"],
    "src/llamacpp": ["oracle/test_gguf.py", "oracle/test_gguf_models.py"],
    "src/gguf": ["oracle/test_gguf.py"],
    "src/files": ["oracle/test_bad_input.py", "oracle/test_foreign_files.py", "oracle/test_folders.py"],
    "src/config/template_preset.c": ["oracle/test_templates.py"],
    "src/config": ["oracle/test_other_programs.py", "oracle/test_newcomers.py", "oracle/test_bad_input.py", "oracle/test_extreme_numbers.py", "oracle/test_options.py"],
    "src/board": ["oracle/test_board.py", "oracle/test_board_metrics.py"],
    "src/http": ["oracle/test_board.py", "oracle/test_serve.py", "oracle/test_serve_load.py"],
    "src/serve": ["oracle/test_serve.py", "oracle/test_serve_load.py", "oracle/test_serve_bits.py", "oracle/test_serve_failures.py", "oracle/test_serve_special.py"],
    "src/chat": ["oracle/test_chat.py", "oracle/test_templates.py", "oracle/test_reinforcement_input.py", "oracle/test_forms.py", "oracle/test_preference_data.py", "oracle/test_chat_functions.py", "oracle/test_generate.py", "oracle/test_show.py"],
    "src/checkpoint": [
        "oracle/test_checkpoints.py", "oracle/test_bad_weights_everywhere.py", "oracle/test_damaged_checkpoints.py", "oracle/test_folders.py",
        "oracle/test_safetensors.py", "oracle/test_four_bits.py", "oracle/test_extra_files.py", "oracle/test_merge.py", "oracle/test_peft_folders.py",
        "oracle/test_model_folder.py", "oracle/test_ties.py", "oracle/test_peft_ties.py", "oracle/test_peft_everywhere.py", "oracle/test_pissa.py", "oracle/test_hub_cache.py", "oracle/test_run_notes.py", "oracle/test_foreign_files.py",
        "oracle/test_config_keys.py", "oracle/test_public_reports.py", "oracle/test_run_reports.py", "oracle/test_stale_folders.py", "oracle/test_resume.py", "oracle/test_optimizer_resume.py", "guarded/test_checkpoints.py",
        "guarded/test_bad_weights_everywhere.py"],
    "src/cli": [
        "oracle/test_newcomers.py", "oracle/test_options.py", "oracle/test_bad_input.py", "oracle/test_run_messages.py", "oracle/test_golden.py",
        "oracle/test_man_examples.py", "oracle/test_printed_commands.py", "oracle/test_device_range.py", "oracle/test_without_running.py",
        "oracle/test_generate.py", "oracle/test_ensemble.py", "oracle/test_merge.py", "oracle/test_bits_per_byte.py",
        "oracle/test_eval_preferences.py"],
    "src/comm": [
        "comm/*", "oracle/test_launch.py", "oracle/test_launchers.py", "oracle/test_ranks.py", "oracle/test_two_hosts.py",
        "oracle/test_layouts.py", "guarded/test_ranks.py"],
    "src/data": [
        "oracle/test_corpus.py", "oracle/test_corpus_identity.py", "oracle/test_documents.py", "oracle/test_mixture.py", "oracle/test_forms.py", "oracle/test_preference_data.py", "oracle/test_epochs.py",
        "oracle/test_label_weights.py", "oracle/test_resume.py", "oracle/test_characters.py"],
    "src/device/activation.h": [
        "oracle/test_parity.py", "oracle/test_expert_models.py", "oracle/test_core.py", "oracle/test_extension_guides.py"],
    "src/device": [
        "oracle/test_attention.py", "oracle/test_parity.py", "oracle/test_device_faults.py", "oracle/test_gpu_choice.py",
        "oracle/test_gemm_choices.py", "oracle/test_bf16_copies.py", "oracle/test_nf4.py", "guarded/test_parity.py", "emulated/test_parity.py",
        "gpu/kernel-check-*"],
    "src/device/cpu": [
        "oracle/test_attention.py", "oracle/test_parity.py", "oracle/test_generator.py", "oracle/test_expert_models.py",
        "oracle/test_nf4.py"],
    "src/device/gpu": [
        "gpu/*", "oracle/test_gpu_driver.py", "oracle/test_gpu_hip.py", "oracle/test_gpu_choice.py", "oracle/test_device_faults.py",
        "oracle/test_gemm_choices.py", "oracle/test_bf16_copies.py", "oracle/test_kernel_check.py", "oracle/test_without_vendors.py",
        "oracle/test_attention.py", "emulated/*"],
    "src/device/emulated": ["gpu/*", "oracle/test_gpu_choice.py", "oracle/test_device_faults.py", "oracle/test_kernel_check.py", "emulated/*"],
    "src/device/kinds": ["oracle/test_program_for_tests.py", "oracle/test_kernel_check.py"],
    "src/device/guarded": ["guarded/*", "oracle/test_attention.py", "comm/exchange-*"],
    "src/device/preference.h": ["oracle/test_preference_losses.py", "oracle/test_preference_layouts.py", "oracle/test_preference_training.py"],
    "src/device/completions.h": ["oracle/test_preference_training.py", "oracle/test_preference_layouts.py"],
    "src/device/reference": [
        "oracle/test_attention.py", "oracle/test_parity.py", "oracle/test_expert_models.py", "oracle/test_nf4.py",
        "oracle/test_optimizers.py", "gpu/kernel-check-*"],
    "src/engine": [
        "oracle/test_layouts.py", "oracle/test_parity.py", "oracle/test_generator.py", "oracle/test_generate.py",
        "oracle/test_average.py", "oracle/test_bf16_copies.py", "oracle/test_experts.py", "oracle/test_context.py",
        "oracle/test_optimizer_layouts.py", "guarded/test_layouts.py", "guarded/test_parity.py", "emulated/test_layouts.py"],
    "src/weights": [
        "oracle/test_layouts.py", "oracle/test_parity.py", "oracle/test_generator.py", "oracle/test_generate.py",
        "oracle/test_average.py", "oracle/test_bf16_copies.py", "oracle/test_experts.py", "oracle/test_context.py",
        "oracle/test_optimizer_layouts.py", "guarded/test_layouts.py", "guarded/test_parity.py", "emulated/test_layouts.py"],
    "src/generation": ["oracle/test_other_defaults.py", "oracle/test_generator.py", "oracle/test_generate.py", "oracle/test_families.py", "oracle/test_choices.py", "oracle/test_samples.py",
        "oracle/test_samples_adapters.py", "oracle/test_generate_ranks.py", "oracle/test_eval_ranks.py"],
    "src/rollout": ["comm/held-samples-*", "oracle/test_advantages.py", "oracle/test_bandit.py", "oracle/test_reinforcement.py", "oracle/test_reinforcement_input.py", "oracle/test_reinforcement_layouts.py", "oracle/test_policy_layouts.py"],
    "src/reward": ["oracle/test_reward_oracles.py", "oracle/test_choices.py"],
    "src/judge": ["oracle/test_choices.py", "oracle/test_ensemble.py"],
    "src/launch": ["oracle/test_launch.py", "oracle/test_launchers.py", "oracle/test_ranks.py", "oracle/test_two_hosts.py"],
    "src/mesh": ["oracle/test_layouts.py", "oracle/test_context.py", "oracle/test_experts.py", "oracle/test_documents.py"],
    "src/model": [
        "oracle/test_recompute.py",
        "oracle/test_families.py", "oracle/test_config_keys.py", "oracle/test_config_defaults.py", "oracle/test_parity.py", "oracle/test_expert_models.py", "oracle/test_model_folder.py",
        "oracle/test_lora.py", "oracle/test_lora_everywhere.py", "oracle/test_pissa.py", "oracle/test_extension_guides.py", "oracle/test_folders.py", "oracle/test_refused_there.py"],
    "src/model/preference_losses.c": ["oracle/test_preference_losses.py", "oracle/test_preference_training.py"],
    "src/model/objective.c": ["oracle/test_preference_layouts.py", "oracle/test_preference_training.py", "oracle/test_each_layout.py"],
    "src/model/objective_config.c": ["oracle/test_preference_runs.py", "oracle/test_preference_training.py", "oracle/test_bad_input.py", "oracle/test_plan.py"],
    "src/ops": [
        "oracle/test_expert_lora.py",
        "oracle/test_parity.py", "oracle/test_recompute.py", "oracle/test_each_layout.py", "oracle/test_families.py", "oracle/test_context.py", "oracle/test_experts.py",
        "oracle/test_expert_models.py", "oracle/test_lora.py", "oracle/test_lora_everywhere.py", "oracle/test_pissa.py", "oracle/test_layouts.py", "guarded/test_context.py",
        "guarded/test_experts.py", "emulated/test_context.py", "emulated/test_experts.py"],
    "src/options": ["oracle/test_options.py", "oracle/test_plan.py", "oracle/test_plan_page.py", "oracle/test_device_range.py", "oracle/test_install.py"],
    "src/optimizers": ["oracle/test_optimizers.py", "oracle/test_optimizer_*.py", "oracle/test_average.py", "oracle/test_extension_guides.py"],
    "src/plan": [
        "oracle/test_plan.py", "oracle/test_plan_*.py", "oracle/test_validate.py", "oracle/test_costs.py", "oracle/test_network.py",
        "oracle/test_step_prices.py", "oracle/test_instructions.py", "oracle/test_device_range.py", "oracle/test_without_running.py"],
    "src/recovery": ["oracle/test_optimizer_resume.py", "oracle/test_templates.py", "oracle/test_extra_files.py",
        "oracle/test_resume.py", "oracle/test_ranks.py", "oracle/test_damaged_checkpoints.py", "oracle/test_divergence.py", "oracle/test_output.py",
        "guarded/test_resume.py", "guarded/test_ranks.py"],
    "src/page": ["oracle/test_plan_page.py", "oracle/test_run_messages.py", "oracle/test_tune.py"],
    "src/report": ["oracle/test_profile.py", "oracle/test_run_messages.py", "oracle/test_preference_runs.py", "oracle/test_newcomers.py", "oracle/test_tensorboard.py", "oracle/test_follow_metrics.py", "oracle/test_ranks.py"],
    "src/run": ["oracle/test_output.py", "oracle/test_epochs.py", "oracle/test_bad_input.py", "oracle/test_extreme_numbers.py", "oracle/test_golden.py"],
    "src/schedule": [
        "oracle/test_layouts.py", "oracle/test_golden.py", "oracle/test_instructions.py", "oracle/test_parity.py",
        "oracle/test_plan.py", "oracle/test_optimizer_layouts.py", "guarded/test_layouts.py", "emulated/test_layouts.py"],
    "src/timeline": ["oracle/test_instructions.py", "oracle/test_plan.py", "oracle/test_ranks.py"],
    "src/tokenizer": ["oracle/test_tokenizer_*.py", "oracle/test_characters.py", "oracle/test_corpus_identity.py", "oracle/test_unicode_classes.py"],
    "src/train": [
        "oracle/test_resume.py", "oracle/test_learning_rate.py", "oracle/test_divergence.py", "oracle/test_early_stop.py",
        "oracle/test_samples.py", "oracle/test_output.py", "oracle/test_gemm_choices.py", "oracle/test_golden.py", "oracle/test_expert_runs.py",
        "oracle/test_ranks.py", "oracle/test_run_messages.py", "guarded/test_resume.py"],
    "src/data/prompt_source.c": ["oracle/test_reinforcement_input.py"],
    "src/model/policy_config.c": ["oracle/test_reinforcement_input.py", "oracle/test_reinforcement.py"],
    "src/run/rollout_keys.c": ["oracle/test_reinforcement_input.py", "oracle/test_reinforcement.py"],
    "src/train/reinforcement.c": ["oracle/test_reinforcement.py", "oracle/test_advantages.py", "oracle/test_bandit.py"],
    "src/train/reinforcement_metrics.c": ["oracle/test_reinforcement.py", "oracle/test_bandit.py"],
    "src/train/reinforcement_rewards.c": ["oracle/test_reinforcement.py"],
    "src/train/reward_validation.c": ["oracle/test_reinforcement.py"],
    "src/train/rollout_groups.c": ["oracle/test_reinforcement.py"],
    "src/train/rollout_ranks.c": ["oracle/test_reinforcement.py", "oracle/test_generate_ranks.py"],
    "src/train/rollout_record.c": ["oracle/test_reinforcement.py"],
    "src/data/preference_source.c": ["oracle/test_preference_training.py", "oracle/test_preference_runs.py", "oracle/test_preference_layouts.py"],
    "src/data/preference_sums.c": ["oracle/test_eval_preferences.py", "oracle/test_preference_training.py"],
    "src/engine/send_weights.c": ["oracle/test_samples.py", "oracle/test_samples_adapters.py"],
    "src/engine/model_files.c": ["oracle/test_samples_adapters.py", "oracle/test_generate_ranks.py", "oracle/test_eval_ranks.py"],
    "src/ops/cross_entropy.c": ["oracle/test_policy_losses.py", "oracle/test_bandit.py", "oracle/test_policy_layouts.py", "oracle/test_preference_layouts.py", "oracle/test_layouts.py", "oracle/test_parity.py"],
    "src/engine/verbs.c": ["oracle/test_any_batch.py"],
    "src/engine/log_probs.c": ["oracle/test_policy_layouts.py", "oracle/test_preference_layouts.py", "oracle/test_preference_training.py"],
    "src/train/preference.c": ["oracle/test_preference_*.py"],
    "src/train/preference_data.c": ["oracle/test_preference_*.py"],
    "src/train/reference.c": ["oracle/test_preference_training.py", "oracle/test_preference_runs.py"],
    "src/tokenizer/folder.c": ["oracle/test_text_ends.py", "oracle/test_chat.py", "oracle/test_generate.py"],
    "src/tune": ["oracle/test_tune.py", "oracle/test_tune_settings.py", "oracle/test_newcomers.py", "oracle/test_suggest.py", "oracle/test_plan_tuned.py", "guarded/test_tune.py"],

    # Files that are built, installed and shown in addition to the program.
    "CMakeLists.txt": ["oracle/test_install.py", "oracle/test_without_running.py", "oracle/test_docs_site.py", "floors/*"],
    "README.md": ["oracle/test_printed_commands.py", "oracle/test_docs_site.py"],
    "cmake": ["oracle/test_install.py", "oracle/test_without_running.py", "oracle/test_without_vendors.py", "floors/*"],
    "cmake/docs.cmake": ["oracle/test_docs_site.py", "oracle/test_install.py"],
    "configs": [
        "oracle/test_printed_commands.py", "oracle/test_man_examples.py", "oracle/test_install.py", "oracle/test_extreme_numbers.py",
        "oracle/test_options.py", "oracle/test_plan.py"],
    "configs/published": ["oracle/test_validate.py", "oracle/test_plan.py"],
    "configs/published.yaml": ["oracle/test_validate.py", "oracle/test_plan.py"],
    "configs/templates": ["oracle/test_templates.py", "oracle/test_install.py"],
    "configs/studies": ["oracle/test_tune.py", "oracle/test_man_examples.py", "oracle/test_extreme_numbers.py"],
    "debian": ["oracle/test_install.py"],
    "docs": ["oracle/test_docs_site.py", "oracle/test_printed_commands.py"],
    "docs/adding-a-cluster.md": ["oracle/test_extension_guides.py", "oracle/test_docs_site.py"],
    "docs/adding-an-activation.md": ["oracle/test_extension_guides.py", "oracle/test_docs_site.py"],
    "docs/adding-an-optimizer.md": ["oracle/test_extension_guides.py", "oracle/test_docs_site.py"],
    "docs/families.md": ["oracle/test_families.py", "oracle/test_docs_site.py", "oracle/test_printed_commands.py"],
    "docs/preferences.md": ["oracle/test_preference_pages.py", "oracle/test_docs_site.py"],
    "docs/validation.md": ["oracle/test_plan.py", "oracle/test_docs_site.py", "oracle/test_printed_commands.py"],
    "examples": ["oracle/test_install.py", "oracle/test_docs_site.py"],
    "src/cli/running/compare.c": ["oracle/test_run_messages.py", "oracle/test_preference_runs.py"],
    "src/report/differing_keys.c": ["oracle/test_run_messages.py"],
    "src/cli/running/eval.c": ["oracle/test_eval_limit.py", "oracle/test_options.py"],
    "src/cli/running/eval_weights.c": ["oracle/test_block_weights.py"],
    "src/cli/running/model_options.c": ["oracle/test_block_weights.py", "oracle/test_options.py"],
    "src/device/block_weights.h": ["oracle/test_block_weights.py", "oracle/test_gguf.py"],
    "src/device/cpu/kernels/blocks.c": ["oracle/test_block_weights.py"],
    "src/engine/block_loader.c": ["oracle/test_block_weights.py"],
    "src/engine/model_options.c": ["oracle/test_block_weights.py"],
    "src/train/run_facts.c": ["oracle/test_dry_run.py"],
    "src/train/dry_run.c": ["oracle/test_dry_run.py", "oracle/test_golden.py", "oracle/test_lora.py", "oracle/test_samples.py"],
    "src/chat/key_map.c": ["oracle/test_preference_data.py"],
    "src/chat/preference_dialects.c": ["oracle/test_preference_data.py"],
    "src/cli/running/written_folder.c": ["oracle/test_merge.py"],
    "src/run/run_length.c": ["oracle/test_epochs.py", "oracle/test_tune_settings.py", "oracle/test_learning_rate.py"],
    "src/cli/running/new.c": ["oracle/test_new.py", "oracle/test_options.py", "oracle/test_newcomers.py", "oracle/test_preference_data.py"],
    "examples/reinforcement": ["oracle/test_reinforcement_pages.py", "oracle/test_docs_site.py"],
    "examples/preferences": ["oracle/test_preference_pages.py", "oracle/test_docs_site.py"],
    "examples/finetuning": ["oracle/test_finetuning.py", "oracle/test_docs_site.py"],
    "configs/runs": ["oracle/test_finetuning.py", "oracle/test_man_examples.py"],
    "docs/finetuning.md": ["oracle/test_finetuning.py", "oracle/test_docs_site.py"],
    "docs/preferences.md": ["oracle/test_preference_pages.py", "oracle/test_docs_site.py"],
    "docs/reinforcement.md": ["oracle/test_reinforcement_pages.py", "oracle/test_docs_site.py"],
    "examples/follow_metrics.py": ["oracle/test_follow_metrics.py"],
    "include": ["oracle/test_install.py", "oracle/test_docs_site.py"],
    "packaging": ["oracle/test_install.py"],
    "scripts": [],
    "scripts/docs.sh": ["oracle/test_docs_site.py"],
    "scripts/flux": ["oracle/test_batch_scripts.py"],
    "scripts/gpu-check.sh": ["gpu/gpu-check-emulated"],
    "scripts/pbs": ["oracle/test_batch_scripts.py"],
    "scripts/slurm": ["oracle/test_batch_scripts.py"],

    # Files shared by several tests. The runner handles a test's own file.
    "tests/CMakeLists.txt": ["floors/*", "oracle/test_touches.py", "oracle/test_runner.py"],
    "tests/comm": ["comm/*"],
    "tests/floors": ["floors/*"],
    "tests/golden": ["oracle/test_golden.py"],
    "tests/gpu": [
        "gpu/*", "oracle/test_gpu_driver.py", "oracle/test_gpu_hip.py", "oracle/test_kernel_check.py", "oracle/test_without_vendors.py"],
    "tests/core.py": ["oracle/test_core.py", "oracle/test_runner.py"],
    "tests/costs.json": ["oracle/test_runner.py"],
    "tests/run.py": ["oracle/test_runner.py"],
    "tests/runner": ["oracle/test_runner.py"],
    "tests/table.py": ["oracle/test_runner.py", "oracle/test_touches.py"],
    "tests/touches.py": ["oracle/test_touches.py", "oracle/test_runner.py"],
}


@functools.cache
def folders_of_unit_test(path):
    """The folders of headers that a file of tests/unit includes, itself or through a header of the tests' own: {"src/plan", ...}."""
    folders = set()
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
        own = [folder / name for folder in (path.parent, TESTS / "gpu") if (folder / name).is_file()]
        if own:
            # A test does not test the functions that build its input: nearly all tests need some from src/base.
            folders |= folders_of_unit_test(own[0]) - {"src/base"}
        elif name.startswith("trireme/"):
            folders.add("include/trireme")
        elif name not in INPUT_HEADERS:
            folders.add("src/" + name.rpartition("/")[0])
    if not folders and path.suffix == ".c":
        folders.add("src/base")
    # device/kernels.h is every device's, unless the test is about one; the reference device is what others are compared with.
    return {folder for folder in folders if not any(other.startswith(folder + "/") and other != "src/device/reference" for other in folders)}


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def unit_touches(source_folder):
    """The unit tests that include headers of this folder, of one in it, or of one around it."""
    return ["unit/" + path.stem for path in sorted((TESTS / "unit").glob("test_*.c"))
            if any(within(folder, source_folder) or within(source_folder, folder) for folder in folders_of_unit_test(path))]


def touched_by(path):
    """The patterns of a changed file, by its path in the tree; None where the table knows nothing of it."""
    keys = [key for key in TOUCHES if within(path, key)]
    if not keys:
        return None
    folder = path.rpartition("/")[0]
    unit = unit_touches(folder) if within(folder, "src") and folder != "src" or within(folder, "include") else []
    return unit + TOUCHES[max(keys, key=len)]


def users_of(path):
    """Returns the tests that name a file that tests share."""
    file = pathlib.PurePosixPath(path)
    if file.parent.name == "unit":
        return [f"unit/{test.stem}" for test in (TESTS / "unit").glob("test_*.c") if f'#include "{file.name}"' in test.read_text()]
    pattern = re.compile(rf"\b{re.escape(file.name if file.suffix in ('.json', '.txt') else file.stem)}\b")
    return [f"*/{test.name}" for test in (TESTS / "oracle").glob("test_*.py") if pattern.search(test.read_text())]


def tests_of(path):
    """Returns the tests of a file below tests/: itself, if it is a test, else the tests that use it."""
    file = pathlib.PurePosixPath(path)
    if file.name.startswith("test_"):
        return [f"unit/{file.stem}"] if file.suffix == ".c" else [f"*/{file.name}"]
    return users_of(path) if file.parent.name in ("unit", "oracle") else []


def patterns_of(files):
    """The patterns of all changed files, without doubles."""
    out = set()
    for file in files:
        out.update(touched_by(file) or [])
        if file.startswith("tests/"):
            out.update(tests_of(file))
    return sorted(out)
