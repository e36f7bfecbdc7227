"""Ask a server everything that headway's own server promises, through the
official OpenAI client.

    pip install openai
    headway serve --executor sim --law ttft=1ms,itl=1ms --max-model-len 512 &
    python testdata/openai_client.py http://127.0.0.1:8000/v1

Ends with status 0 and one line a check, or with the first check that fails.
"""
import sys

import openai


def check(name, ok, seen):
    if not ok:
        sys.exit(f"FAIL {name}: {seen!r}")
    print(f"ok   {name}")


def refused(kind, ask):
    """Return the error of class kind that ask raises."""
    try:
        seen = ask()
    except kind as error:
        return error
    except openai.APIError as error:
        seen = error
    sys.exit(f"FAIL: want {kind.__name__}, got {seen!r}")


def main(url):
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    models = client.models.list().data
    check("one model", len(models) == 1, models)
    model = models[0].id
    messages = [{"role": "user", "content": "Who goes there?"}]

    chat = client.chat.completions.create(model=model, messages=messages, max_tokens=7, seed=1)
    choice = chat.choices[0]
    check("chat text", choice.message.role == "assistant" and choice.message.content, choice)
    check("chat finish", choice.finish_reason == "length", choice)
    usage = chat.usage
    check("chat usage", usage.completion_tokens == 7 and usage.total_tokens == usage.prompt_tokens + 7, usage)

    events = list(client.chat.completions.create(model=model, messages=messages, max_completion_tokens=7, seed=1, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
    check("chat stream text is the same", text == choice.message.content, text)
    check("chat stream role first", events[0].choices[0].delta.role == "assistant", events[0])
    check("chat stream finish", events[-2].choices[0].finish_reason == "length", events[-2])
    check("chat stream usage", not events[-1].choices and events[-1].usage == usage, events[-1])

    whole = client.completions.create(model=model, prompt="Once upon", max_tokens=5, seed=2)
    check("completion", whole.choices[0].text and whole.usage.completion_tokens == 5, whole)
    events = list(client.completions.create(model=model, prompt="Once upon", max_tokens=5, seed=2, stream=True,
                                            stream_options={"include_usage": True}))
    text = "".join(e.choices[0].text for e in events if e.choices)
    check("completion stream text is the same", text == whole.choices[0].text, text)
    check("completion stream usage", events[-1].usage == whole.usage, events[-1])

    both = client.completions.create(model=model, prompt=[[1, 2, 3], [4, 5]], max_tokens=2, n=2)
    check("two prompts by ids, two choices each", [c.index for c in both.choices] == [0, 1, 2, 3], both)
    check("usage of all choices", both.usage.prompt_tokens == 5 and both.usage.completion_tokens == 8, both.usage)

    likely = client.chat.completions.create(model=model, messages=messages, max_tokens=2, logprobs=True, top_logprobs=2)
    content = likely.choices[0].logprobs.content
    check("logprobs", len(content) == 2 and all(t.logprob <= 0 and len(t.top_logprobs) == 2 for t in content), content)

    running = list(client.completions.create(model=model, prompt="a", max_tokens=3, stream=True,
                                             extra_body={"ignore_eos": True, "return_token_ids": True},
                                             stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [e.usage.completion_tokens for e in running]
    check("running usage", counts == [1, 2, 3, 3], counts)

    error = refused(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=messages))
    check("unknown model is 404", error.status_code == 404 and "no-such-model" in error.message, error)
    limit = models[0].max_model_len
    error = refused(openai.BadRequestError, lambda: client.completions.create(model=model, prompt=[1] * (limit + 1), max_tokens=1))
    check("prompt too long is 400", error.status_code == 400 and str(limit) in error.message, error)
    error = refused(openai.BadRequestError, lambda: client.completions.create(model=model, prompt="a", max_tokens=0))
    check("bad value is 400 and names the field", error.param == "max_tokens", error.body)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/v1")
