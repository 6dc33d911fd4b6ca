"""What files and scripts of transformers and TRL leave out means what it means there, or Trireme says that it differs:
other_defaults.json, which make_other_defaults.py wrote, has the defaults of transformers 5.24 and TRL 1.16."""
import json
import pathlib
import re

import pytest
import test_text_ends as ends
import test_tokenizer_class as classes
from parity import trireme
from test_ties import made  # noqa: F401

STORED = json.loads((pathlib.Path(__file__).parent / "other_defaults.json").read_text())
TYPES = STORED["types"]

# ---- generation_config.json ----------------------------------------------------------------------------------------

# Keys that `generate` obeys, with a value other than the default.
OBEYED = dict(do_sample=True, temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, repetition_penalty=1.5, max_new_tokens=5, max_length=9, eos_token_id=1)
# Keys that do not change which tokens one text has: how beams are ranked (beams are named), speed, memory, what else is returned.
NO_EFFECT = """_from_model_config assistant_confidence_threshold assistant_early_exit assistant_ensemble_weight assistant_lookbehind bos_token_id cache_config
cache_implementation compile_config continuous_batching_config decoder_start_token_id disable_compile diversity_penalty early_stopping is_assistant
length_penalty low_memory max_cache_len max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule output_attentions output_hidden_states
output_logits output_scores pad_token_id prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values renormalize_logits return_dict_in_generate
speculation_type target_lookbehind transformers_version use_cache use_mtp""".split()
# A value other than the default of each key that is named in a warning.
NAMED = dict(bad_words_ids=[[1]], begin_suppress_tokens=[1], constraints=[1], dola_layers="low", encoder_no_repeat_ngram_size=2, encoder_repetition_penalty=1.5,
             epsilon_cutoff=0.1, eta_cutoff=0.1, exponential_decay_length_penalty=[1, 1.1], force_words_ids=[[1]], forced_bos_token_id=0,
             forced_eos_token_id=0, guidance_scale=2, max_time=1.5, min_length=3, min_new_tokens=3, no_repeat_ngram_size=2, num_beam_groups=2, num_beams=2,
             num_return_sequences=2, penalty_alpha=0.6, sequence_bias=[[[1], 2.0]], stop_strings=["a"], suppress_tokens=[1], token_healing=True, top_h=0.5,
             typical_p=0.5, watermarking_config=dict(bias=2.5))
PROMPT = ("--prompt", "ab", "--ignore-end", "--seed", 3)


def said_of(model, **settings):
    (model / "generation_config.json").write_text(json.dumps(settings))
    try:
        return trireme("generate", model, *PROMPT, "--tokens", 2, "--json")
    finally:
        (model / "generation_config.json").unlink()


def test_generation_keys(made):  # noqa: F811
    """Every key of GenerationConfig is obeyed, without effect, or named in a warning; the defaults are not."""
    model = made / "tied"
    assert sorted([*OBEYED, *NO_EFFECT, *NAMED]) == STORED["generation"]["keys"]
    named = said_of(model, **NAMED).stderr
    assert [key for key in NAMED if f"`{key}`" not in named] == []
    assert "texts differ from transformers'" in named
    assert "not done here" not in said_of(model, **STORED["generation"]["defaults"]).stderr
    assert "not done here" not in said_of(model, **dict.fromkeys(STORED["generation"]["keys"])).stderr


def test_defaults_of_drawing(made):  # noqa: F811
    """With do_sample alone, texts are those of the class's defaults written out."""
    model = made / "tied"
    defaults = STORED["generation"]["defaults"]
    assert said_of(model, do_sample=True).stdout == said_of(model, **{**defaults, "do_sample": True}).stdout
    words = [f"--{key.replace('_', '-')}={defaults[key]}" for key in ("temperature", "top_k", "top_p", "repetition_penalty")]
    assert said_of(model, do_sample=True).stdout == trireme("generate", model, *PROMPT, "--tokens", 2, "--json", *words).stdout


def test_lengths(made):  # noqa: F811
    """max_length counts the prompt, and is used where neither --tokens nor max_new_tokens is; halves of tokens are refused."""
    model = made / "tied"

    def tokens(settings, *more):
        (model / "generation_config.json").write_text(json.dumps(settings))
        done = trireme("generate", model, "--prompt", "abcd", "--ignore-end", "--json", *more)
        return json.loads(done.stdout)["tokens"], done.stderr

    try:
        number, said = tokens(dict(max_length=9))
        assert number == 5 and "as the folder's generation_config.json has it: max_length 9\n" in said
        assert tokens(dict(max_length=9, max_new_tokens=7))[0] == 7
        assert tokens(dict(max_length=9), "--tokens", 8)[0] == 8
        for settings, status, words in ((dict(max_length=4), 2, "a prompt of 4 tokens leaves nothing of max_length, 4 in the folder's generation_config.json"),
                                        (dict(max_new_tokens=3.5), 4, "`max_new_tokens` must be a whole number from 0 to 16777216"),
                                        (dict(top_k=2.5), 4, "`top_k` must be a whole number"), (dict(max_length=-1), 4, "`max_length` must be a whole number")):
            (model / "generation_config.json").write_text(json.dumps(settings))
            assert words in trireme("generate", model, "--prompt", "abcd", status=status).stderr
    finally:
        (model / "generation_config.json").unlink()


# ---- tokenizer_config.json -----------------------------------------------------------------------------------------


def class_said(path, model_type, named):
    """The class whose way of cutting differs from the folder's, as `prepare` says it; None if it says nothing."""
    folder = classes.write_folder(path / "tokenizer", "digits of bytes", model_type, dict(tokenizer_class=named) if named else {})
    (path / "text.txt").write_text("ab\n")
    said = trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", path / "corpus", path / "text.txt").stderr
    return said.split("asks for ")[1].split(":")[0] if "asks for " in said else None


@pytest.mark.parametrize("named", TYPES)
def test_class_of_model_type(tmp_path, named):
    """Each model_type that AutoTokenizer knows, beside a tokenizer.json that no class makes, with and without a class in tokenizer_config.json."""
    stored = TYPES[named]
    # One type of each kind, except without a class, where each type may have its own.
    types = stored if named == "None" else {repr([column.get(t) for column in TYPES.values()]): t for t in stored}.values()
    faults = []
    for model_type in types:
        path = tmp_path / model_type.replace("/", "-")
        path.mkdir()
        found = class_said(path, model_type, None if named == "None" else named)
        if found != stored[model_type]:
            faults.append((model_type, found, stored[model_type]))
    assert not faults


@pytest.mark.parametrize("name", STORED["classes"])
def test_what_a_class_has(tmp_path, name):
    """The normalizer and pre-tokenizer of each class cause no warning, and tokens that no file names are the class's own."""
    stored = STORED["classes"][name]
    document = {**ends.tokenizer_json(), "normalizer": stored["normalizer"], "pre_tokenizer": stored["pre_tokenizer"], "added_tokens": []}
    letters = {chr(32 + i): i for i in range(95)} | {"\u2581": 95}
    if "ByteLevel" not in json.dumps(stored["pre_tokenizer"]):
        document["decoder"], document["model"]["vocab"], document["model"]["unk_token"] = None, letters, " "
    letter_of = {i: letter for letter, i in document["model"]["vocab"].items()}
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(document))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class=name)))
    keys = list(stored["tokens"])
    (tmp_path / "template.jinja").write_text("{% for m in messages %}" + "|".join(f"{{{{ {key} or '' }}}}" for key in keys) + "{{ m.content }}{% endfor %}")
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="!")])) + "\n")
    done = trireme("prepare", "--chat", "--chat-template", tmp_path / "template.jinja", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus",
                   tmp_path / "chat.jsonl")
    assert "asks for" not in done.stderr
    written = "".join(letter_of[i] for i in ends.tokens_of(tmp_path / "corpus/train")).lstrip("\u2581")
    assert written.startswith("|".join(stored["tokens"][key] or "" for key in keys) + "!")


# ---- TRL's configs --------------------------------------------------------------------------------------------------

OWN_KEYS = {"beta": "objective.beta", "label_smoothing": "objective.label_smoothing", "simpo_gamma": "objective.simpo_gamma", "cpo_alpha": "objective.cpo_alpha",
            "discopop_tau": "objective.discopop_tau", "desirable_weight": "objective.desirable_weight", "undesirable_weight": "objective.undesirable_weight"}
# TRL's default of keys that Trireme does not have; each is what Trireme does.
AS_HERE = dict(disable_dropout=True, f_divergence_type="reverse_kl", ld_alpha=None, loss_weights=None, use_weighting=False, sync_ref_model=False,
               alpha=0.0, max_completion_length=None, router_aux_loss_coef=None)
# docs/preferences.md: too long pairs are refused and not cut, the reference is always computed before the first step, and objective.name is cross_entropy unless it is given.
DIFFERENT = dict(max_length=1024, truncation_mode="keep_start", precompute_ref_log_probs=False, loss_type=(["sigmoid"], "sigmoid", "kto"))
NO_EFFECT_ON_A_LOSS = """activation_offloading dataset_num_proc f_alpha_divergence_coef generate_during_eval is_encoder_decoder model_init_kwargs
pad_to_multiple_of pad_token padding_free padding_value precompute_ref_batch_size ref_model_mixup_alpha ref_model_sync_steps trust_remote_code""".split()


def test_configs_of_trl():
    """Every key of the configs: the default of `help objective`, a default that is what Trireme does, or a difference that a page states."""
    own = dict(re.findall(r"^(objective\.\w+) \(run file\)\n.*default: ([^\s;]+)(?:; with grpo .*)?$", trireme("help", "objective").stdout, re.M))
    for config, fields in STORED["trl"].items():
        for key, value in fields.items():
            if key in OWN_KEYS:
                assert float(own[OWN_KEYS[key]]) == value, (config, key)
            elif key in AS_HERE:
                assert value == AS_HERE[key], (config, key)
            elif key in DIFFERENT:
                assert value == DIFFERENT[key] or value in DIFFERENT[key], (config, key)
            else:
                assert key in NO_EFFECT_ON_A_LOSS, (config, key)
