#!/usr/bin/python3
"""Uses `penstock serve` as programs do: over a socket, on a free port, with a model trained for a few steps. Checks
streams, clients that disconnect during an answer, limits (413, 429), keys (401), requests that a browser may not make,
and the end by a signal.

    serve_test.py PENSTOCK SOURCE_DIRECTORY
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import shell as shared

JSON = {"Content-Type": "application/json"}
# An answer that is long enough for a client to leave, or for the server to be stopped, before its end.
LONG = {"prompt": "the gate", "max_tokens": 200000, "temperature": 0, "stream": True}


class Server:
    def __init__(self, process, port):
        self.process, self.port = process, port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, headers=JSON):
        connection = self.connect()
        connection.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body),
                           headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    def post(self, path, body, headers=JSON):
        status, text = self.ask("POST", path, body, headers)
        return status, json.loads(text)

    def state(self):
        return json.loads(self.ask("GET", "/health")[1])

    def waits_for(self, running, waiting=0):
        for _ in range(300):
            now = self.state()
            if (now["running"], now["waiting"]) == (running, waiting):
                return True
            time.sleep(0.05)
        return False


@contextlib.contextmanager
def serving(shell, *options, model="model", environment=None, command="serve", errors=subprocess.PIPE, folder="."):
    process = subprocess.Popen([shell.program, command, model, "--port", "0", *options], text=True,
                               cwd=os.path.join(shell.directory, folder), stdout=subprocess.PIPE, stderr=errors,
                               env={**os.environ, **(environment or {})})
    try:
        line = process.stdout.readline()
        shell.expect("an address", line.count("http://") == 1, line or process.stderr.read())
        yield Server(process, int(line.rstrip().rstrip("/").rsplit(":", 1)[1]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def events_of(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]


def answers(shell):
    with serving(shell) as server:
        body = {"prompt": "the gate", "max_tokens": 12, "temperature": 0.8, "seed": 7}
        status, whole = server.post("/v1/completions", body)
        expected = json.loads(shell.ok("generate", "model", "--prompt", "the gate", "--tokens", "12", "--temperature",
                                       "0.8", "--seed", "7", "--json"))["completions"][0]
        shell.expect("the text of generate", status == 200 and whole["choices"][0]["text"] == expected["text"], whole)
        status, text = server.ask("POST", "/v1/completions", {**body, "stream": True})
        shell.expect("a stream", text.endswith("data: [DONE]\n\n") and "".join(
            event["choices"][0]["text"] for event in events_of(text)) == expected["text"], text)
        status, routing = server.post("/v1/routing", {"input": "the gate"})
        shell.expect("routing", status == 200 and len(routing["layers"]) == 6 and
                     len(routing["layers"][0]["experts"]) == len(routing["tokens"]) == 8, routing)
        status, got = server.post("/tokenize", {"prompt": "the gate"})
        ids = json.loads(shell.ok("tokenize", "model", "--text", "the gate", "--json"))["ids"]
        shell.expect("tokens", status == 200 and got["tokens"] == ids and got["count"] == len(ids), got)
        status, got = server.post("/detokenize", {"tokens": ids})
        shell.expect("their text", status == 200 and got == {"content": "the gate", "prompt": "the gate"}, got)
        models = json.loads(server.ask("GET", "/v1/models")[1])
        shell.expect("models", models["data"][0]["id"] == "model", models)
        shell.expect("a page", server.ask("GET", "/")[1].startswith("<!DOCTYPE html>"))
        metrics = server.ask("GET", "/metrics")[1]
        shell.expect("metrics", "\npenstock_written_tokens_total " in metrics and
                     'penstock_requests_total{path="/v1/completions",status="200"} 2' in metrics, metrics)
        status, chat = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
        shell.expect("chats without a template", status == 400 and "--chat-template" in chat["error"]["message"], chat)


def echo(shell):
    """Asks for log-likelihoods as lm-evaluation-harness does. They are those of `penstock eval --per-token`."""
    texts = ["the gate decides how much water each turbine gets\n", "the gate decides nothing at all"]
    requests = [list(text.encode()) for text in texts]  # the model's tokens are bytes
    expected = [scores_of_eval(shell, text) for text in texts]
    with serving(shell) as server:
        for prompt in (requests, texts, requests[0]):
            for count in (1, 0):
                status, got = server.post("/v1/completions", {"model": "model", "prompt": prompt, "temperature": 0,
                                                              "max_tokens": count, "logprobs": 1, "seed": 1234,
                                                              "echo": True})
                shell.expect("echo", status == 200, got)
                choices = sorted(got["choices"], key=lambda choice: choice["index"])
                for text, scores, choice in zip(texts, expected, choices):
                    compare_scores(shell, text, scores, choice, count)
        status, error = server.post("/v1/completions", {"prompt": [65] * 5000, "max_tokens": 1})
        shell.expect("a prompt beyond the context", status == 400 and
                     error["error"]["code"] == "context_length_exceeded", error)


def scores_of_eval(shell, text):
    with open(os.path.join(shell.directory, "scored.txt"), "w") as file:
        file.write(text)
    shell.ok("eval", "model", "--text", "scored.txt", "--per-token", "scores.jsonl", "--json")
    with open(os.path.join(shell.directory, "scores.jsonl")) as file:
        return [json.loads(line)["log_probability"] for line in file]


def compare_scores(shell, text, expected, choice, count):
    scores = choice["logprobs"]
    length = len(text)
    shell.expect("one entry a token", all(len(scores[key]) == length + count for key in
                 ("tokens", "token_logprobs", "top_logprobs", "text_offset")), scores)
    shell.expect("the echo", choice["text"].startswith(text) and scores["tokens"][:length] == list(text) and
                 scores["text_offset"] == list(range(length + count)), choice)
    shell.expect("no score of the first", scores["token_logprobs"][0] is None and scores["top_logprobs"][0] is None)
    shell.expect("scores of eval", len(expected) == length - 1 and all(
        abs(a - b) < 1e-4 for a, b in zip(scores["token_logprobs"][1:length], expected)), [scores, expected])
    # A token is the likeliest if its log-probability is the largest of its entry.
    shell.expect("the likeliest", all(own <= max(top.values()) and own in top.values() for own, top in zip(
        scores["token_logprobs"][1:], scores["top_logprobs"][1:])), scores)


def names(shell):
    """A model is called by the name of its folder, however its path is written."""
    os.symlink("model", os.path.join(shell.directory, "lr0.1"))
    with serving(shell, "--beside", "../lr0.1/", model=".", folder="model") as server:
        models = json.loads(server.ask("GET", "/v1/models")[1])["data"]
        shell.expect("names", [model["id"] for model in models] == ["model", "lr0.1"], models)


def many(shell):
    """Each of 16 simultaneous clients gets the same text as when it is the only client."""
    with serving(shell, "--sequences", "5") as server:
        body = [{"prompt": "the gate decides"[:3 + i], "max_tokens": 20, "seed": i} for i in range(16)]
        texts = [None] * 16

        def client(i):
            texts[i] = server.post("/v1/completions", body[i])[1]["choices"][0]["text"]

        clients = [threading.Thread(target=client, args=(i,)) for i in range(16)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        alone = [server.post("/v1/completions", one)[1]["choices"][0]["text"] for one in body]
        shell.expect("the same alone and beside others", texts == alone, [texts, alone])


def leaving(shell):
    with serving(shell, "--sequences", "1", "--queue", "2") as server:
        streams = []
        for i in range(3):
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps({**LONG, "seed": i}), JSON)
            streams.append(connection)
            shell.expect("a place or the queue", server.waits_for(1, i), server.state())
        shell.expect("something came", streams[0].getresponse().readline())
        status, refused = server.post("/v1/completions", {"prompt": "a"})
        shell.expect("429", status == 429 and refused["error"]["type"] == "rate_limit_error", refused)
        for connection in streams:
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
        shell.expect("places are free again", server.waits_for(0), server.state())
        waiting = server.connect()
        waiting.request("POST", "/v1/completions", json.dumps({**LONG, "stream": False}), JSON)
        shell.expect("one that waits", server.waits_for(1), server.state())
        waiting.close()
        shell.expect("its place is free though no token was sent", server.waits_for(0), server.state())
        half = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps({"prompt": "a", "max_tokens": 300, "temperature": 0})
        half.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        half.shutdown(socket.SHUT_WR)
        shell.expect("the answer to one that sends no more", '"finish_reason":"length"' in
                     b"".join(iter(lambda: half.recv(65536), b"")).decode())
        shell.expect("and used", server.post("/v1/completions", {"prompt": "a", "max_tokens": 3})[0] == 200)
        shell.expect("counted", "\npenstock_clients_left_total 4\n" in server.ask("GET", "/metrics")[1])


def limits(shell):
    with serving(shell, "--body-bytes", "2000") as server:
        status, error = server.post("/v1/completions", {"prompt": "a" * 3000})
        shell.expect("413", status == 413 and error["error"]["message"], error)
        status, error = server.post("/v1/completions", b"[" * 1999)
        shell.expect("deep JSON", status == 400, error)
        for body, wrong in (({"prompt": "a", "max_tokens": 0}, "max_tokens"), ({"prompt": 5}, "prompt"),
                            ({"prompt": "a", "temperature": "hot"}, "temperature"), ({}, "prompt")):
            status, error = server.post("/v1/completions", body)
            shell.expect("400", status == 400 and error["error"]["param"] == wrong, error)
        shell.expect("another type", server.ask("POST", "/v1/completions", "{}", {"Content-Type": "text/plain"})[0] == 415)
        shell.expect("another name", server.ask("GET", "/health", headers={"Host": "elsewhere.example"})[0] == 403)
        shell.expect("no such path", server.ask("GET", "/etc/passwd")[0] == 404)
        for method in ("DELETE", "BREW"):
            shell.expect("no such method", server.ask(method, "/v1/models")[0] == 405)
        for request, status in ((b"\x00\xff nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000, b"431"),
                                (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
                                (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n", b"413")):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.settimeout(30)
                raw.sendall(request)
                seen = b"".join(iter(lambda: raw.recv(65536), b""))
                shell.expect("a refusal", seen.startswith(b"HTTP/1.1 " + status) and b'"error"' in seen, seen)
        shell.expect("still there", server.state()["status"] == "ok")


def keys(shell):
    shell.mistake(1, ["0.0.0.0", "--without-key"], "serve", "model", "--host", "0.0.0.0")
    with open(os.path.join(shell.directory, "key"), "w") as file:
        file.write("\n")
    shell.mistake(1, ["penstock: key: is empty; a key has a character or more"], "serve", "model", "--api-key-file", "key")
    shell.mistake(2, ["--api-key: is empty"], "serve", "model", "--api-key", "")
    done = subprocess.run([shell.program, "serve", "model"], cwd=shell.directory, capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PENSTOCK_API_KEY": ""})
    shell.expect("an empty variable", done.returncode == 1 and "PENSTOCK_API_KEY: is empty" in done.stderr, done.stderr)
    with serving(shell, environment={"PENSTOCK_API_KEY": "secret"}) as server:
        ask = {"prompt": "a", "max_tokens": 2}
        shell.expect("401", server.post("/v1/completions", ask)[0] == 401)
        shell.expect("401", server.post("/v1/completions", ask, {**JSON, "Authorization": "Bearer other"})[0] == 401)
        shell.expect("200", server.post("/v1/completions", ask, {**JSON, "Authorization": "Bearer secret"})[0] == 200)


def says_that_it_stops(server):
    """Whether /health and texts are refused within a second, while a text goes on."""
    for _ in range(20):
        status, text = server.ask("GET", "/health")
        if status == 503:
            refused = server.post("/v1/completions", {"prompt": "a"})[0]
            return json.loads(text) == {"status": "stopping", "running": 1, "waiting": 0} and refused == 503
        time.sleep(0.05)
    return False


def ends(shell):
    for sent in (signal.SIGTERM, signal.SIGINT):
        with serving(shell, "--grace", "2") as server:
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps(LONG), JSON)
            reply = connection.getresponse()
            reply.readline()
            server.process.send_signal(sent)
            shell.expect("503 from then on", says_that_it_stops(server))
            text = reply.read().decode()
            finish = [event["choices"][0]["finish_reason"] for event in events_of(text)]
            shell.expect("a cut stream ends well", finish[-1] == "interrupted" and text.endswith("[DONE]\n\n"), text[-300:])
            shell.expect("the end", server.process.wait(timeout=60) == 0, server.process.returncode)
    with serving(shell) as server:
        taken = shell.run("serve", "model", "--port", str(server.port))
        shell.expect("a taken port", taken.returncode == 1 and "cannot be listened at" in taken.stderr, taken)


def unheard(shell):
    """The server runs on if it cannot write to standard error, because it is full or its reader has closed it."""
    reader, pipe = os.pipe()
    with open("/dev/full", "w") as full, os.fdopen(pipe, "w") as unread:
        for what, errors in (("full", full), ("unread", unread)):
            with serving(shell, errors=errors) as server:
                if errors is unread:
                    os.close(reader)
                shell.expect(what, server.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200)
                server.process.send_signal(signal.SIGTERM)
                shell.expect(what, server.process.wait(timeout=60) == 0, server.process.returncode)


def make_model(shell):
    """Trains a model that is slow and has a long context, so that clients can leave before an answer ends."""
    with open(os.path.join(shell.directory, "long.toml"), "w") as file:
        text = shared.RECIPE
        for key, value in (("sequence_length", 4096), ("batch_sequences", 1), ("steps", 1), ("eval_every", 0),
                           ("d_model", 192), ("layers", 6), ("d_ffn", 384)):
            text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        file.write(text)
    shell.ok("train", "long.toml", "--out", "model", "--quiet")


if __name__ == "__main__":
    shared.main([make_model, answers, echo, names, many, leaving, limits, keys, ends, unheard], run=False)
