#!/usr/bin/env python3
"""A model server for agent programs that ask Anthropic or Google: it always asks for one command of the shell.

Prints its base URL. Once the tool's result has come back it says its last words. It reads nothing else of what it is asked,
and reaches no other machine.
"""

import http.server
import json

COMMAND = {"command": "sed -i s/Hello/Welcome/ lib/greet.sh test.sh", "description": "Welcome everybody"}
LAST_WORDS = "Everybody is welcomed now."
USAGE = {"input_tokens": 1, "output_tokens": 1}


def messages(asked):
    """An answer of Anthropic's messages, streamed or whole."""
    blocks = [block for turn in asked["messages"] if isinstance(turn["content"], list) for block in turn["content"]]
    is_done = any(block.get("type") == "tool_result" for block in blocks)
    has_shell = any(tool.get("name") == "Bash" for tool in asked.get("tools", []))
    if has_shell and not is_done:
        stop, block = "tool_use", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": COMMAND}
        begun, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(COMMAND)}
    else:
        stop, block = "end_turn", {"type": "text", "text": LAST_WORDS}
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": LAST_WORDS}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "usage": USAGE}
    if not asked.get("stream"):
        whole |= {"content": [block], "stop_reason": stop, "stop_sequence": None}
        return "application/json", json.dumps(whole)
    ended = {"stop_reason": stop, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def content(asked, is_stream):
    """An answer of Google's content generation, streamed or whole."""
    parts = [part for turn in asked.get("contents", []) for part in turn.get("parts", [])]
    is_done = any("functionResponse" in part for part in parts)
    if asked.get("generationConfig", {}).get("responseMimeType"):
        # Gemini CLI asks which model is to be taken before it begins.
        choice = {"reasoning": "easy", "model_choice": "flash", "complexity_score": 1, "complexity_reasoning": "easy"}
        part = {"text": json.dumps(choice)}
    elif asked.get("tools") and not is_done:
        part = {"functionCall": {"name": "run_shell_command", "args": COMMAND}}
    else:
        part = {"text": LAST_WORDS}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    whole = json.dumps({"candidates": [candidate], "usageMetadata": usage})
    return ("text/event-stream", f"data: {whole}\n\n") if is_stream else ("application/json", whole)


class Handler(http.server.BaseHTTPRequestHandler):
    """One request, one answer."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing."""

    def do_HEAD(self):
        self.answer(200, "text/plain", "")

    def do_GET(self):
        self.answer(200, "application/json", '{"data": [], "models": []}')

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
        if "/messages/count_tokens" in self.path:
            return self.answer(200, "application/json", '{"input_tokens": 1}')
        if "/messages" in self.path:
            return self.answer(200, *messages(asked))
        if "enerateContent" in self.path:
            return self.answer(200, *content(asked, "stream" in self.path))
        return self.answer(404, "text/plain", "no such interface here\n")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())


if __name__ == "__main__":
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
