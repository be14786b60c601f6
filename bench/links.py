#!/usr/bin/python3
"""Times a step of two processes over links of given speeds and compares it with the estimate of `penstock info`.

    bench/links.py CORPUS [--penstock build/release/bin/penstock] [--recipe recipes/bench/e8k1.toml]
                   [--gigabits 10 1] [--layouts data zero=1 expert=2] [--micro-batches 2] [--steps 12]
                   [--set model.router.method=hash ...] [--json]

Each process has one thread and runs in a network namespace of its own; tc shapes the link between them. The script
first measures the speeds that `info` gets as options. No measurement uses an exchange of training:

- memory bandwidth: `penstock bench machine` with as many threads as processes; each process gets an even share;
- FLOP/s: two processes compute side by side and exchange nothing. The seconds of the update, at the measured memory
  bandwidth, are subtracted from their step. The estimate for one process alone then equals its measured step;
- the link's bytes per second: sockets that do nothing else send both ways at once;
- the latency: half of the time that two processes need to exchange one byte each way, while they compute for five
  milliseconds between exchanges;
- the processor's time per byte: how much less loops count on all cores while these sockets send.

The load of the busiest rank's experts is not a speed. It is the median of the run's own `rank_load`.

Needs root, ip and tc. Run nothing else on the machine meanwhile. On two cores the processes leave no core free for the
exchange. --free-cores says that there are free cores; the processor's time per byte is then not measured and not given.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from namespaces import Namespaces  # noqa: E402  (needs the path that the line above adds)

# The program of each of two peers. The peers first send {mebibytes} MiB to each other at the same time. Then they
# compute side by side, first without messages, then with one byte to each other every five milliseconds. Prints the
# bytes per second and the additional seconds of such an exchange of bytes.
PEER = """
import socket, sys, threading, time
address, listens, mebibytes = "{address}", {listens}, {mebibytes}
if listens:
    server = socket.create_server((address, 5201))
    print("ready", flush=True)
    peer, _ = server.accept()
else:
    peer = socket.create_connection((address, 5201))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def seconds(work, times):
    start = time.perf_counter()
    for _ in range(times): work()
    return (time.perf_counter() - start) / times
def send():
    block = bytes(1 << 20)
    for _ in range(mebibytes): peer.sendall(block)
def meet():
    peer.sendall(b"x")
    peer.recv(1)
def compute():
    for _ in range(iterations): pass
start = time.perf_counter()
sender = threading.Thread(target=send)
sender.start()
room, left = bytearray(1 << 20), mebibytes << 20
while left: left -= peer.recv_into(room, min(left, len(room)))
sender.join()
middle = time.perf_counter()
iterations = 100000
meet()
iterations = int(iterations * 5e-3 / seconds(compute, 100))
meet()
meetings = 0.0
for _ in range(5):
    meetings -= seconds(compute, 40) / 5
    meet()
    meetings += seconds(lambda: (compute(), meet()), 40) / 5
print((mebibytes << 20) / (middle - start), meetings)
"""
# Counts for {seconds} seconds and prints the counts per second.
COUNTER = """
import time
count, start = 0, time.perf_counter()
while time.perf_counter() < start + {seconds}:
    for _ in range(1000): count += 1
print(count / (time.perf_counter() - start))
"""
PROCESSES = 2


def start_peers(hosts, mebibytes, stderr=None):
    peers = []
    for host in range(PROCESSES):
        code = PEER.format(address=hosts.addresses[0], listens=host == 0, mebibytes=mebibytes)
        peers.append(subprocess.Popen([*hosts.inside(host), "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE,
                                      stderr=stderr, text=True))
        if host == 0:
            peers[0].stdout.readline()
    return peers


def link_of(hosts):
    """Bytes per second with both directions in use, and seconds of a message: an exchange of bytes has two messages."""
    found = [[float(word) for word in peer.communicate()[0].split()] for peer in start_peers(hosts, 64)]
    return found[1][0], max(1e-6, statistics.mean(meeting for _, meeting in found) / 2)


def bytes_sent(hosts):
    """The bytes that both processes have sent so far."""
    sent = 0
    for host in range(PROCESSES):
        lines = subprocess.run([*hosts.inside(host), "cat", "/proc/net/dev"], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.splitlines()[2:]
        sent += sum(int(line.split(":")[1].split()[8]) for line in lines if line.split(":")[0].strip() != "lo")
    return sent


def cost_of_a_byte(hosts, seconds=4.0):
    """Seconds of counting that all cores together lose for each byte that one process sends and another receives."""
    def counted():
        counters = [subprocess.Popen(["/usr/bin/python3", "-c", COUNTER.format(seconds=seconds)],
                                     stdout=subprocess.PIPE, text=True) for _ in range(os.cpu_count())]
        return sum(float(counter.communicate()[0]) for counter in counters)
    alone = counted()
    peers = start_peers(hosts, 1 << 20, stderr=subprocess.DEVNULL)  # enough to send until they are killed
    try:
        time.sleep(1)
        before, begun = bytes_sent(hosts), time.monotonic()
        beside = counted()
        rate = (bytes_sent(hosts) - before) / (time.monotonic() - begun)
    finally:
        for peer in peers:
            peer.kill()
            peer.wait()
    return (1 - beside / alone) * os.cpu_count() / rate


def memory_of(options):
    """Each process's memory bandwidth in bytes per second while all processes use the memory."""
    found = subprocess.run([options.penstock, "bench", "machine", "--threads", str(PROCESSES), "--json"], check=True,
                           cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(found)["memory_bandwidth"] / PROCESSES


def settings(options, layout):
    keys = {"data.corpus": options.corpus, "train.steps": options.steps, "run.threads": 1,
            "train.micro_batch": 16 // options.micro_batches, "train.final_eval_tokens": 256}
    if layout != "data":
        keys.update((f"parallel.{key}", value) for key, value in (one.split("=") for one in layout.split(",")))
    return keys | dict(one.split("=", 1) for one in options.set)


def words(keys):
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def lines_of(run):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file][3:]


def median_of(run, key):
    return statistics.median(line.get(key, 0) for line in lines_of(run))


def rank_load(run):
    return statistics.median(line.get("rank_load", {}).get("max", 1.0) for line in lines_of(run))


def wait_for_all(processes):
    if any([process.wait() for process in processes]):
        sys.exit("links.py: a process failed; see its message above")


def seconds_alone(options, folder):
    """Seconds of half a step while another process computes the other half; the two exchange nothing."""
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
    return median_of(run, "step_seconds"), median_of(run, "communication_seconds"), rank_load(run)


def estimate(options, layout, speeds):
    keys = settings(options, layout)
    if layout == "data" or "zero" in layout:
        keys["parallel.data"] = PROCESSES
    given = [word for name, value in speeds.items() for word in ("--" + name, str(value))]
    found = subprocess.run([options.penstock, "info", options.recipe, *words(keys), "--json", *given],
                           check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(found)["parallel"]


def measure(options):
    hosts, rows = Namespaces(), []
    try:
        with tempfile.TemporaryDirectory() as folder:
            speeds = {"memory-bandwidth": memory_of(options)}
            if not options.free_cores:
                speeds["exchange-cost"] = cost_of_a_byte(hosts)
            alone = seconds_alone(options, folder)
            known = estimate(options, "data", {**speeds, "flops": 1.0})
            speeds["flops"] = known["compute_seconds"] / (alone - known["update_seconds"])
            for gigabits in options.gigabits:
                hosts.shape("tbf", "rate", f"{gigabits}gbit", "burst", "128kb", "latency", "50ms")
                speeds["bandwidth"], speeds["latency"] = link_of(hosts)
                for layout in options.layouts:
                    measured, communication, load = seconds_over(options, hosts, tempfile.mkdtemp(dir=folder), layout)
                    expected = estimate(options, layout, {**speeds, "rank-load": load})
                    rows.append({"gigabits": gigabits, "layout": layout, "speeds": dict(speeds), "rank_load": load,
                                 "alone_seconds": alone, "measured_seconds": measured,
                                 "communication_seconds": communication, "estimate": expected,
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
    parser.add_argument("--micro-batches", type=int, default=2,
                        help="number of micro-batches that 16 sequences are divided into")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="override keys of the recipe")
    parser.add_argument("--free-cores", action="store_true",
                        help="the machine has cores besides those that the processes compute on")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.corpus = os.path.abspath(options.corpus)
    rows = measure(options)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    first = rows[0]["speeds"]
    print(f"{os.path.basename(options.recipe)}: each process has {first['flops'] / 1e9:.1f} GFLOP/s, "
          f"{first['memory-bandwidth'] / 1e9:.1f} GB/s of memory and takes {1e9 * first.get('exchange-cost', 0):.2f} ns "
          f"of processor time per byte sent; a step without exchange takes {rows[0]['alone_seconds']:.3f} s")
    print(f"{'Gbit/s':>6s} {'measured link':>22s} {'layout':>16s} {'load':>5s} {'step':>8s} "
          f"{'estimate':>8s} {'error':>6s} "
          f"{'exchange':>8s} {'efficiency':>10s}")
    for row in rows:
        print(f"{row['gigabits']:6g} {row['speeds']['bandwidth'] / 1e6:8.0f} MB/s "
              f"{row['speeds']['latency'] * 1e6:6.0f} us {row['layout']:>16s} {row['rank_load']:5.2f} "
              f"{row['measured_seconds']:7.3f}s {row['estimate']['step_seconds']:7.3f}s "
              f"{100 * row['error']:5.0f}% {row['communication_seconds']:7.3f}s {100 * row['efficiency']:9.0f}%")


if __name__ == "__main__":
    main()
