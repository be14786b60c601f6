#!/usr/bin/env python3
"""Trains four ranks over a network that delays and drops packets and cuts hosts off. The run must end with the same
bits as a run on a quiet network.

  faulty_network_test.py PROGRAM [SOURCE] [STEPS] [SEED]
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import kill_resume_test as single
import processes
from faulty_network import FaultyNetwork
from kill_resume_test import fail
from namespaces import Absent, contain, skip

LAYOUT = ["--set", "parallel.pipeline=2", "--set", "parallel.expert=2", "--set", "parallel.zero=1"]


def run_on(network, trial, run, more, timeout):
    ranks = network.start_ranks(processes.command(trial, run, 1, *more), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + timeout
    for rank, process in enumerate(ranks):
        try:
            _, errors = process.communicate(timeout=max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in ranks:
                other.kill()
            fail("rank", rank, "did not end within", timeout, "s")
        if process.returncode != 0:
            fail("rank", rank, "ended with", process.returncode, errors[-2000:])


def last_loss(run):
    return processes.metrics(run)[-1]["loss"]


def main():
    contain()
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 25
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
    print("seed", seed, flush=True)
    folder = tempfile.mkdtemp(prefix="penstock-faulty-")
    network = None
    try:
        network = FaultyNetwork(4, seed)
        trial = single.Trial(os.path.abspath(sys.argv[1]), folder, single.MODELS["decoder, remoe"])
        processes.recipe_of(trial)
        more = [*LAYOUT, "--set", f"train.steps={steps}"]
        quiet, faulty = trial.new_run(), trial.new_run()
        process = processes.start(trial, quiet, 4, *more)
        errors = process.communicate(timeout=600 + steps)[1]
        if "libgloo-dev" in errors:
            raise Absent("built without Gloo")
        if process.returncode != 0:
            fail("on a quiet network", process.returncode, errors)
        begun = time.monotonic()
        run_on(network, trial, faulty, more, 600 + 30 * steps)
        seconds = time.monotonic() - begun
        processes.same_end(faulty, quiet, steps)
        forwarded, dropped, cuts = network.done()
        if dropped == 0:
            fail("the network dropped nothing")
        print(f"{steps} steps of 4 ranks in {seconds:.0f} s: {forwarded} packets came late, {dropped} were dropped, "
              f"a host was cut off {cuts} times; the bits of a quiet network, loss {last_loss(faulty)}")
    except Absent as why:
        skip(why)
    finally:
        if network:
            network.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
