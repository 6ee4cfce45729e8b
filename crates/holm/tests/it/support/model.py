"""A model server for tests: speaks as much of the interfaces of Anthropic and of Gemini as their coding
agents need. Its first answer is a call of the tool that writes a file, its second says that it is done.

Run inside a workspace, where the agents are: `python3 model.py PORT`.
"""

import http.server
import json
import os
import re
import sys

DONE = "the file is written"


def wanted(text):
    """What is to be written where: the message says `write NAME: CONTENT`."""
    found = re.search(r"write ([\w./-]+): ([\w ]+)", text)
    return (os.path.join(os.getcwd(), found[1]), found[2] + "\n") if found else None


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        print(*words, file=sys.stderr, flush=True)

    def do_GET(self):
        self.answer("application/json", b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = json.loads(body or b"{}")
        print(self.path, body[:200], file=sys.stderr, flush=True)
        if self.path.startswith("/v1/messages/count_tokens"):
            self.answer("application/json", b'{"input_tokens": 1}')
        elif self.path.startswith("/v1/messages"):
            self.anthropic(request)
        elif "enerateContent" in self.path:
            self.gemini(request)
        else:
            self.answer("application/json", b"{}")

    def anthropic(self, request):
        tools = [tool.get("name") for tool in request.get("tools", [])]
        text = json.dumps(request.get("messages"))
        write = wanted(text)
        if "Write" in tools and write and "tool_result" not in text:
            given = {"file_path": write[0], "content": write[1]}
            start = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
            block, why = {**start, "input": given}, "tool_use"
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": DONE}
            block, why = {"type": "text", "text": DONE}, "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage,
                   "model": request.get("model"), "stop_reason": None, "stop_sequence": None}
        if not request.get("stream"):
            whole = {**message, "content": [block], "stop_reason": why}
            return self.answer("application/json", json.dumps(whole).encode())
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self.answer("text/event-stream", "".join(lines).encode())

    def gemini(self, request):
        tools = json.dumps(request.get("tools", []))
        text = json.dumps(request.get("contents"))
        write = wanted(text)
        if "write_file" in tools and write and "functionResponse" not in text:
            call = {"name": "write_file", "args": {"file_path": write[0], "content": write[1]}}
            part = {"functionCall": call}
        elif tools != "[]":
            part = {"text": DONE}
        else:
            # One of the questions that the agent asks for itself.
            part = {"text": '{"complexity_reasoning": "-", "complexity_score": 1, "next_speaker": "user"}'}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        content = {"role": "model", "parts": [part]}
        whole = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        if "stream" in self.path:
            return self.answer("text/event-stream", f"data: {json.dumps(whole)}\r\n\r\n".encode())
        self.answer("application/json", json.dumps(whole).encode())

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
