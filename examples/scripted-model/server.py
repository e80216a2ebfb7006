#!/usr/bin/env python3
"""A model server that always proposes the same edit, for trying agent programs without a key.

    python3 server.py [PORT]        listens on 127.0.0.1 and prints its base URL; port 0, the default, is any free one
    python3 server.py COMMAND…      runs a command of `agents` with this model, and ends with it

It answers the two OpenAI interfaces that agent programs speak, streamed when the client asks for it:

    POST /v1/responses          a tool call that applies a patch, then, once its result came back, a last message
    POST /v1/chat/completions   with the tools of `agents`: a strategy, or reads, edits, a run of the test, a last message;
                                else a message with SEARCH/REPLACE blocks, the format in which aider asks for edits
    GET  /v1/models             one model, `scripted`

A command runs with settings of its own, in which this server is the only provider.

The edit is for examples/sample: it welcomes everybody instead of greeting them, and changes the test to match. It
ignores the text of prompts, reaches no other machine, and needs only Python's own library. It prints one line for
each request to stderr.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

# File, old line, new line.
EDITS = [
    ("lib/greet.sh", "    printf 'Hello, %s!\\n' \"$1\"", "    printf 'Welcome, %s!\\n' \"$1\""),
    ("test.sh", "expected=$(sed 's/.*/Hello, &!/' names.txt)", "expected=$(sed 's/.*/Welcome, &!/' names.txt)"),
]
LAST_WORDS = "Everybody is welcomed now, and the test expects it."


def as_patch():
    """The edit in the language of Codex's apply_patch."""
    lines = ["*** Begin Patch"]
    for file, old, new in EDITS:
        lines += [f"*** Update File: {file}", "@@", f"-{old}", f"+{new}"]
    return "\n".join(lines + ["*** End Patch"])


def as_blocks():
    """The edit in aider's language."""
    blocks = []
    for file, old, new in EDITS:
        blocks.append(f"{file}\n```\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```")
    return "\n\n".join(blocks + [LAST_WORDS])


STRATEGY = {
    "summary": "The greeting is in lib/greet.sh, and test.sh expects it word for word: both change together.",
    "steps": [
        {"title": "Change the greeting", "detail": "Welcome instead of Hello", "paths": ["lib/greet.sh"]},
        {"title": "Change the test", "detail": "it expects the new greeting", "paths": ["test.sh"]},
    ],
    "decisions": [
        {
            "question": "Where does the new greeting belong?",
            "chosen": "in the function that all scripts use",
            "rationale": "one place changes",
            "confidence": 0.9,
            "alternatives": [{"text": "in greet.sh", "why_not": "it only calls the function"}],
        }
    ],
}


def agents_turn(asked, tools):
    """The next turn for `agents`, as (text, calls), from the number of results that it has got so far."""
    results = sum(1 for message in asked.get("messages", []) if message.get("role") == "tool")
    reads = [("read_file", {"path": file}) for file, _, _ in EDITS]
    if "edit_file" not in tools:
        return ("I look at the greeting first.", reads[:1]) if results == 0 else (json.dumps(STRATEGY), [])
    if results < len(EDITS):
        return "I read what I am going to change.", reads
    if results < 2 * len(EDITS):
        return "Now both files change.", [
            ("edit_file", {"path": file, "old": old, "new": new}) for file, old, new in EDITS
        ]
    if results == 2 * len(EDITS):
        return "Does the test pass?", [("run_command", {"command": "sh test.sh"})]
    return LAST_WORDS, []


def chat_message(asked):
    """The message of the chat interface, and the reason why it ends."""
    tools = [tool.get("function", {}).get("name") for tool in asked.get("tools") or []]
    if "read_file" not in tools:
        return {"role": "assistant", "content": as_blocks()}, "stop"
    text, calls = agents_turn(asked, tools)
    turn = len(asked.get("messages", []))
    tool_calls = [
        {
            "index": number,
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    if not tool_calls:
        return {"role": "assistant", "content": text}, "stop"
    return {"role": "assistant", "content": text, "tool_calls": tool_calls}, "tool_calls"


def responses_item(asked):
    """Returns the one item of an answer: the tool call, or the last message after the tool's result."""
    given = asked.get("input")
    turns = given if isinstance(given, list) else []
    if any(turn.get("type") in ("function_call_output", "custom_tool_call_output") for turn in turns):
        content = [{"type": "output_text", "text": LAST_WORDS, "annotations": []}]
        return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": content}
    tools = [tool.get("name") or tool.get("type") for tool in asked.get("tools", [])]
    if "apply_patch" in tools:
        return {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": as_patch()}
    script = f"apply_patch <<'PATCH'\n{as_patch()}\nPATCH\n"
    # The name of the shell tool differs between versions and models.
    if "exec_command" in tools:
        name, arguments = "exec_command", {"cmd": script}
    elif "shell_command" in tools:
        name, arguments = "shell_command", {"command": script}
    else:
        name, arguments = "shell", {"command": ["sh", "-c", script]}
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": json.dumps(arguments)}


def responses(asked):
    """An answer of the responses interface, as (content type, bytes)."""
    item = responses_item(asked)
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    if not asked.get("stream"):
        return "application/json", json.dumps(whole).encode()
    events = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", text.encode()


def chat(asked):
    """An answer of the chat interface, as (content type, bytes)."""
    head = {"id": "chat_1", "created": 0, "model": "scripted"}
    message, reason = chat_message(asked)
    read, written = len(json.dumps(asked)) // 4, len(json.dumps(message)) // 4
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    chunk = {**head, "object": "chat.completion.chunk"}
    said = {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    text = f"data: {json.dumps(said)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"
    return "text/event-stream", text.encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """One request, one answer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "nobody"}
        models = {"object": "list", "data": [model], "models": []}
        self.answer(200, "application/json", json.dumps(models).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            asked = json.loads(body)
        except ValueError:
            return self.answer(400, "text/plain", b"the body is not JSON\n")
        if self.path.endswith("/responses"):
            return self.answer(200, *responses(asked))
        if self.path.endswith("/chat/completions"):
            return self.answer(200, *chat(asked))
        return self.answer(404, "text/plain", b"no such interface here\n")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Quiet(Handler):
    """The same without a line for each request: the command has the terminal."""

    def log_message(self, *_):
        pass


def run(server, command):
    """Runs a command whose settings name this server, and returns its exit status."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as config:
        os.mkdir(f"{config}/cleveragents")
        with open(f"{config}/cleveragents/config.toml", "w", encoding="utf-8") as settings:
            url = f"http://127.0.0.1:{server.server_port}/v1"
            settings.write(f'[providers.scripted]\nspeaks = "openai"\nurl = "{url}"\nmodel = "scripted"\n')
        return subprocess.run(command, env={**os.environ, "XDG_CONFIG_HOME": config}, check=False).returncode


if __name__ == "__main__":
    is_command = len(sys.argv) > 1 and not sys.argv[1].isdigit()
    port = int(sys.argv[1]) if len(sys.argv) > 1 and not is_command else 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Quiet if is_command else Handler) as server:
        if is_command:
            sys.exit(run(server, sys.argv[1:]))
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
