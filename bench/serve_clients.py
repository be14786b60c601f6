#!/usr/bin/python3
"""Measures throughput and latency of `penstock serve` with one client and with several.

    bench/serve_clients.py MODEL [--penstock build/release/bin/penstock] [--clients 1 4 16] [--requests 4]
                           [--prompt-tokens 128] [--tokens 64] [--shared 0] [--rounds 3] [--threads 0]
                           [--beside PORT] [--json]

The script starts a server on a free port. --beside names the port of another server with OpenAI's interface that
already runs on this machine, such as llama.cpp's; each cell is then measured on both servers in turn. A round
measures each number of clients once. Each client requests --requests streamed completions, one after another, at
temperature 1, of up to --tokens tokens. Prompts are random token ids; the first --shared ids are the same in all
prompts.

"tokens/s" is the generated tokens divided by the wall clock of a cell. "first" is the time to the first token. "gap"
is the time between tokens of a stream. Percentiles are over all rounds. This script itself takes some of the
processor's time.
"""

import argparse
import http.client
import json
import os
import random
import selectors
import socket
import sys
import time

from served import served

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Cell:
    """The measurements of a cell: times to the first token, times between tokens, tokens and seconds."""

    def __init__(self):
        self.first, self.gaps, self.tokens, self.seconds = [], [], 0, 0.0


class Client:
    """A client that sends its requests one after another, over raw sockets to spend little processor time."""

    def __init__(self, port, number, arguments, shared):
        self.port, self.arguments, self.shared, self.number = port, arguments, shared, number
        self.draw, self.request, self.socket = random.Random(number), -1, None

    def begin(self):
        """Sends the next request. Returns False if there is none left."""
        self.request += 1
        if self.request == self.arguments.requests:
            return False
        a = self.arguments
        own = [self.draw.randrange(a.vocabulary) for _ in range(a.prompt_tokens - len(self.shared))]
        body = json.dumps({"prompt": self.shared + own, "max_tokens": a.tokens, "temperature": 1,
                           "seed": 1000 * self.number + self.request, "stream": True,
                           "stream_options": {"include_usage": True}})
        try:
            self.socket = socket.create_connection(("127.0.0.1", self.port))
        except OSError as error:
            sys.exit(f"port {self.port} of this machine: {error.strerror}; is a server running there?")
        self.begun, self.last, self.seen = time.perf_counter(), None, b""
        self.socket.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                             f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        return True

    def take(self, cell):
        """Reads the part of the answer that has arrived. Returns True if the answer is complete."""
        part = self.socket.recv(1 << 16)
        now = time.perf_counter()
        self.seen += part
        if b'"finish_reason":null' in part:
            if self.last is None:
                cell.first.append(now - self.begun)
            else:
                cell.gaps.append(now - self.last)
            self.last = now
        if part and not self.seen.endswith(b"\r\n0\r\n\r\n"):
            return False
        if b"data: [DONE]" not in self.seen:
            sys.exit(f"the server closed the connection before the end of an answer: "
                     f"{self.seen[-300:].decode(errors='replace')}")
        cell.tokens += int(self.seen.rsplit(b'"completion_tokens":', 1)[1].split(b",")[0])
        self.socket.close()
        return True


def run_cell(port, clients, arguments, cell, offset):
    shared = [random.Random(7).randrange(arguments.vocabulary) for _ in range(arguments.shared)]
    begun = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for number in range(offset, offset + clients):
            client = Client(port, number, arguments, shared)
            client.begin()
            selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            for key, _ in selector.select():
                client = key.data
                if client.take(cell):
                    selector.unregister(key.fileobj)
                    if client.begin():
                        selector.register(client.socket, selectors.EVENT_READ, client)
    cell.seconds += time.perf_counter() - begun


def measure(arguments, ports):
    cells = {(server, clients): Cell() for clients in arguments.clients for server in ports}
    # Warms up with the largest number of clients. This writes to the whole key/value cache, because the first use of
    # memory costs time.
    for port in ports.values():
        run_cell(port, max(arguments.clients), arguments, Cell(), 10 ** 6)
    offset = 0
    for _ in range(arguments.rounds):
        for (server, clients), cell in cells.items():
            run_cell(ports[server], clients, arguments, cell, offset)
            offset += clients
    return [{"server": server, "clients": clients, "tokens": cell.tokens,
             "tokens_per_second": cell.tokens / cell.seconds,
             **{f"{what}_p{share}_ms": 1000 * percentile(values, share / 100)
                for what, values in (("first", cell.first), ("gap", cell.gaps)) for share in (50, 95, 99)}}
            for (server, clients), cell in cells.items()]


def metric(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=256, help="prompts have token ids below this number")
    parser.add_argument("--beside", type=int, metavar="PORT", help="port of another server, which is measured in turn")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with served(arguments.penstock, arguments.model, "--threads", str(arguments.threads)) as (_, port):
        beside = {"beside": arguments.beside} if arguments.beside else {}
        rows = measure(arguments, {"penstock": port, **beside})
        reused = metric(port, "penstock_reused_tokens_total")
        read = metric(port, "penstock_prompt_tokens_total")
    if arguments.json:
        print(json.dumps({"rows": rows, "reused_tokens": reused, "read_prompt_tokens": read}))
        return
    print("server   clients   tokens/s   first p50   p95   p99 ms   gap p50   p95   p99 ms")
    for row in rows:
        print(f"{row['server']:8} {row['clients']:7} {row['tokens_per_second']:10.1f} {row['first_p50_ms']:11.0f} "
              f"{row['first_p95_ms']:5.0f} {row['first_p99_ms']:8.0f} {row['gap_p50_ms']:9.1f} "
              f"{row['gap_p95_ms']:5.1f} {row['gap_p99_ms']:8.1f}")
    print(f"prompts: {read} tokens read, {reused} reused")


if __name__ == "__main__":
    main()
