#!/usr/bin/env bash
# The LiteLLM gateway in front of headway's own server, whose counters headway
# must agree with. The gateway wants a key, which must be in no file of a bundle.
#   testdata/servers/litellm.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"
python_env litellm 'litellm[proxy]==1.108.7'

port=$(free_port)
start serve.log ./headway serve --addr "127.0.0.1:$port" --executor sim --law slots=16,ttft=20ms,itl=5ms --served-model-name behind
await "http://127.0.0.1:$port/health" 30 serve.log

cat >litellm.yaml <<YAML
model_list:
  - model_name: front
    litellm_params: {model: hosted_vllm/behind, api_base: "http://127.0.0.1:$port/v1", api_key: none}
litellm_settings: {drop_params: false, num_retries: 0, telemetry: false}
general_settings: {master_key: os.environ/LITELLM_MASTER_KEY}
YAML
gateway=$(free_port)
LITELLM_MASTER_KEY=sk-$(python3 -c 'import secrets; print(secrets.token_hex(24))')
export LITELLM_MASTER_KEY LITELLM_LOCAL_MODEL_COST_MAP=True
start gateway.log litellm/bin/litellm --config litellm.yaml --host 127.0.0.1 --port "$gateway"
await "http://127.0.0.1:$gateway/health/liveliness" 300 gateway.log

metrics="http://127.0.0.1:$port/metrics"
before_requests=$(counter "$metrics" vllm:request_success_total)
before_tokens=$(counter "$metrics" vllm:generation_tokens_total)
ladder litellm "http://127.0.0.1:$gateway" --api-key-env LITELLM_MASTER_KEY --model front \
  --input-tokens 256 --output-tokens 16 --concurrency 1,2,4,8,16 --warmup 1s --measure 3s --min-requests 5 \
  --drain 60s --set stage.max_duration=20s
same "litellm requests" completed "$(field litellm 'total("completed")')" "$(($(counter "$metrics" vllm:request_success_total) - before_requests))"
same "litellm tokens" output "$(field litellm 'total("output_tokens")')" "$(($(counter "$metrics" vllm:generation_tokens_total) - before_tokens))"
doctor litellm "http://127.0.0.1:$gateway" --api-key-env LITELLM_MASTER_KEY --model front --metrics "$metrics"
named litellm "litellm 1.108.7"
says litellm "a stream that is not buffered, of one token an event" 't["stream"]["buffered"] is False and t["stream"]["tokens_per_event"] == 1'
says litellm "the lengths asked for: $(told litellm 't["lengths"]["got"]'), which it passes on" 't["lengths"]["got"] == t["lengths"]["asked"] == [1, 16, 64]'
says litellm "prompts sized by its usage: $(told litellm 't["tokenizer"]["server"]') tokens for $(told litellm 't["tokenizer"]["made"]')" 't["tokenizer"]["agrees"] is None and abs(t["tokenizer"]["server"] - t["tokenizer"]["made"]) <= 7'
says litellm "the metrics of the server behind it: $(told litellm 't["metrics"][0]["tells"]')" '"vllm" in t["metrics"][0]["kinds"]'
measured litellm
code=0
WRONG_KEY=sk-wrong ./headway doctor --target "http://127.0.0.1:$gateway" --api-key-env WRONG_KEY >wrong.txt 2>wrong.log || code=$?
check "litellm with a wrong key" "$([ $code = 3 ] && echo 0 || echo 1)" "exit $code: $(grep -m 1 -E 'error|FAILED' wrong.txt)"
ok=0
grep -rqF "$LITELLM_MASTER_KEY" "$bundles" litellm.log litellm-doctor.json litellm-doctor.log && ok=1
check "litellm key" "$ok" "the key is in no file of the bundle, no message and no page of doctor"
finish
