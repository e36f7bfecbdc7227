#!/usr/bin/env bash
# Two simulated servers in turns: the gate must pass two equal ones and fail
# one that is 10 % slower. A run takes a minute and wants a quiet machine.
#   RUNS=10 testdata/servers/against.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"

# serve NAME LAW starts a simulated server and sets url.
serve() {
  local port
  port=$(free_port)
  url="http://127.0.0.1:$port"
  start "$1.log" ./headway serve --executor sim --model tiny-llama-3.1 --law "$2" --addr "127.0.0.1:$port"
  await "$url/health" 10 "$1.log"
}

# duel NAME A B EXIT runs two servers in turns and holds the exit code.
duel() {
  local code=0
  ./headway run --target "$2" --against "$3" --gate --max-regression 5% --concurrency 16 --input-tokens 32 --output-tokens 16 \
    --warmup 500ms --measure 2200ms --min-requests 95 --repeats 9 --no-progress --out "$bundles/$1" >"$1.out" 2>"$1.err" || code=$?
  check "$1" "$([ "$code" = "$4" ] && echo 0 || echo 1)" \
    "exit $code, $(grep -c '"verdict": "invalid"' "$bundles/$1"/*/result.json | awk -F: '{n += $NF} END {print n}') invalid rungs"
  sed -n '/^gate:/,$p' "$1.err" | sed 's/^/     /'
}

serve a slots=32,ttft=50ms,itl=20ms
a=$url
serve equal slots=32,ttft=50ms,itl=20ms
equal=$url
serve slower slots=32,ttft=55ms,itl=22ms
slower=$url
for run in $(seq "${RUNS:-10}"); do
  duel "equal-$run" "$a" "$equal" 0
  duel "slower-$run" "$a" "$slower" 1
done
finish
