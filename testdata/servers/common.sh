# Functions that the scripts of this folder share. A script is called with a
# scratch folder, which keeps what was installed for the next call; without
# one it takes a temporary folder and removes it at the end. It prints a line a
# check, PASS or FAIL with the figures, and ends with status 1 when one failed.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
failures=0
started=() # process ids

# skip REASON ends the script with status 75: this machine lacks something.
skip() {
  echo "SKIP $(basename "$0"): $1"
  exit 75
}

# open_scratch enters the scratch folder and builds headway there.
open_scratch() {
  local tool
  for tool in go curl python3; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
  done
  if [ -n "${1:-}" ]; then
    mkdir -p "$1"
    scratch=$(cd "$1" && pwd)
    trap stop_all EXIT
  else
    scratch=$(mktemp -d)
    trap 'stop_all; rm -rf "$scratch"' EXIT
  fi
  (cd "$repo" && go build -o "$scratch/headway" ./cmd/headway)
  cd "$scratch"
  bundles=$(mktemp -d "$scratch/bundles.XXXXXX")
}

# stop_all ends what start started.
stop_all() {
  local pid
  for pid in "${started[@]}"; do
    kill "$pid" 2>/dev/null || continue
    wait "$pid" 2>/dev/null || true
  done
  started=()
}

# start LOG COMMAND... runs a command until the script ends.
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  started+=($!)
}

# await URL SECONDS LOG waits until the URL answers with success, or shows the
# end of the log and gives up.
await() {
  local deadline=$((SECONDS + $2))
  until curl -sf -o /dev/null -m 5 "$1"; do
    if ((SECONDS > deadline)) || ! kill -0 "${started[-1]}" 2>/dev/null; then
      echo "FAIL $1 does not answer; the end of $3:"
      tail -n 20 "$3"
      exit 1
    fi
    sleep 0.5
  done
}

# python_env NAME PACKAGE... makes a virtual environment with packages, once.
python_env() {
  local name=$1
  shift
  [ -e "$name/complete" ] && return
  python3 -m venv "$name" || skip "python3 makes no virtual environment"
  "$name/bin/pip" install -q --disable-pip-version-check "$@" || skip "pip can't install $*"
  touch "$name/complete"
}

# free_port prints a port of 127.0.0.1 that nobody listens on.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# check NAME OK FIGURES notes a check; OK is 0 when it held.
check() {
  if [ "$2" = 0 ]; then
    echo "PASS $1: $3"
  else
    echo "FAIL $1: $3"
    failures=$((failures + 1))
  fi
}

# counter URL NAME prints the sum of a counter over its labels, 0 when the
# page has none.
counter() {
  curl -sf "$1" | awk -v name="$2" '
    $1 == name || index($1, name "{") == 1 {sum += $NF}
    END {printf "%.0f\n", sum}'
}

# ladder NAME URL FLAG... runs headway against a server, keeps the bundle as
# $bundles/NAME, checks that the ladder was finished and shows it. Rungs may be
# invalid, as on a busy machine: what is counted here counts all the same.
ladder() {
  local name=$1 url=$2 ok=0
  shift 2
  ./headway run --target "$url" --no-progress --out "$bundles/$name" "$@" >"$name.log" 2>&1 || true
  if [ ! -e "$bundles/$name/result.json" ]; then
    echo "FAIL $name: no result; the end of the log:"
    tail -n 20 "$name.log"
    exit 1
  fi
  [ "$(field "$name" 'r["status"]')" = complete ] || ok=1
  check "$name" "$ok" "$(field "$name" 'r["status"]'), failures $(field "$name" 'failures()'), $(field "$name" 'reconnects()') reconnects"
  field "$name" 'shape()'
}

# field NAME EXPRESSION prints a Python expression of a bundle's result r.
field() {
  python3 - "$bundles/$1/result.json" "$2" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
total = lambda key: sum(rung["totals"][key] for rung in r["rungs"])
failures = lambda: {c: n for rung in r["rungs"] for c, n in rung["requests"]["failures"].items() if n}
reconnects = lambda: sum(rung["requests"]["reconnects"] for rung in r["rungs"])
def shape():
    row = "     N=%-4s in flight %-6.4g %6.4g req/s %8.5g tok/s  completed %s failed %s  %s %s"
    rows = [row % (g["concurrency"], g["in_flight_mean"] or 0, g["request_throughput_per_s"] or 0, g["output_token_throughput_per_s"] or 0,
                   g["totals"]["completed"], g["totals"]["failed"], g["verdict"], ",".join(x["code"] for x in g["reasons"])) for g in r["rungs"]]
    return "\n".join(rows + ["     knee: %s at %s in flight" % (r["knee"]["status"], r["knee"]["in_flight"])])
print(eval(sys.argv[2]))
PY
}

# same NAME WHAT OURS THEIRS checks that two counts are one.
same() {
  local ok=1
  [ "$3" = "$4" ] && ok=0
  check "$1" "$ok" "$2: headway counts $3, the server $4"
}

# doctor NAME URL FLAG... keeps what doctor says of a server as
# NAME-doctor.json, and checks that it could examine all of it.
doctor() {
  local name=$1 url=$2 code=0
  shift 2
  ./headway doctor --target "$url" --format json "$@" >"$name-doctor.json" 2>"$name-doctor.log" || code=$?
  check "$name by doctor" "$code" "exit $code$(sed 's/^/, /' "$name-doctor.log")"
}

# told NAME EXPRESSION prints a Python expression of what doctor said of the
# target t, and of the client c.
told() {
  python3 - "$1-doctor.json" "$2" <<'PY'
import json, sys
page = json.load(open(sys.argv[1]))
c, t = page["client"], page["target"]
print(eval(sys.argv[2]))
PY
}

# says NAME WHAT EXPRESSION checks an expression of what doctor said.
says() {
  local ok=1
  [ "$(told "$1" "$3")" = True ] && ok=0
  check "$1 by doctor" "$ok" "$2"
}

# named NAME IDENTITY checks that the run of a bundle, and doctor before, both
# call the server by its engine and version.
named() {
  local ok=1 run page
  run=$(field "$1" 'r["server"]["engine"] + " " + r["server"]["version"]')
  page=$(told "$1" 't["engine"] + " " + t["version"]')
  [[ $run == "$2" && $page == "$2" ]] && ok=0
  check "$1 is named" "$ok" "$run by run, $page by doctor, because $(told "$1" 't["why"]')"
}

# measured NAME shows how much this client can read, and checks that doctor
# knows it.
measured() {
  says "$1" "$(told "$1" '"this client reads at most %.0f events/s and %.0f requests/s, at %.2f and %.2f of what a bare reader takes" % (
    c["capacity"]["events"]["max_per_s"], c["capacity"]["requests"]["max_per_s"], c["capacity"]["events"]["cpu_ratio"], c["capacity"]["requests"]["cpu_ratio"])')" \
    'all(c["capacity"][k]["max_per_s"] > 0 for k in ("events", "flooded_events", "requests"))'
}

# finish ends the script with status 1 when a check failed.
finish() {
  if ((failures)); then
    echo "FAIL $failures checks of $(basename "$0")"
    exit 1
  fi
  echo "PASS all checks of $(basename "$0")"
}
