#!/usr/bin/python3
"""Tests `penstock serve` under stress: many clients at once send invalid requests, read slowly and disconnect.

    bench/serve_stress.py MODEL [--penstock build/release/bin/penstock] [--clients 64] [--seconds 600] [--texts 40]
                          [--tokens 24] [--threads 0] [--seed 1] [--json]

The script first sends each of --texts requests alone and keeps the text that the request's seed gives. Then --clients
clients send these requests at the same time. A client draws the kind of each request at random:

    whole       waits for the whole answer; its text must be the text of the request sent alone
    stream      the same with a streamed answer
    slow        reads a streamed answer a few bytes at a time
    leave       ends a streamed answer after a random number of bytes: closes, resets, or shuts down sending
    hang up     disconnects before the whole answer comes
    large       sends a body that is too large (413)
    wrong       sends no valid HTTP, another method, two lengths, another content type or too many headers
                (400, 405, 415, 431)
    trickle     sends a part of a request and disconnects

Every answer is compared with the text of the request sent alone, or with the status that it must have. The server's
resident memory is read every second. Its growth is the median of the run's last tenth divided by that of its second
tenth, because the first tenth fills caches. "longest_pause" is the longest time for which the machine did not run the
script itself; a client waits at most 60 s for the server.

The exit status is 1 if an answer differed, the server ended, memory grew by more than a twentieth, or requests were
still running or waiting at the end.
"""

import argparse
import collections
import json
import os
import random
import socket
import struct
import sys
import threading
import time

from served import served

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WRONG = [(b"\x00\x01\x02\r\n\r\n", (400,)), (b"GET / HTTP/1.1\r\n\r\n", (400,)), (b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n", (405,)),
         (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", (400,)),
         (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", (415,)),
         (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 4000, (431,))]
KINDS = ["whole"] * 5 + ["stream"] * 5 + ["slow"] * 2 + ["leave"] * 4 + ["hang up"] * 2 + ["large", "wrong", "wrong", "trickle"]


def http(body, length=None):
    return (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body


def unchunked(data):
    """Joins the chunks of a chunked body. Fails if the body is incomplete."""
    out = b""
    while True:
        size, data = data.split(b"\r\n", 1)
        size = int(size, 16)
        if size == 0:
            return out
        out, data = out + data[:size], data[size + 2:]


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def text_of(answer, stream):
    body = answer.split(b"\r\n\r\n", 1)[1]
    if not stream:
        return json.loads(body)["choices"][0]["text"]
    body = unchunked(body).decode()
    if not body.endswith("data: [DONE]\n\n"):
        raise ValueError("the stream does not end")
    return "".join(json.loads(line[6:])["choices"][0]["text"] for line in body.splitlines()
                   if line.startswith("data: {"))


class Stress:
    def __init__(self, port, arguments):
        self.port, self.arguments = port, arguments
        draw = random.Random(arguments.seed)
        words = "the a gate router expert token turns of water wheel and is not many".split()
        self.requests = [{"prompt": " ".join(draw.choices(words, k=draw.randrange(1, 30))), "temperature": 1,
                          "max_tokens": draw.randrange(1, arguments.tokens + 1), "seed": i} for i in range(arguments.texts)]
        self.counts, self.mistakes, self.lock = collections.Counter(), [], threading.Lock()
        self.first, self.end, self.pause = [], 0.0, 0.0

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def whole_answer(self, request, stream=False):
        body = json.dumps({**request, "stream": stream}).encode()
        with self.connect() as connection:
            connection.sendall(http(body))
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def ask_alone(self):
        self.alone = [text_of(self.whole_answer(request), False) for request in self.requests]

    def check(self, kind, number, answer, stream):
        if status_of(answer) == 429:
            return self.count(kind + ": refused, too many wait")
        try:
            same = status_of(answer) == 200 and text_of(answer, stream) == self.alone[number]
        except (ValueError, IndexError, KeyError) as error:
            same, answer = False, answer + repr(error).encode()
        self.count(kind)
        if not same:
            self.mistake(kind, answer)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def mistake(self, kind, answer):
        with self.lock:
            after = time.monotonic() - self.end + self.arguments.seconds
            self.mistakes.append(f"{kind}, after {after:.0f} s: {answer[-300:]!r}")

    def one(self, kind, draw):
        number = draw.randrange(len(self.requests))
        request = self.requests[number]
        if kind in ("whole", "stream"):
            begun = time.perf_counter()
            self.check(kind, number, self.whole_answer(request, kind == "stream"), kind == "stream")
            with self.lock:
                self.first.append(time.perf_counter() - begun)
            return
        with self.connect() as connection:
            if kind == "slow":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                connection.sendall(http(json.dumps({**request, "stream": True}).encode()))
                answer = b""
                while part := connection.recv(draw.randrange(20, 200)):
                    answer += part
                    time.sleep(0.002)
                self.check(kind, number, answer, True)
            elif kind == "leave":
                connection.sendall(http(json.dumps({**request, "max_tokens": 500, "stream": True}).encode()))
                seen, wanted = 0, draw.randrange(0, 4000)
                while seen < wanted and (part := connection.recv(512)):
                    seen += len(part)
                how = draw.randrange(3)
                if how == 0:  # a reset instead of an orderly close
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif how == 1:
                    connection.shutdown(socket.SHUT_WR)
                self.count(kind)
            elif kind == "hang up":
                connection.sendall(http(json.dumps({**request, "max_tokens": 500}).encode()))
                time.sleep(draw.random() * 0.05)
                self.count(kind)
            elif kind == "trickle":
                body = http(json.dumps(request).encode())
                connection.sendall(body[:draw.randrange(1, len(body))])
                time.sleep(draw.random() * 0.2)
                self.count(kind)
            else:
                sent, statuses = (http(b"{" + b"x" * 2000, 100_000_000), (413,)) if kind == "large" else draw.choice(WRONG)
                connection.sendall(sent)
                answer = b"".join(iter(lambda: connection.recv(65536), b"")) if sent.find(b"BREW") < 0 else connection.recv(4096)
                self.count(kind)
                if status_of(answer) not in statuses or b'"error"' not in answer:
                    self.mistake(kind, answer)

    def client(self, number):
        draw = random.Random(self.arguments.seed * 1000 + number)
        while time.monotonic() < self.end:
            kind = draw.choice(KINDS)
            try:
                self.one(kind, draw)
            except OSError as error:
                self.mistake(kind, repr(error).encode())

    def run(self, server):
        self.end = time.monotonic() + self.arguments.seconds
        clients = [threading.Thread(target=self.client, args=(i,), daemon=True) for i in range(self.arguments.clients)]
        for client in clients:
            client.start()
        resident = []
        while any(client.is_alive() for client in clients) and server.poll() is None:
            with open(f"/proc/{server.pid}/status") as file:
                resident.append(int(file.read().split("VmRSS:")[1].split()[0]) / 1024)
            before = time.monotonic()
            time.sleep(1)
            self.pause = max(self.pause, time.monotonic() - before - 1)
        return resident

    def state(self):
        with self.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])

    def settles(self):
        for _ in range(100):
            now = self.state()
            if now["running"] + now["waiting"] == 0:
                return True
            time.sleep(0.1)
        return False


def median(values):
    return sorted(values)[len(values) // 2] if values else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    for name, value in (("clients", 64), ("seconds", 600), ("texts", 40), ("tokens", 24), ("threads", 0), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    options = ("--queue", "128", "--threads", str(arguments.threads))
    with served(arguments.penstock, arguments.model, *options) as (server, port):
        stress = Stress(port, arguments)
        stress.ask_alone()
        resident = stress.run(server)
        lives = server.poll() is None
        settled = lives and stress.settles()
    ended = server.returncode
    tenth = max(1, len(resident) // 10)
    early, late = median(resident[tenth:2 * tenth]), median(resident[-tenth:])
    result = {"requests": dict(sorted(stress.counts.items())), "mistakes": len(stress.mistakes),
              "resident_mib_early": round(early, 1), "resident_mib_late": round(late, 1),
              "resident_mib_most": round(max(resident, default=0), 1), "answer_p50_s": round(median(stress.first), 3), "longest_pause_s": round(stress.pause, 1),
              "lived": lives, "texts_left": not settled, "exit_status": ended}
    print(json.dumps(result) if arguments.json else "\n".join(f"{key}: {value}" for key, value in result.items()))
    for mistake in stress.mistakes[:10]:
        print(mistake, file=sys.stderr)
    sys.exit(bool(stress.mistakes or not settled or ended or late > 1.05 * early))


if __name__ == "__main__":
    main()
