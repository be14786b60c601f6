#!/usr/bin/python3
"""Times a step of two processes over links of given speeds beside what `penstock info` estimates.

    bench/links.py CORPUS [--penstock build/release/bin/penstock] [--recipe recipes/bench/e8k1.toml]
                   [--gigabits 10 1] [--layouts data zero=1 expert=2] [--micro-batches 2] [--steps 12] [--json]

Each process of one thread is in a network namespace of its own; tc shapes the cable between them. What `info` is given
is measured first, in the same minute: FLOP/s of two processes that compute side by side without a word to each other,
and the cable's bytes per second and its round trip, by a socket that does nothing else. Needs root, ip and tc; let
nothing else run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from namespaces import Namespaces  # noqa: E402  (its folder is known only now)

# Sends 64 MiB and then 200 single bytes, each of which comes back.
LISTENER = """
import socket
server = socket.create_server(("{address}", 5201))
print("ready", flush=True)
peer, _ = server.accept()
left = 64 << 20
while left: left -= len(peer.recv(min(left, 1 << 20)))
for _ in range(201):
    peer.sendall(b"x")
    peer.recv(1)
"""
SENDER = """
import socket, time
peer = socket.create_connection(("{address}", 5201))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
block, start = bytes(1 << 20), time.perf_counter()
for _ in range(64): peer.sendall(block)
peer.recv(1)
middle = time.perf_counter()
for _ in range(200):
    peer.sendall(b"x")
    peer.recv(1)
end = time.perf_counter()
print((64 << 20) / (middle - start), (end - middle) / 400)
"""


def link_of(hosts):
    """Bytes per second and seconds of one way."""
    listener = subprocess.Popen([*hosts.inside(0), "/usr/bin/python3", "-c",
                                 LISTENER.format(address=hosts.addresses[0])], stdout=subprocess.PIPE, text=True)
    listener.stdout.readline()
    found = subprocess.run([*hosts.inside(1), "/usr/bin/python3", "-c", SENDER.format(address=hosts.addresses[0])],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    listener.wait()
    return [float(word) for word in found.split()]


def settings(options, layout):
    keys = {"data.corpus": options.corpus, "train.steps": options.steps, "run.threads": 1,
            "train.micro_batch": 16 // options.micro_batches, "train.final_eval_tokens": 256}
    if layout != "data":
        keys.update((f"parallel.{key}", value) for key, value in (one.split("=") for one in layout.split(",")))
    return keys


def words(keys):
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def median_of(run, key):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file][3:]
    return statistics.median(line.get(key, 0) for line in lines)


def wait_for_all(processes):
    if any([process.wait() for process in processes]):
        sys.exit("links.py: a process failed; its message stands above")


def seconds_alone(options, folder):
    """Of half a step, while another process computes the other half and nothing is exchanged."""
    keys = {**settings(options, "data"), "train.batch_sequences": 8,
            "train.micro_batch": 16 // options.micro_batches}
    runs = [os.path.join(folder, f"alone{i}") for i in range(2)]
    wait_for_all([subprocess.Popen([options.penstock, "train", options.recipe, "--out", run, "--quiet",
                                    *words(keys)], cwd=ROOT) for run in runs])
    return statistics.mean(median_of(run, "step_seconds") for run in runs)


def seconds_over(options, hosts, folder, layout):
    run = os.path.join(folder, "run-" + layout.replace(",", "-"))
    wait_for_all(hosts.start_ranks([options.penstock, "train", options.recipe, "--out", run, "--quiet",
                                    *words(settings(options, layout))], cwd=ROOT))
    return median_of(run, "step_seconds"), median_of(run, "communication_seconds")


def estimate(options, layout, flops, bandwidth, latency):
    keys = settings(options, layout)
    if layout == "data" or "zero" in layout:
        keys["parallel.data"] = 2
    found = subprocess.run([options.penstock, "info", options.recipe, *words(keys), "--json", "--flops", str(flops),
                            "--bandwidth", str(bandwidth), "--latency", str(latency)],
                           check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(found)["parallel"]


def measure(options):
    hosts, rows = Namespaces(), []
    try:
        with tempfile.TemporaryDirectory() as folder:
            alone = seconds_alone(options, folder)
            flops = estimate(options, "data", 1.0, 1e9, 1.0)["compute_seconds"] / alone
            for gigabits in options.gigabits:
                hosts.shape("tbf", "rate", f"{gigabits}gbit", "burst", "1mb", "latency", "50ms")
                bandwidth, latency = link_of(hosts)
                for layout in options.layouts:
                    measured, communication = seconds_over(options, hosts, tempfile.mkdtemp(dir=folder), layout)
                    expected = estimate(options, layout, flops, bandwidth, latency)
                    rows.append({"gigabits": gigabits, "layout": layout, "flops": flops, "bandwidth": bandwidth,
                                 "latency": latency, "measured_seconds": measured,
                                 "communication_seconds": communication,
                                 "estimated_seconds": expected["step_seconds"],
                                 "efficiency": alone / measured,
                                 "error": expected["step_seconds"] / measured - 1})
    finally:
        hosts.close()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--recipe", default=os.path.join(ROOT, "recipes/bench/e8k1.toml"))
    parser.add_argument("--gigabits", type=float, nargs="*", default=[10, 1])
    parser.add_argument("--layouts", nargs="*", default=["data", "zero=1", "expert=2"])
    parser.add_argument("--micro-batches", type=int, default=2, help="of 16 sequences")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.corpus = os.path.abspath(options.corpus)
    rows = measure(options)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    first = rows[0]
    print(f"{os.path.basename(options.recipe)}: {first['flops'] / 1e9:.1f} GFLOP/s of each process while both compute")
    print(f"{'Gbit/s':>6s} {'measured link':>22s} {'layout':>16s} {'step':>8s} {'estimate':>8s} {'error':>6s} "
          f"{'exchange':>8s} {'efficiency':>10s}")
    for row in rows:
        print(f"{row['gigabits']:6g} {row['bandwidth'] / 1e6:8.0f} MB/s {row['latency'] * 1e6:6.0f} us "
              f"{row['layout']:>16s} {row['measured_seconds']:7.3f}s {row['estimated_seconds']:7.3f}s "
              f"{100 * row['error']:5.0f}% {row['communication_seconds']:7.3f}s {100 * row['efficiency']:9.0f}%")


if __name__ == "__main__":
    main()
