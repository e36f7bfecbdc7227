"""Make a Llama of random weights small enough for any machine, with the
vocabulary, merges and chat template of another model.

    PYTHONPATH=llama.cpp/gguf-py python tiny_gguf.py MODEL.gguf OUT.gguf
"""
import sys

import gguf
import numpy as np

WIDTH, INNER, HEADS, CONTEXT = 64, 128, 2, 8192


def main(source, out):
    model = gguf.GGUFReader(source)
    w = gguf.GGUFWriter(out, "llama")
    w.add_name("tiny")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(INNER)
    w.add_block_count(1)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS)
    w.add_rope_dimension_count(WIDTH // HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    for name, field in model.fields.items():
        if name.startswith("tokenizer."):
            of = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            w.add_key_value(name, field.contents(), field.types[0], sub_type=of)

    random = np.random.default_rng(0)

    def weight(name, *shape):
        w.add_tensor(name, random.normal(0, 0.02, shape).astype(np.float32))

    def norm(name):
        w.add_tensor(name, np.ones(WIDTH, np.float32))

    weight("token_embd.weight", len(model.fields["tokenizer.ggml.tokens"].data), WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        weight(f"blk.0.{name}.weight", WIDTH, WIDTH)
    weight("blk.0.ffn_gate.weight", INNER, WIDTH)
    weight("blk.0.ffn_up.weight", INNER, WIDTH)
    weight("blk.0.ffn_down.weight", WIDTH, INNER)
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        norm(name)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
