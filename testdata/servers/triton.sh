#!/usr/bin/env bash
# Triton Inference Server with a model whose knee is known: four requests at a
# time, a token every 4 ms (triton/clockwork). Its counter must agree with
# headway's, and the knee must be at 4 in flight.
#   testdata/servers/triton.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
open_scratch "${1:-}"
[ "$(uname -sm)" = "Linux x86_64" ] || skip "PyTriton has a server for Linux on x86-64 only"
python_env triton nvidia-pytriton==0.7.0

# PyTriton's own launcher wants the exact Python that it was built with; the
# server that it carries does not, with the backend's stub for this version.
site=$(triton/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
version=$(triton/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
bundled=$site/pytriton/tritonserver
[ -d "$bundled/python_backend_stubs/$version" ] || skip "PyTriton has no backend for Python $version"
mkdir -p backends
cp -r "$bundled/backends/python" backends/
cp "$bundled/python_backend_stubs/$version"/* backends/python/
mkdir -p models
cp -r "$repo/testdata/servers/triton/clockwork" models/ # Python leaves its bytecode beside a model

port=$(free_port)
metrics_port=$(free_port)
url=http://127.0.0.1:$port
start triton.log env PYTHONPATH="$site" LD_LIBRARY_PATH="$site/nvidia_pytriton.libs:$bundled/external_libs" \
  "$bundled/bin/tritonserver" --model-repository="$PWD/models" --backend-directory="$PWD/backends" \
  --http-address=127.0.0.1 --http-port="$port" --allow-grpc=false \
  --metrics-address=127.0.0.1 --metrics-port="$metrics_port"
await "$url/v2/health/ready" 120 triton.log

# A busy machine is no fault of the ladder: it is climbed up to three times.
metrics="http://127.0.0.1:$metrics_port/metrics"
for try in 1 2 3; do
  before=$(counter "$metrics" nv_inference_request_success)
  ladder "triton-$try" "$url" --metrics "$metrics" --input-tokens 32 --output-tokens 32 --concurrency 1,2,4,8,16 \
    --warmup 1s --measure 6s --min-requests 5 --drain 60s --set stage.max_duration=20s
  same "triton requests" completed "$(field "triton-$try" 'total("completed")')" "$(($(counter "$metrics" nv_inference_request_success) - before))"
  check "triton failures" "$([ "$(field "triton-$try" 'total("failed")')" = 0 ] && echo 0 || echo 1)" \
    "$(field "triton-$try" 'total("failed")') of $(field "triton-$try" 'total("sent")')"
  at=$(field "triton-$try" 'r["knee"]["in_flight"] if r["knee"]["status"] == "found" else None')
  knee=$(field "triton-$try" 'r["knee"]["status"] == "found" and abs(r["knee"]["in_flight"] - 4) <= 0.4')
  [ "$knee" = True ] && break
done
check "triton knee" "$([ "$knee" = True ] && echo 0 || echo 1)" "$at in flight, 4 is true"

check "triton telemetry" "$([ "$(field "triton-$try" 'all("(triton)" in g["telemetry"]["source"] and not g["telemetry"]["scrape_failures"] for g in r["rungs"])')" = True ] && echo 0 || echo 1)" \
  "$(field "triton-$try" 'r["rungs"][0]["telemetry"]["source"]') in each rung"

doctor "triton-$try" "$url" --metrics "$metrics"
named "triton-$try" "triton 2.51.0"
says "triton-$try" "its metrics on a port of their own: $(told "triton-$try" 't["metrics"][0]["tells"]')" 't["metrics"][0]["kinds"] == ["triton"]'
says "triton-$try" "a stream that is not buffered, counted by token ids" 't["stream"]["buffered"] is False and t["stream"]["token_source"] == "token_ids"'
says "triton-$try" "the lengths that this model gives" 't["lengths"]["forced"] is False and t["lengths"]["got"] == t["lengths"]["asked"]'
measured "triton-$try"
code=0
./headway doctor --target "$url" >doctor.txt 2>doctor.log || code=$?
check "triton without its metrics" "$(grep -q -- '--metrics http://HOST:8002/metrics' doctor.txt && echo "$code" || echo 1)" "doctor says how to name them"
check "triton length" "$([ "$(field "triton-$try" '"length_not_forced" in [w["code"] for w in r["warnings"]]')" = True ] && echo 0 || echo 1)" \
  "length_not_forced is told, as the model has no input that forces it"
finish
