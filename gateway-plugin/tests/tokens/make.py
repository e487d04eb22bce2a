#!/usr/bin/env python3
"""Makes cases.json: requests, and the token ids that the Python stack of an engine gives them.

    pip install transformers tokenizers jinja2
    python make.py            # writes cases.json beside this file

Two small tokenizers are trained on the text below, in the two styles in use: byte-level BPE behind a GPT-like split, and
BPE behind a metaspace with byte fallback. Five models have a chat template each, in the styles in use; none is copied from a
model. For every request the conversation is brought into the form in which vLLM hands it to `apply_chat_template`
(`engine_view`, after `vllm/entrypoints/chat_utils.py`), rendered, and encoded without special tokens; completions are
encoded with them. What is written down is what `transformers` says, never what this repository's own code says.
"""

import copy
import json
import pathlib
import tempfile

import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SPECIALS = [
    "<|begin|>", "<|end|>", "<|head|>", "<|body|>", "<|eot|>", "<|im_start|>", "<|im_end|>", "<|pad|>",
]
PLAIN_ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]

TEXT = """
A gateway sends each request to the worker that has most of it in its cache. The user asks, the assistant answers, and the
system says how. What is the weather in Paris, in Berlin, in Tokyo? It is 21 degrees and sunny; tomorrow it will rain.
def prefix(tokens, block): return [tokens[i:i + block] for i in range(0, len(tokens), block)]
You are a helpful assistant. You have tools: call them with JSON arguments such as {"city": "Paris", "unit": "celsius"}.
{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {"type":
"object", "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
"required": ["city"]}}} Let me think about it step by step. First, the blocks; then the chains; then the tips.
Größe, façade, naïve, Ærøskøbing, Пример текста, 日本語のテキスト, 한국어, مرحبا, हिन्दी, 😀🎉. It's what they've said: we'll see, I'd go.
Numbers: 1, 12, 123, 1234, 12345, 3.14159, 1e-7. Code: if (a && b) { return x->y; } // comment <b>bold</b> &amp; more.
The quick brown fox jumps over the lazy dog. Sphinx of black quartz, judge my vow. Pack my box with five dozen jugs.
"""

# A template in the manner of Llama 3: a header for each role, BOS written by the template, tools in the first message.
HEADED = """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|body|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Tools: call one with JSON.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|body|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|body|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|head|>ipython<|body|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|body|>\\n\\n' }}
{%- endif %}
"""

# ChatML with a default system message, and the mark that training uses.
CHATML = """{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{% endif %}
{% if message['role'] == 'assistant' %}
{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] }}{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{% else %}
{{ '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>' ~ '\\n' }}
{% endif %}
{% endfor %}
{% if documents %}{% for d in documents %}{{ '[' ~ d.title ~ '] ' ~ d['text'] ~ '\\n' }}{% endfor %}{% endif %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

# Reasoning: dropped from all turns but the present one, switched off by an option; tool calls as tagged JSON.
REASONING = """{%- macro calls(message) -%}
    {%- for tool_call in message.tool_calls -%}
        {%- if tool_call.function is defined -%}{%- set tool_call = tool_call.function -%}{%- endif -%}
        {{- '\\n<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' -}}
        {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson -}}
        {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
{%- endmacro -%}
{%- set ns = namespace(last=messages|length - 1, found=false) -%}
{%- for message in messages[::-1] -%}
    {%- if not ns.found and message.role == 'user' and not (message.content is string and message.content.startswith('<tool_response>')) -%}
        {%- set ns.last = messages|length - 1 - loop.index0 -%}
        {%- set ns.found = true -%}
    {%- endif -%}
{%- endfor -%}
{%- if tools -%}
    {{- '<|im_start|>system\\n' -}}
    {%- if messages[0].role == 'system' -%}{{- messages[0].content + '\\n\\n' -}}{%- endif -%}
    {{- '# Tools\\n\\n<tools>' -}}
    {%- for tool in tools -%}{{- '\\n' -}}{{- tool | tojson -}}{%- endfor -%}
    {{- '\\n</tools><|im_end|>\\n' -}}
{%- elif messages[0].role == 'system' -%}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else '' -%}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' -}}
    {%- elif message.role == 'assistant' -%}
        {%- set reasoning = '' -%}
        {%- if message.reasoning_content is string -%}
            {%- set reasoning = message.reasoning_content -%}
        {%- elif '</think>' in content -%}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') -%}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
        {%- endif -%}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) -%}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') -}}
        {%- else -%}
            {{- '<|im_start|>assistant\\n' + content -}}
        {%- endif -%}
        {%- if message.tool_calls -%}{{- calls(message) -}}{%- endif -%}
        {{- '<|im_end|>\\n' -}}
    {%- elif message.role == 'tool' -%}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' -}}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""

# In the manner of Mistral: instructions in brackets, strict alternation, tools before the last user message (`tool_use`).
INST = """{{ bos_token }}{% for message in messages %}
{%- if message['role'] == 'user' %}{% if not loop.last and loop.nextitem['role'] == 'user' %}{{ raise_exception('Roles must alternate') }}{% endif %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}
{%- elif message['role'] == 'system' %}{{ '[INST] ' + message['content'] + '\\n\\n' }}
{%- else %}{{ raise_exception('Only user, system and assistant roles are supported!') }}{% endif %}
{%- endfor %}"""
INST_TOOLS = """{%- set user_messages = messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""

# Content in parts, as multimodal models have it.
PARTS = """{% for message in messages %}{{ '<|head|>' + message.role + '<|body|>' }}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% elif part['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{{ '<|eot|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|head|>assistant<|body|>' }}{% endif %}"""


def byte_level():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    split = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(split), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIALS, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in PLAIN_ADDED])
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1", special_tokens=[("<|begin|>", begin)]),
    ])
    return tokenizer


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=specials, show_progress=False, max_token_length=8)
    tokenizer.train_from_iterator(corpus(), trainer)
    data = json.loads(tokenizer.to_str())
    # Bytes are vocabulary, not tokens that a text can name.
    data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    names = ["[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", begin)])
    return tokenizer


def corpus():
    lines = [line for line in TEXT.splitlines() if line] + [HEADED, CHATML, REASONING, INST, INST_TOOLS]
    return [line for line in lines for _ in range(3)]


# What vLLM makes of a request before it asks for a rendering.
def engine_view(request, parts):
    messages = []
    for message in copy.deepcopy(request["messages"]):
        content = message.get("content")
        texts = [] if content is None else [content] if isinstance(content, str) else [
            part if isinstance(part, str) else part["text"] for part in content
        ]
        out = {"role": message["role"], "content": [{"type": "text", "text": text} for text in texts] if parts else "\n".join(texts)}
        if message["role"] == "assistant":
            if message.get("tool_calls"):
                out["tool_calls"] = [tool_call(call) for call in message["tool_calls"]]
            reasoning = message.get("reasoning", message.get("reasoning_content"))
            if reasoning is not None:
                out["reasoning"] = out["reasoning_content"] = reasoning
        elif message["role"] == "tool" and "tool_call_id" in message:
            out["tool_call_id"] = message["tool_call_id"]
        if isinstance(message.get("name"), str):
            out["name"] = message["name"]
        messages.append(out)
    tools = request.get("tools")
    if tools is not None:
        tools = [
            {"type": tool.get("type", "function"), "function": ordered({"description": None, "parameters": None, **tool["function"]}, ["name", "description", "parameters"])}
            for tool in tools
        ]
    return messages, tools


def tool_call(call):
    function = dict(call["function"])
    arguments = function.get("arguments")
    function["arguments"] = (arguments if isinstance(arguments, (dict, list)) else json.loads(arguments)) if arguments else {}
    return ordered({**call, "function": ordered(function, ["arguments", "name"])}, ["id", "function", "type"])


def ordered(of, first):
    return {**{key: of[key] for key in first if key in of}, **{key: value for key, value in of.items() if key not in first}}


def chat_ids(tokenizer, request, parts):
    messages, tools = engine_view(request, parts)
    is_open = request.get("continue_final_message", False)
    kwargs = dict(request.get("chat_template_kwargs") or {})
    if request.get("reasoning_effort") is not None:
        kwargs["reasoning_effort"] = request["reasoning_effort"]
    text = tokenizer.apply_chat_template(
        messages, tools=tools, documents=request.get("documents"), chat_template=request.get("chat_template"), tokenize=False,
        add_generation_prompt=request.get("add_generation_prompt", not is_open), continue_final_message=is_open, **kwargs,
    )
    return tokenizer.encode(text, add_special_tokens=request.get("add_special_tokens", False))


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a <city> & more", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1.0}}, "required": ["city"]}}}
BARE = {"function": {"name": "now", "strict": True}, "type": "function"}
CALL = {"type": "function", "id": "call12345", "function": {"name": "get_weather", "arguments": "{\"days\": 2, \"city\": \"Zürich\"}"}}
SAID = [
    "Hello!", "  What is the weather in Paris?  ", "Größe 日本語 😀 <b>&amp;</b> \"quoted\" it's\n\n\nlines\tand tabs ",
    "A text that names <|im_end|> and <|eot|> and [INST] and </s> inside.", "def f(x):\n    return x + 1\n", "12345 67 8.9e-7",
]


def conversations():
    yield [{"role": "user", "content": SAID[0]}]
    yield [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": SAID[1]}]
    yield [{"role": "user", "content": SAID[2]}, {"role": "assistant", "content": SAID[4]}, {"role": "user", "content": SAID[5]}]
    yield [{"role": "system", "content": "S"}] + [
        {"role": role, "content": f"{SAID[(turn + at) % len(SAID)]} ({turn})"}
        for turn in range(6) for at, role in enumerate(["user", "assistant"])
    ] + [{"role": "user", "content": SAID[3]}]
    yield [{"role": "user", "content": [{"type": "text", "text": "one"}, {"text": " two", "type": "text"}, "three"]}]
    yield [{"role": "user", "content": "x", "name": "ann", "extra": 1}, {"role": "assistant", "content": None}, {"role": "user", "content": ""}]
    yield [{"role": "user", "content": "why?"}, {"role": "assistant", "reasoning_content": "Let me think.\nTwo lines.\n", "content": "Because."}, {"role": "user", "content": "ok"}]
    yield [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nBecause."}, {"role": "user", "content": "ok"}]


def with_tools():
    asked = [{"role": "user", "content": "Weather?"}]
    called = asked + [{"role": "assistant", "content": "", "reasoning": "I need a tool", "tool_calls": [CALL]},
                      {"role": "tool", "tool_call_id": "call12345", "content": "{\"t\": 21.0}"}]
    yield {"messages": asked, "tools": [WEATHER]}
    yield {"messages": asked, "tools": [BARE, WEATHER]}
    yield {"messages": called, "tools": [WEATHER]}
    yield {"messages": called + [{"role": "assistant", "content": "21 degrees."}, {"role": "user", "content": "And now?"}], "tools": [WEATHER, BARE]}
    yield {"messages": asked + [{"role": "assistant", "content": "", "tool_calls": [CALL, {**CALL, "id": "call67890"}]}], "tools": [WEATHER]}
    yield {"messages": asked + [{"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call12345", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "tools": [WEATHER]}


def options(name):
    user = [{"role": "user", "content": "Hi"}]
    yield {"messages": user, "add_generation_prompt": False}
    yield {"messages": user, "add_special_tokens": True}
    yield {"messages": user, "chat_template_kwargs": {"enable_thinking": False}}
    yield {"messages": user, "chat_template_kwargs": {"enable_thinking": True, "custom": [1, None]}, "reasoning_effort": "low"}
    yield {"messages": user, "documents": [{"title": "T", "text": "Doc text é"}]}
    yield {"messages": user, "tools": []}
    if name in ("headed", "chatml", "parts"):
        for ending in ["Once upon", "Once upon a time, ", "Lines\n\n"]:
            yield {"messages": user + [{"role": "assistant", "content": ending}], "continue_final_message": True, "add_generation_prompt": False}
    if name == "inst":
        yield {"messages": user, "chat_template": "tool_use"}


def completions():
    for text in SAID + ["", "<|begin|>already there", " leading", "trailing  ", "a</s>b <s> c"]:
        yield {"prompt": text}
    yield {"prompt": [SAID[2]]}
    yield {"prompt": SAID[1], "add_special_tokens": False}


def main():
    tokenizers = {"byte_level": byte_level(), "metaspace": metaspace()}
    named = {
        "byte_level": {"bos_token": "<|begin|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"},
        "metaspace": {"bos_token": "<s>", "eos_token": {"content": "</s>", "__type": "AddedToken", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}},
    }
    models_ = [
        ("headed", "byte_level", HEADED, False), ("chatml", "byte_level", CHATML, False), ("reasoning", "byte_level", REASONING, False),
        ("inst", "metaspace", [{"name": "default", "template": INST}, {"name": "tool_use", "template": INST_TOOLS}], False),
        ("parts", "byte_level", PARTS, True),
    ]
    out = {"made_with": f"transformers {transformers.__version__}", "tokenizers": {}, "models": [], "cases": []}
    for name, tokenizer in tokenizers.items():
        out["tokenizers"][name] = json.loads(tokenizer.to_str())
    refused = 0
    for name, base, template, parts in models_:
        config = {**named[base], "chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast"}
        out["models"].append({"name": name, "tokenizer": base, "config": config})
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            tokenizers[base].save(str(path / "tokenizer.json"))
            (path / "tokenizer_config.json").write_text(json.dumps(config))
            tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
        requests = [{"messages": messages} for messages in conversations()] + list(with_tools()) + list(options(name))
        for request in requests:
            try:
                ids = chat_ids(tokenizer, request, parts)
            except Exception as error:  # the template refuses the conversation, as it may
                ids, refused = None, refused + 1
                print(f"{name}: refused: {str(error)[:80]}")
            out["cases"].append({"model": name, "api": "chat", "request": request, "ids": ids})
        if name in ("chatml", "inst"):
            for request in completions():
                prompt = request["prompt"] if isinstance(request["prompt"], str) else request["prompt"][0]
                ids = tokenizer.encode(prompt, add_special_tokens=request.get("add_special_tokens", True))
                out["cases"].append({"model": name, "api": "completions", "request": request, "ids": ids})
    text = json.dumps(out, ensure_ascii=False, separators=(",", ":"))
    (HERE / "cases.json").write_text(text + "\n")
    print(len(out["cases"]), "cases,", refused, "refused,", len(text.encode()), "bytes")


if __name__ == "__main__":
    main()
