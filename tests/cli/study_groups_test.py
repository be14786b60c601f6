#!/usr/bin/python3
"""Runs `penstock study --processes N`, which trains the runs of a study in groups of ranks. The rows must equal those
with one process a run, and groups must train simultaneously. The same command must continue a study after a killed
rank, a run that failed or diverged, or an interrupt.

    study_groups_test.py PENSTOCK SOURCE_DIRECTORY
"""

import glob
import json
import os
import random
import signal
import subprocess
import sys
import time

from processes import alive, ranks_of
from shell import tiny

RECIPE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 4
d_ffn = 32
[model.moe]
experts = 4
[model.router]
method = "remoe"
[data]
corpus = "corpus"
[train]
steps = STEPS
batch_sequences = 4
micro_batch = 1
sequence_length = 16
gradient_sum = "tree"
checkpoint_every = 5
[run]
threads = 1
report = false
tensorboard = false
"""

STUDY = """
name = "groups"
base = "base.toml"
seeds = [1, 2]
[variants.plain]
[variants.data]
set = {"parallel.data" = 2}
[variants.tensor]
set = {"parallel.tensor" = 2}
[variants.matched]
match_compute = "data"
set = {"model.router.method" = "topk", "parallel.data" = 2}
[variants.begun]
from = "data"
set = {"parallel.data" = 2, "train.lr" = 1e-4}
[variants.steep]
set = {"parallel.data" = 2, "train.lr" = 1e30, "train.clip" = 0, "train.warmup_steps" = 0}
[variants.after]
match_compute = "steep"
"""

# The layout does not belong to a run's identity, so these runs with one process are the reference.
ONE_PROCESS = ("--set", "parallel.data=0", "--set", "parallel.tensor=1")


def write(shell, steps):
    for name, text in (("base.toml", RECIPE.replace("STEPS", str(steps))), ("study.toml", STUDY)):
        with open(os.path.join(shell.directory, name), "w") as file:
            file.write(text)


def rows_in(shell, out):
    with open(os.path.join(shell.directory, out, "results.json")) as file:
        results = json.load(file)
    for row in results["rows"]:
        row["validation_loss"] = row["validation"]["loss"]
    return {(row["variant"], row["seed"]): row for row in results["rows"]}, results["diverged"]


def expect_same(shell, what, out, reference):
    """Checks that the rows of two studies agree: equal bits with data ranks, equal up to rounding with tensor ranks."""
    rows, diverged = rows_in(shell, out)
    wanted, wanted_diverged = rows_in(shell, reference)
    shell.expect(what + ": runs", set(rows) == set(wanted) and len(rows) == 10, sorted(rows))
    for key, row in wanted.items():
        found, near = rows.get(key, {}), key[0] == "tensor"
        for figure in ("validation_loss", "total_flops", "steps", "config_hash"):
            a, b = found.get(figure), row[figure]
            same = a == b or (near and a is not None and figure == "validation_loss" and abs(a - b) < 1e-5)
            shell.expect(f"{what}: {figure} of {key}", same, f"{a} {b}")
    shell.expect(what + ": diverged", [(run["variant"], run["seed"]) for run in diverged] ==
                 [(run["variant"], run["seed"]) for run in wanted_diverged] == [("steep", 1), ("steep", 2)], diverged)


def ranks_in(shell, out):
    found = {}
    for path in glob.glob(os.path.join(shell.directory, out, "runs/*/finished.json")):
        with open(path) as file:
            found[os.path.basename(os.path.dirname(path)).split("-seed")[0]] = json.load(file).get("ranks", 1)
    return found


def check_groups(shell):
    shell.ok("study", "study.toml", "--out", "alone", "--jobs", "2", *ONE_PROCESS)
    for processes in (4, 3):
        out = f"of-{processes}"
        done = shell.run("study", "study.toml", "--out", out, "--processes", str(processes))
        shell.expect(f"{processes} processes", done.returncode == 0, done.stderr)
        expect_same(shell, f"{processes} processes", out, "alone")
        shell.expect("ranks of runs", ranks_in(shell, out) ==
                     {"plain": 1, "data": 2, "tensor": 2, "matched": 2, "begun": 2}, ranks_in(shell, out))
        told = [line for line in done.stderr.splitlines() if ": begun on 2 ranks from rank " in line]
        firsts = {line.split("from ")[1] for line in told}
        shell.expect("groups that train at the same time", len(firsts) == processes // 2, told)
    again = shell.run("study", "study.toml", "--out", "of-4", "--processes", "4")
    shell.expect("a second call trains nothing", again.returncode == 0 and "begun" not in again.stderr, again.stderr)
    report = json.loads(shell.ok("study", "study.toml", "--out", "of-4", "--processes", "4", "--json", "--report-only"))
    shell.expect("a report of all runs", len(report["rows"]) == 10)
    alone = json.loads(shell.ok("study", "study.toml", "--out", "of-4", "--json"))
    shell.expect("finished runs need no ranks", alone["rows"] == report["rows"])
    shell.ok("study", "study.toml", "--out", "only", "--processes", "2", "--only", "data:2")
    shell.expect("a study of one run", ranks_in(shell, "only") == {"data": 2}, ranks_in(shell, "only"))
    shell.mistake(1, ("no seed 7",), "study", "study.toml", "--out", "only", "--processes", "2", "--only", "data:7")
    retried = shell.run("study", "study.toml", "--out", "of-4", "--processes", "2", "--retry-diverged")
    begun = [line for line in retried.stderr.splitlines() if "begun" in line]
    shell.expect("diverged runs again when asked, once", retried.returncode == 0 and len(begun) == 2 and
                 all("steep" in line for line in begun), retried.stderr)


def check_failing_run(shell):
    """If a run fails, the other groups train their runs, and the program prints the reason at once."""
    data = glob.glob(os.path.join(shell.directory, "of-4/runs/data-seed-1-*"))[0]
    blocked = os.path.join(shell.directory, "blocked/runs", os.path.basename(data))
    os.makedirs(os.path.dirname(blocked))
    with open(blocked, "w"):
        pass
    done = shell.run("study", "study.toml", "--out", "blocked", "--processes", "4")
    lines = done.stderr.splitlines()
    told = [i for i, line in enumerate(lines) if line.startswith("the run of data, seed 1 failed: ")]
    shell.expect("a run that fails", done.returncode == 1 and len(told) == 1 and
                 "the same command goes on" in lines[-1], done.stderr)
    os.remove(blocked)
    again = shell.run("study", "study.toml", "--out", "blocked", "--processes", "4")
    shell.expect("the study continues", again.returncode == 0, again.stderr)
    expect_same(shell, "after a failure", "blocked", "alone")


def check_refusals(shell):
    for how in ((), ("--jobs", "2"), ("--processes", "1")):
        shell.mistake(1, ("2 processes", "the study has 1", "in 2 processes"), "study", "study.toml", "--out", "new", *how)
    shell.mistake(1, ("4 processes", "the study has 2"), "study", "study.toml", "--out", "new", "--processes", "2",
                  "--set", "parallel.data=4")
    shell.mistake(1, ("nowhere.toml", "check the path"), "study", "nowhere.toml", "--out", "new", "--processes", "2")
    shell.mistake(1, ("parallel.tensor",), "study", "study.toml", "--out", "new", "--processes", "3",
                  "--set", "parallel.tensor=3", "--set", "parallel.data=0")
    done = shell.run("study", "study.toml", "--out", "new", "--processes", "2", "--jobs", "2")
    shell.expect("jobs and processes", done.returncode != 0 and "excludes" in done.stderr, done.stderr)
    shell.expect("no run was made", not os.path.exists(os.path.join(shell.directory, "new/runs")))


def start(shell, out):
    return subprocess.Popen([shell.program, "study", "study.toml", "--out", out, "--processes", "4"],
                            cwd=shell.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def wait_for_checkpoint(shell, out):
    pattern = os.path.join(shell.directory, out, "runs/*/checkpoints/step-*")
    for _ in range(1200):
        if glob.glob(pattern):
            return
        time.sleep(0.05)
    shell.expect("a checkpoint within a minute", False)


def check_ends(shell):
    """Long runs: first a rank is killed, then the resumed study is interrupted. The same command continues it."""
    write(shell, 40)
    shell.ok("study", "study.toml", "--out", "long", "--jobs", "2", *ONE_PROCESS)
    study = start(shell, "broken")
    wait_for_checkpoint(shell, "broken")
    pids = ranks_of(study)
    os.kill(pids[3], signal.SIGKILL)
    _, errors = study.communicate(timeout=60)
    shell.expect("a rank is killed", study.returncode == 1 and "rank 3 on " in errors and
                 "the same command goes on with what is missing" in errors, errors)
    shell.expect("all ranks end", not alive(pids.values()))
    study = start(shell, "broken")
    first = ""
    while study.poll() is None and ": begun" not in first:
        first = study.stderr.readline()
    time.sleep(0.5)
    study.send_signal(signal.SIGINT)
    _, errors = study.communicate(timeout=60)
    shell.expect("interrupted", study.returncode == 130 and "the state is saved. Continue with: penstock study "
                 "study.toml --out broken --processes 4" in errors, f"{study.returncode} {errors}")
    done = shell.run("study", "study.toml", "--out", "broken", "--processes", "4")
    shell.expect("the study continues", done.returncode == 0, done.stderr)
    expect_same(shell, "after a kill and an interrupt", "broken", "long")


def check_stopped(shell):
    """A rank is stopped by SIGSTOP, without a launcher to notice this. The ranks of all groups then end.

    The stopped rank ends when it is continued."""
    write(shell, 4000)
    port = str(random.SystemRandom().randrange(21000, 29000))
    ranks = [subprocess.Popen([shell.program, "study", "study.toml", "--out", "stopped"], cwd=shell.directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={
                                  **os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank),
                                  "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                  "PENSTOCK_SILENT_SECONDS": "3"}) for rank in range(4)]
    wait_for_checkpoint(shell, "stopped")
    ranks[3].send_signal(signal.SIGSTOP)
    for number, rank in enumerate(ranks[:3]):
        _, errors = rank.communicate(timeout=60)
        shell.expect(f"rank {number} names the one that is stopped", rank.returncode == 1 and "lost rank 3 on " in
                     errors and "has not been heard of for" in errors, f"{rank.returncode} {errors}")
    ranks[3].send_signal(signal.SIGCONT)
    _, errors = ranks[3].communicate(timeout=60)
    shell.expect("the rank that was stopped names itself", ranks[3].returncode == 1 and "rank 3 on " in errors and
                 "lost the others, which had not heard of it for" in errors, f"{ranks[3].returncode} {errors}")


def main(program):
    with tiny(program, run=False) as shell:
        write(shell, 8)
        check_refusals(shell)
        check_groups(shell)
        check_failing_run(shell)
        check_ends(shell)
        check_stopped(shell)
        sys.exit(1 if shell.failures else 0)


if __name__ == "__main__":
    main(sys.argv[1])
