"""bf16 on a GPU: the update writes the narrow copies that GEMMs read, and the copies that it does not write are packed. Losses and
weights have the same bits, whichever copies it writes: all (one rank, or ZeRO 0), those of the rank's own part (ZeRO 1 and 2), or none
(ZeRO 3, which narrows weights before each GEMM, and the first step after a checkpoint)."""
import pytest
from test_device_faults import STEPS, corpus, needs_mpi, state_of, train, write_run  # noqa: F401: fixtures

pytestmark = pytest.mark.cpu  # names its devices itself
SHAPE = dict(num_layers=2, hidden_size=24, num_heads=2, vocab_size=257, max_sequence=16, init_std=0.1)
MODELS = {
    "gpt2": dict(family="gpt2", dropout=0.1, **SHAPE),
    "gpt2-untied": dict(family="gpt2", tied=False, **SHAPE),
    "llama": dict(family="llama", num_kv_heads=1, ffn_size=36, tied=False, **SHAPE),
    "llama-tied": dict(family="llama", num_kv_heads=1, ffn_size=36, tied=True, **SHAPE),
}


def run(folder, corpus, model, ranks, *sets, **layout):
    path = write_run(folder, corpus, ranks, device="emulated", precision="bf16", model=MODELS[model], layout=dict(micro_batch=2, **layout))
    done = train(path, ranks, "optimizer.decay=constant", *sets)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("model", MODELS)
def test_going_on(tmp_path, corpus, model):
    """Ended and started again twice, a run packs its weights three times as often as one that is left alone."""
    for name in ("whole", "pieces"):
        (tmp_path / name).mkdir()
    run(tmp_path / "whole", corpus, model, 1)
    for until in (4, 8, STEPS):
        run(tmp_path / "pieces", corpus, model, 1, f"optimizer.steps={until}")
    assert state_of(tmp_path / "pieces") == state_of(tmp_path / "whole")


@needs_mpi
@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_shards(tmp_path, corpus, model):
    """Buckets that cut through matrices, and through q, k and v."""
    found = []
    for zero in range(4):
        (tmp_path / str(zero)).mkdir()
        run(tmp_path / str(zero), corpus, model, 2, data=2, zero=zero, bucket_bytes=9000)
        found.append(state_of(tmp_path / str(zero)))
    assert all(other == found[0] for other in found[1:])
