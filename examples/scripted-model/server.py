#!/usr/bin/env python3
"""A model server that always proposes the same edit, for trying agent programs without a key.

    python3 server.py [PORT]        listens on 127.0.0.1 and prints its base URL; port 0, the default, is any free one

It answers the two OpenAI interfaces that agent programs speak, streamed when the client asks for it:

    POST /v1/responses          a tool call that applies a patch, then, once its result came back, a last message
    POST /v1/chat/completions   a message with SEARCH/REPLACE blocks, the format in which aider asks for edits
    GET  /v1/models             one model, `scripted`

The edit is for examples/sample: it welcomes everybody instead of greeting them, and changes the test to match. It
ignores the text of prompts, reaches no other machine, and needs only Python's own library. It prints one line for
each request to stderr.
"""

import http.server
import json
import sys

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
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chat_1", "created": 0, "model": "scripted"}
    message = {"role": "assistant", "content": as_blocks()}
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    chunk = {**head, "object": "chat.completion.chunk"}
    said = {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
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


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
