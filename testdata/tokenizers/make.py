#!/usr/bin/env python3
"""Makes the small tokenizers here and their vectors with Hugging Face tokenizers.

    pip install tokenizers==0.23.3
    python make.py

Each folder gets a tokenizer.json in the form of one family of Llama models,
trained on the words below, a tokenizer_config.json with a chat template, and
vectors.json: texts with the ids and the decoded text that the tokenizers
library gives for them.
"""
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent

SEED_TEXT = """
The gap between two cars on a road is called headway. When traffic is light it is wide and everyone drives as fast as they like;
when more cars join, the flow grows with their number until the gaps are as short as drivers dare. From there on another car adds
nothing to the flow: it only makes the others slower. A server that answers with tokens behaves alike. While there are few requests
each finds a free place in the batch, and the time between tokens hardly changes. Past the knee they wait for each other.
It's what we've measured, and they're sure you'd say so too; I'll show what I'm thinking of, don't worry: he's ready, we can't wait.
IT'S LOUD, WE'VE HEARD. def measure(tokens, seconds): return tokens / seconds  # not zero
for i in range(100):\n    if i % 3 == 0:\n        print("fizz", i)\n\telse:\n\t\tpass
Numbers: 1 12 123 1234 12345 3.14159 2026-11-30 10:45:59 1,000,000 0x1F 42% $9.99 +1 (555) 010-9999
Grüße aus München, les élèves étaient à l'école, el niño comió piñatas, zażółć gęślą jaźń, Привет, как дела? Быстрая лиса.
日本語の文章です。東京は大きい。中文的句子,今天天气很好。한국어 문장입니다. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดี
Emoji 🙂🚀🎉👩‍💻 and 👍🏽 and flags 🇩🇪.
{"role": "user", "content": "What is a knee?", "temperature": 0.7, "stop": ["\\n", "###"]}
"""

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def corpus():
    """The text above, and shuffles of its words with runs of blanks."""
    rng = random.Random(7)
    words = SEED_TEXT.split()
    lines = SEED_TEXT.split("\n")
    for _ in range(300):
        lines.append(" ".join(rng.choices(words, k=12)))
        lines.append(" " * rng.choice([2, 4, 8]) + " ".join(rng.choices(words, k=4)) + " " * rng.choice([1, 3]))
    return lines


def llama2_style(metaspace):
    """SentencePiece BPE with byte fallback; the blank is U+2581."""
    pieces = Tokenizer(models.BPE())
    pieces.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces.pre_tokenizer = pre_tokenizers.Split(Regex("▁+[^▁]*"), "isolated")
    pieces.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1400, show_progress=False, limit_alphabet=170))
    learned = json.loads(pieces.to_str())["model"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    for piece in sorted(learned["vocab"], key=learned["vocab"].get):
        vocab.setdefault(piece, len(vocab))
    merges = [tuple(m) for m in learned["merges"]]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    else:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tok


def llama3_style():
    """Byte-level BPE behind the tiktoken pattern; whole words need no merges."""
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
        ]
    )
    tok.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=1600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    )
    begin = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                special_tokens=[("<|begin_of_text|>", begin)],
            ),
        ]
    )
    return tok


LLAMA2_TEMPLATE = (
    "{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{% set preface = messages[0]['content'] %}"
    "{% else %}{% set turns = messages %}{% set preface = false %}{% endif %}"
    "{% for turn in turns %}"
    "{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns of user and assistant must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and preface != false %}"
    "{% set text = '<<SYS>>\\n' + preface + '\\n<</SYS>>\\n\\n' + turn['content'] %}"
    "{% else %}{% set text = turn['content'] %}{% endif %}"
    "{% if turn['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}"
    "{% elif turn['role'] == 'assistant' %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}"
    "{% endfor %}"
)

LLAMA3_TEMPLATE = """{{- bos_token }}
{%- if tools is not defined %}
    {%- set tools = none %}
{%- endif %}
{%- if not today is defined %}
    {%- if strftime_now is defined %}
        {%- set today = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set today = "01 Jan 2025" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set preface = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set preface = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{{- "Today is a day.\\n\\n" }}
{{- preface }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

CHATS = [
    [{"role": "user", "content": "What is a knee?"}],
    [{"role": "system", "content": "  Be brief. "}, {"role": "user", "content": " Why?\n"}],
    [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello, 你好 🙂"},
        {"role": "user", "content": "Count to 3: 1 2 3 & <b> \"quoted\" {{ x }}"},
    ],
]

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n\n", "\r\n", " \n", "\n ", "\t", " \t \n  x", "a", " a", "  a", "a ", "a  ", "   a   b   ",
    "Hello, world!", "The gap between two cars", "It's we've they're you'd I'll I'm don't can't he's",
    "IT'S WE'VE THEY'RE YOU'D I'LL I'M DON'T", "'s't're've'm'll'd", "'S 'T 'RE", "'ſ it'ſ", "x'\u017f'K", "it’s", "''''s", "'", "' s",
    "1", "12", "123", "1234", "1234567890", "3.14159", "1,000,000", "v2.0.1", "²³¼½", "١٢٣٤", "Ⅳ ⅷ", "abc123def", "x1y22z333",
    "$9.99", "+1 (555) 010-9999", "foo_bar-baz.qux", "...!!!???", "  ...\n\n", "a...\n\nb", "!\r\n\r\n?", "###\n", "-- \n",
    "def f(x):\n    return x\n\n\nclass A:\n\tpass\n", "if a:\n\n\n  b", "end\n   \n  next", " \n \n ", "a\u00a0b", "\u00a0\u00a0x", "a\u3000b",
    "a\u2028b\u2029c", "a\x0bb\x0cc", "a\x85b", "\u200b zero width \u200d joiner", "\ufeffbom",
    "Grüße aus München", "naïve café", "e\u0301 combining", "zażółć gęślą jaźń", "Привет, как дела?", "Ελληνικά", "Ǆ ǅ ǆ ß ẞ İ ı",
    "日本語の文章です。", "中文,句子。", "한국어 문장", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีครับ", "ཀཁག", "𝒳𝒴𝒵", "𠀀𠀁",
    "🙂", "🙂🚀🎉", "a🙂b", "👩‍💻", "👍🏽", "🇩🇪🇫🇷", "☃️", "♥", "\x00", "a\x00b", "\x01\x02\x7f", "\x1b[31mred\x1b[0m",
    "▁", "▁▁a", "a▁b", " ▁ ", "<0x41>", "<0x0A>", "Ġ", "ĠĊ", "a" * 60, " " * 33, "\n" * 17, "ab" * 40, "=" * 25, "word " * 12,
    "<s>", "</s>", "<s>hello</s>", "a<s>b", "a <s> b", "<s> <s>", "<unk>", "<s", "s>", "<<s>>", "<s></s>x",
    "<|begin_of_text|>", "x<|eot_id|>y", " <|eot_id|> ", "<|eot_id|><|eot_id|>", "<|eot_id", "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
    '{"role": "user", "n": [1, 2.5e-3, null]}', "http://example.com/a?b=c&d=%20#e", "a\tb\t\tc", "MixedCASE WordsHERE", "ab1cd'ef",
    "quick ,comma", "(paren)", "“quotes”", "–—…", "½ cup", "№ 5", "½½", "a\u0300\u0301b", "क्षि", "\U000e0001", "\uffff", "\ue000",
]


def random_texts():
    rng = random.Random(11)
    alphabet = list("abcdefgh  \n\t'.,!?0123456789ABC\r") + ["é", "ß", "日", "🙂", "\u00a0", "'s", " the", "▁", "ſ", "\u0301"]
    return ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(150)]


def render(template, messages, bos, eos):
    import datetime

    import jinja2
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.now().strftime(f)
    return env.from_string(template).render(
        messages=messages, bos_token=bos, eos_token=eos, add_generation_prompt=True
    )


def write(name, tok, bos, eos, template, pairs):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    data = json.loads(tok.to_str())
    if not pairs:
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
    config = {"bos_token": bos, "eos_token": {"content": eos, "special": True}, "add_bos_token": True}
    if template:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vectors = []
    for text in TEXTS + random_texts():
        plain = tok.encode(text, add_special_tokens=False).ids
        vectors.append(
            {
                "text": text,
                "ids": plain,
                "special": tok.encode(text, add_special_tokens=True).ids,
                "decoded": tok.decode(plain, skip_special_tokens=True),
            }
        )
    rng = random.Random(3)
    decodes = []
    for n in [1, 1, 1, 2, 2, 3, 5, 8, 13, 21, 34] * 6:
        ids = [rng.randrange(tok.get_vocab_size()) for _ in range(n)]
        decodes.append({"ids": ids, "decoded": tok.decode(ids, skip_special_tokens=True)})
    chats = []
    if template:
        for messages in CHATS:
            text = render(template, messages, bos, eos)
            chats.append(
                {"messages": messages, "text": text, "ids": tok.encode(text, add_special_tokens=False).ids}
            )
    out = {"vocab_size": tok.get_vocab_size(), "vectors": vectors, "decodes": decodes, "chats": chats}
    (folder / "vectors.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")


def main():
    write("llama-2", llama2_style(metaspace=False), "<s>", "</s>", LLAMA2_TEMPLATE, pairs=False)
    write("llama-2-metaspace", llama2_style(metaspace=True), "<s>", "</s>", None, pairs=True)
    write("llama-3", llama3_style(), "<|begin_of_text|>", "<|eot_id|>", LLAMA3_TEMPLATE, pairs=True)


if __name__ == "__main__":
    main()
