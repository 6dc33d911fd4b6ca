"""Functions shared by the parity tests: run the tool and the program, convert weights to flat arrays and back, read and write files.

With TRIREME_TEST_DEVICE=guarded, emulated or gpu, the tests run on that device instead of their own (`make test-guarded`, `make
test-emulated`): run files, tools, `eval` and `generate`. The device must have the types of the reference device, fp32 and fp64; tests
in bf16 keep their own device if it lacks that type."""
import json
import os
import pathlib
import re
import struct
import subprocess

import numpy

TOOLS = os.environ["TRIREME_TOOLS"]
TRIREME = os.environ["TRIREME"]
WITH_TEST_DEVICES = os.environ.get("TRIREME_WITH_TEST_DEVICES", TRIREME + "-test")  # the same program, which has these devices, too
DEVICE = os.environ.get("TRIREME_TEST_DEVICE", "")
DEVICE_HAS_BF16 = DEVICE.split(":")[0] in ("emulated", "gpu")


def device_for(device, precision):
    """Returns the device of a test that requests this one."""
    return DEVICE if DEVICE and (DEVICE_HAS_BF16 or precision != "bf16") else device


def on_device(run):
    """The keys of a run, on the device of these tests."""
    return {**run, "device": device_for(run.get("device", "auto"), run.get("precision", "fp32"))}


def yaml_of(value):
    """JSON is YAML."""
    return json.dumps(on_device(value) if {"optimizer", "output"} <= value.keys() else value)


def tool(*arguments):
    done = subprocess.run([os.path.join(TOOLS, "parity_tool"), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def program_of(*words):
    """The product; or, where a word of the command or a run file among them names a device for tests, the program that has it."""
    texts = [re.sub(r"^--device$", "device:", str(word)) for word in words]
    files = [pathlib.Path(text) for text in texts if text.endswith(".yaml")]
    texts = [" ".join(texts), *(file.read_text(errors="replace") for file in files if file.is_file())]
    if not any(re.search(r"""\bdevice["']?[:=]\s*["']?(guarded|emulated)\b""", text, re.IGNORECASE) for text in texts):
        return TRIREME
    if not os.path.exists(WITH_TEST_DEVICES):
        import pytest  # here: the scripts that make stored values import this file, too

        pytest.skip(f"SKIPPED: there is no {WITH_TEST_DEVICES}; make build-tests makes it")
    return WITH_TEST_DEVICES


def words_of(*arguments):
    """The command line of the program: what reads a checkpoint runs on the device of these tests, too."""
    words = [program_of(*arguments), *map(str, arguments)]
    if DEVICE and words[1] in ("eval", "generate") and "--device" not in words:
        words += ["--device", DEVICE]
    return words


def trireme(*arguments, status=0, **options):
    done = subprocess.run(words_of(*arguments), capture_output=True, text=True, **options)
    assert done.returncode == status, done.stderr
    return done


class Weights:
    """Random weights of a model, once as a flat float64 array in the tool's order and once as tensors by name."""

    def __init__(self, folder, model, seed=0):
        self.folder, self.model = str(folder), model
        self.model_file = os.path.join(self.folder, "model.yaml")
        with open(self.model_file, "w") as f:
            f.write(yaml_of(model))
        self.table = tool("table", self.model_file)
        generator = numpy.random.default_rng(seed)
        self.flat = numpy.zeros(self.table["num_elements"])
        for p in self.table["parameters"]:
            values = generator.normal(0, 0.08, p["shape"])
            if p["name"].endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "norm.weight")):
                values += 1
            self.put(self.flat, p, values.astype(numpy.float32).astype(numpy.float64))
        self.file = os.path.join(self.folder, "weights.bin")
        self.flat.tofile(self.file)

    @staticmethod
    def put(flat, p, values):
        flat[p["offset"] : p["offset"] + values.size] = values.reshape(-1)

    @staticmethod
    def get(flat, p):
        size = int(numpy.prod(p["shape"]))
        return flat[p["offset"] : p["offset"] + size].reshape(p["shape"])

    def tensors(self, dtype=None):
        """In double, unless told otherwise."""
        import torch  # here, since it takes seconds, and most that import this file need none of it

        return {
            p["name"]: torch.tensor(self.get(self.flat, p), dtype=dtype or torch.float64, requires_grad=True)
            for p in self.table["parameters"]
        }

    def replace(self, tensors):
        """Other values ({name: array}) in their places."""
        for p in self.table["parameters"]:
            self.put(self.flat, p, numpy.asarray(tensors[p["name"]], numpy.float64))
        self.flat.tofile(self.file)

    def gradients(self, device, precision, ids, labels, micro_batch=None, schedule="1f1b", positions=None, label_weights=None):
        """Loss, norm and gradients by name, as the engine finds them; masked, where there are positions, which labels' weights (float32) need, too."""
        tokens, out = os.path.join(self.folder, "tokens.bin"), os.path.join(self.folder, "gradients.bin")
        columns = [ids, labels] if positions is None else [ids, labels, positions]
        columns += [] if label_weights is None else [label_weights.view(numpy.int32)]
        numpy.concatenate([column.reshape(-1) for column in columns]).astype(numpy.int32).tofile(tokens)
        result = tool("gradients", self.model_file, device_for(device, precision), precision, schedule, ids.shape[0],
                      micro_batch or ids.shape[0], ids.shape[1], self.file, tokens, out)
        flat = numpy.fromfile(out)
        return result, {p["name"]: self.get(flat, p) for p in self.table["parameters"]}

    def save_hugging_face(self, folder, config):
        """A folder as transformers would save it: config.json and model.safetensors."""
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        header, data, at = {}, [], 0
        for p in self.table["parameters"]:
            raw = self.get(self.flat, p).astype(numpy.float32).tobytes()
            header[p["name"]] = {"dtype": "F32", "shape": p["shape"], "data_offsets": [at, at + len(raw)]}
            data.append(raw)
            at += len(raw)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def relative(got, expected):
    """Distance by norm, relative to what is expected."""
    got, expected = numpy.asarray(got), numpy.asarray(expected)
    return float(numpy.linalg.norm(got - expected) / max(numpy.linalg.norm(expected), 1e-30))
