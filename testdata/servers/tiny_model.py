"""Make a Llama of random weights small enough for any machine, with the
tokenizer of a folder, or a byte BPE trained on Python's own library.

    python tiny_model.py DIRECTORY [TOKENIZER]
"""
import glob
import json
import os
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<think>", "</think>"]


def tokenizer():
    """A byte-level BPE of 2048 tokens."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2048, special_tokens=SPECIAL, initial_alphabet=alphabet)
    bpe.train(sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py")), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    fast.chat_template = TEMPLATE
    return fast


def tokenizer_of(folder):
    """The tokenizer.json of a folder, with the chat template beside it."""
    with open(os.path.join(folder, "tokenizer_config.json")) as f:
        settings = json.load(f)
    bos, eos = settings["bos_token"], settings["eos_token"]["content"]
    fast = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token=bos, eos_token=eos, pad_token=eos)
    fast.chat_template = settings["chat_template"]
    return fast


def main(directory, folder=None):
    words = tokenizer_of(folder) if folder else tokenizer()
    torch.manual_seed(0)
    # A head has 32 numbers: vLLM's attention on CPU takes no smaller one.
    config = LlamaConfig(vocab_size=len(words), hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=8192,
                         bos_token_id=words.bos_token_id, eos_token_id=words.eos_token_id,
                         pad_token_id=words.pad_token_id, tie_word_embeddings=False)
    LlamaForCausalLM(config).save_pretrained(directory)
    words.save_pretrained(directory)


if __name__ == "__main__":
    main(*sys.argv[1:])
