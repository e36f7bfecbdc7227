"""Explain a ladder by the step times of the bundled server.

Usage: python3 step_times.py EMISSION_LOG RESULT

EMISSION_LOG is what `headway serve --emission-log` wrote, or a run with
--set target.serve.emission-log=FILE. RESULT is the run's result.json. Output is
two Markdown tables: step time against the rows that a step computes, and the
throughput that follows from them beside the one that the client measured.

A row is one position of one sequence: a decoding sequence brings one, a prompt
as many as it has tokens. The cpu executor takes up to 8 rows through the model
in one pass over the weights. A step's tokens leave one right after another; the
next step begins when a stream that has had its token gets another one, or after
a pause. A step's time is from its first token to that of the step before, and
is counted only while requests are in flight all along.
"""

import json
import statistics
import sys

LANES = 8
PAUSE_NS = 400_000


def steps(log):
    """Yields (rows, time in ms, tokens) of each step."""
    tokens = []
    with open(log) as lines:
        next(lines)
        for number, line in enumerate(lines):
            request = json.loads(line)
            for i, at in enumerate(request["token_ns"]):
                rows = 1 if i else request["prompt_tokens"]
                tokens.append((at, number, rows, i == len(request["token_ns"]) - 1))
    tokens.sort()
    step, last = [], None
    for token in tokens:
        if step and (token[0] - step[-1][0] > PAUSE_NS or any(token[1] == other[1] for other in step)):
            yield from timed(step, last)
            last = step
            step = []
        step.append(token)
    yield from timed(step, last)


def timed(step, last):
    """Yields the step's figures when its beginning is known."""
    if last is None:
        return
    ended = {stream for _, stream, _, final in last if final}
    going = {stream for _, stream, _, _ in last} - ended
    if going and going <= {stream for _, stream, _, _ in step}:
        yield sum(rows for _, _, rows, _ in step), (step[0][0] - last[0][0]) / 1e6, len(step)


def line(points):
    """Fits t = a + b*x by least squares."""
    mx = statistics.fmean(x for x, _ in points)
    mt = statistics.fmean(t for _, t in points)
    b = sum((x - mx) * (t - mt) for x, t in points) / sum((x - mx) ** 2 for x, _ in points)
    return mt - b * mx, b


def main(log, result):
    by_rows = {}
    for rows, ms, _ in steps(log):
        by_rows.setdefault(rows, []).append(ms)
    median = {rows: statistics.median(times) for rows, times in by_rows.items() if len(times) >= 20}
    a, b = line([(rows, ms) for rows, ms in median.items() if rows <= LANES])
    full = a + b * LANES

    def step_ms(rows):
        whole, rest = divmod(rows, LANES)
        return whole * full + (a + b * rest if rest else 0)

    print(f"step = {a:.2f} ms + {b:.3f} ms a row, up to {LANES} rows; then further passes\n")
    print("| rows | passes | steps | measured, ms (median) | by the line, ms |")
    print("|---:|---:|---:|---:|---:|")
    for rows in sorted(median):
        if rows <= LANES or rows % LANES == 0:
            print(f"| {rows} | {-(-rows // LANES)} | {len(by_rows[rows])} | {median[rows]:.2f} | {step_ms(rows):.2f} |")

    with open(result) as file:
        run = json.load(file)
    print("\n| users | output tok/s by the step times | measured | measured / predicted |")
    print("|---:|---:|---:|---:|")
    for rung in run["rungs"]:
        users = rung["concurrency"]
        prompt, output = round(rung["input_tokens"]["mean"]), round(rung["output_tokens"]["mean"])
        # While one user's request lasts, each user brings one prompt, spread
        # over the steps; in the other steps all users decode.
        ms = users * step_ms(users - 1 + prompt) + max(0, output - users) * step_ms(users)
        predicted = users * output / ms * 1e3
        measured = rung["output_token_throughput_per_s"]
        print(f"| {users} | {predicted:.0f} | {measured:.0f} | {measured / predicted:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
