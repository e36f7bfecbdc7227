#!/usr/bin/env bash
# The search for the operating point of a simulated server of 16 slots and
# 0.2 s service: from one user alone, and around a ladder.
#   RUNS=3 testdata/servers/refine.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"

url="http://127.0.0.1:$(free_port)"
start refine.log ./headway serve --executor sim --model tiny-llama-3.1 --law slots=16,ttft=50ms,itl=5ms --addr "${url#http://}"
await "$url/health" 10 refine.log
requests() { counter "$url/metrics" vllm:request_success_total; }
tokens() { counter "$url/metrics" vllm:generation_tokens_total; }

# measured is the measuring time of a result r, for field.
measured='sum(g["window"]["end_s"] - g["window"]["start_s"] for g in r["rungs"])'

# search NAME LOADS SEED holds what a refinement finds to 16 users, within 30 s
# of measuring.
search() {
  local before_requests before_tokens
  before_requests=$(requests)
  before_tokens=$(tokens)
  ladder "$1" "$url" --concurrency "$2" --seed "$3" --refine 12 --slo ttft_p95=100ms --input-tokens 32 --output-tokens 31 \
    --warmup 1s --measure 2s --min-requests 20 --set stage.min_requests_per_user=0
  same "$1 requests" completed "$(field "$1" 'total("completed")')" "$(($(requests) - before_requests))"
  same "$1 tokens" output "$(field "$1" 'total("output_tokens")')" "$(($(tokens) - before_tokens))"
  check "$1" "$(field "$1" "0 if r['operating_point']['concurrency'] == 16 and $measured <= 30 else 1")" \
    "$(field "$1" "'%s users in %.1f s of measuring at %s' % (r['operating_point']['concurrency'], $measured, [g['concurrency'] for g in r['rungs']])")"
}

for run in $(seq "${RUNS:-3}"); do
  search "alone-$run" 1 "$run"
  search "ladder-$run" 1,4,64 "$run"
done
finish
