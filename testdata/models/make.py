#!/usr/bin/env python3
"""Makes the tiny Llama models here and their golden answers with transformers.

    pip install torch==2.15.0 transformers==5.24.0 numpy
    python make.py

Each folder gets config.json, model.safetensors (seeded random weights) and
golden.json: prompts and their greedy continuations of 32 tokens, with the
logits that each token was chosen from (every seventh is kept) and the logarithm
of their exponentials' sum, all in float32 on the CPU. Seeds are such that the
best two logits never come closer than 0.001.
"""
import json
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent

SHAPES = {
    # multi-head attention, output projection of its own, float32 weights
    "tiny-llama-2": dict(
        vocab_size=320, hidden_size=64, intermediate_size=176, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256,
        rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
    # grouped queries, tied output, scaled rotary frequencies, odd widths
    "tiny-llama-3.1": dict(
        vocab_size=307, hidden_size=72, intermediate_size=132, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=20, max_position_embeddings=512,
        rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    ),
}

PROMPT_LENGTHS = [1, 5, 17, 40, 100]
CONTINUATION = 32
STRIDE = 7  # of the vocabulary entries whose logits are kept


def golden(model, vocab, seed):
    gen = torch.Generator().manual_seed(seed)
    cases = []
    for n in PROMPT_LENGTHS:
        prompt = torch.randint(0, vocab, (n,), generator=gen).tolist()
        ids = list(prompt)
        logits, norms, margins = [], [], []
        with torch.no_grad():
            for _ in range(CONTINUATION):
                row = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
                top = torch.topk(row, 2).values
                margins.append(round((top[0] - top[1]).item(), 6))
                norms.append(round(torch.logsumexp(row.double(), 0).item(), 6))
                logits.append([round(x, 6) for x in row[::STRIDE].tolist()])
                ids.append(int(row.argmax()))
        cases.append({"prompt": prompt, "tokens": ids[n:], "logits": logits, "norms": norms, "min_margin": min(margins)})
    return {"logit_stride": STRIDE, "cases": cases}


def settled(model, vocab, seed):
    while True:
        result = golden(model, vocab, seed)
        if min(case["min_margin"] for case in result["cases"]) >= 0.001:
            return result
        seed += 1


def main():
    for index, (name, shape) in enumerate(SHAPES.items()):
        torch.manual_seed(1234 + index)
        config = LlamaConfig(
            **shape, bos_token_id=1, eos_token_id=2, initializer_range=0.12, attn_implementation="eager"
        )
        model = LlamaForCausalLM(config).eval().float()
        with torch.no_grad():
            for key, value in model.named_parameters():
                if "norm" in key:
                    value.mul_(1 + 0.2 * torch.randn_like(value))
        folder = HERE / name
        model.save_pretrained(folder, safe_serialization=True)
        for extra in folder.glob("generation_config.json"):
            extra.unlink()
        (folder / "model.safetensors").chmod(0o644)
        result = settled(model, shape["vocab_size"], 99 + index)
        print(name, [c["min_margin"] for c in result["cases"]], result["cases"][0]["tokens"])
        (folder / "golden.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
