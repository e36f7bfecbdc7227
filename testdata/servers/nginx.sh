#!/usr/bin/env bash
# nginx in front of headway's own server, with proxy_buffering on and off:
# doctor and run must call the first buffered, and not the second.
#   testdata/servers/nginx.sh [SCRATCH]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if ! nginx=$(PATH=$PATH:/usr/sbin command -v nginx); then
  echo "SKIP nginx is not installed (Debian: apt-get install nginx-light)" >&2
  exit 75
fi
open_scratch "${1:-}"

port=$(free_port)
start serve.log ./headway serve --addr "127.0.0.1:$port" --executor sim --law slots=16,ttft=20ms,itl=5ms
await "http://127.0.0.1:$port/health" 30 serve.log
metrics="http://127.0.0.1:$port/metrics"

# proxy BUFFERING PORT starts an nginx of one worker as this user. HTTP/1.0 is
# the default towards a server in the nginx of Debian; with 1.1 and a chunked answer
# nginx passes every chunk on at once, buffering or not.
proxy() {
  local dir=$PWD/nginx-$1
  mkdir -p "$dir"
  cat >"$dir/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $dir/pid; error_log $dir/error.log;
events {}
http {
  access_log off;
  client_body_temp_path $dir/body; proxy_temp_path $dir/proxy;
  fastcgi_temp_path $dir/fastcgi; uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
  server {
    listen 127.0.0.1:$2;
    location / { proxy_pass http://127.0.0.1:$port; proxy_buffering $1; proxy_http_version 1.0; }
  }
}
CONF
  start "$dir/log" "$nginx" -e "$dir/error.log" -c "$dir/nginx.conf"
  await "http://127.0.0.1:$2/health" 15 "$dir/log"
}

for buffering in on off; do
  front=$(free_port)
  proxy "$buffering" "$front"
  want=$([ $buffering = on ] && echo True || echo False)

  doctor "nginx-$buffering" "http://127.0.0.1:$front"
  got=$(told "nginx-$buffering" 't["stream"]["buffered"]')
  check "doctor, proxy_buffering $buffering" "$([ "$got" = "$want" ] && echo 0 || echo 1)" "buffered: $got, ITL $(told "nginx-$buffering" 't["stream"]["itl_mean_ms"]') ms"

  before_requests=$(counter "$metrics" vllm:request_success_total)
  before_tokens=$(counter "$metrics" vllm:generation_tokens_total)
  ladder "nginx-$buffering" "http://127.0.0.1:$front" --concurrency 2 --input-tokens 64 --output-tokens 48 \
    --warmup 500ms --measure 3s --min-requests 5
  same "nginx-$buffering requests" completed "$(field "nginx-$buffering" 'total("completed")')" "$(($(counter "$metrics" vllm:request_success_total) - before_requests))"
  same "nginx-$buffering tokens" output "$(field "nginx-$buffering" 'total("output_tokens")')" "$(($(counter "$metrics" vllm:generation_tokens_total) - before_tokens))"
  got=$(field "nginx-$buffering" '"buffered_stream" in [w["code"] for g in r["rungs"] for w in g["warnings"]]')
  check "run, proxy_buffering $buffering" "$([ "$got" = "$want" ] && echo 0 || echo 1)" "buffered_stream: $got, mean ITL $(field "nginx-$buffering" 'r["rungs"][0]["itl_ms"]["mean"]')"
done
finish
