"""Makes four_bits.json: what bitsandbytes makes of the matrices of four_bits.py, and transformers' losses with it.
make_four_bits.py OUT, in an environment with transformers and bitsandbytes."""
import base64
import json
import os
import pathlib
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import four_bits  # noqa: E402
import peft_ties  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from bitsandbytes.functional import create_dynamic_map, quantize_4bit  # noqa: E402


def loss_of(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu").train()  # in eval() it packs the codes for the CPU first, in blocks of whole rows
    ids = torch.tensor(peft_ties.tokens()[None].astype("int64"))
    with torch.no_grad():
        return model(ids, labels=ids).loss.item()


def quantised(kind, block, double):
    """The tensors that save_pretrained writes of each matrix."""
    out = {}
    for name, matrix in four_bits.base_tensors(four_bits.MATRICES).items():
        codes, state = quantize_4bit(torch.tensor(matrix), blocksize=block, compress_statistics=double, quant_type=kind)
        out[name] = codes.numpy()
        out |= {f"{name}.{key}": value.numpy() for key, value in state.as_dict(packed=True).items()}
    return out


def with_mean_in_double(matrix):
    """Largest magnitudes, and their codes and scales given a mean that does not depend on the machine, as theirs in fp32 does."""
    codes, absmax = torch.ops.bitsandbytes.quantize_4bit(torch.tensor(matrix), 64, "nf4", torch.uint8)
    offset = absmax.double().mean().float()
    nested, scales = torch.ops.bitsandbytes.quantize_blockwise((absmax - offset).double(), create_dynamic_map(), 256)
    return dict(codes=codes.numpy().tobytes().hex(), magnitudes=absmax.numpy().tobytes().hex(), absmax=nested.to(torch.uint8).numpy().tobytes().hex(),
                nested_absmax=scales.float().numpy().tobytes().hex(), nested_offset=offset.item())


def main():
    out = dict(matrices={name: with_mean_in_double(matrix) for name, matrix in four_bits.base_tensors(four_bits.MATRICES).items()}, losses={}, files={})
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        out["losses"]["the base"] = loss_of(four_bits.write_folder(folder / "base"))
        for name, (kind, block, double) in four_bits.KINDS.items():
            tensors = quantised(kind, block, double)
            out["files"][name] = base64.b64encode(zlib.compress(four_bits.packed(tensors), 9)).decode()
            path = four_bits.write_folder(folder / name.replace(" ", "-"), tensors, kind, bnb_4bit_use_double_quant=double)
            if block <= four_bits.WIDTH:  # bitsandbytes' kernel for CPUs does not undo rows shorter than a block
                out["losses"][name] = loss_of(path)
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
