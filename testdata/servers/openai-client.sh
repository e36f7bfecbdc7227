#!/usr/bin/env bash
# The official OpenAI client for Python against headway's own server.
#   testdata/servers/openai-client.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"
python_env openai openai==3.57.0

port=$(free_port)
start serve.log ./headway serve --addr "127.0.0.1:$port" --executor sim --law ttft=1ms,itl=1ms --max-model-len 512
await "http://127.0.0.1:$port/health" 30 serve.log
ok=0
openai/bin/python "$repo/testdata/openai_client.py" "http://127.0.0.1:$port/v1" | tee client.log || ok=1
check "openai client" "$ok" "$(grep -c '^ok' client.log) checks"
finish
