#!/usr/bin/env python3
"""Runs `penstock train --processes N`. It must end with the same bits as one process, whoever starts the ranks. Checks
also `info` before the training, the use of the run's model afterwards, and refused settings.

  processes_outcome_test.py PROGRAM [SOURCE]
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys

import kill_resume_test as single
from kill_resume_test import fail, metrics, wait_for
from processes import TREE, finish, same_end, start, start_by_hand, trial_of


def test_same_bits(trial):
    reference = trial.new_run()
    finish(trial, reference, 1, *TREE)
    for processes in (2, 4, 3):
        run = trial.new_run()
        finish(trial, run, processes)
        same_end(run, reference)
        line = metrics(run)[-1]
        if line["ranks"] != processes or not line["communication_seconds"] > 0:
            fail("no ranks in", line)
        seconds = line["rank_seconds"]
        if len(seconds["by_rank"]) != processes or seconds["by_rank"][seconds["rank"]] != max(seconds["by_rank"]):
            fail("no seconds by rank in", line)
        with open(os.path.join(run, "finished.json")) as file:
            if json.load(file)["ranks"] != processes:
                fail("finished.json does not say how many processes")
    print("2, 3 and 4 processes end as one does")
    return reference


def test_refusals(trial):
    def refused(parts, *arguments, processes=2, run=None):
        process = start(trial, run or trial.new_run(), processes, *arguments)
        _, errors = process.communicate(timeout=60)
        lines = [line for line in errors.splitlines() if line.startswith("penstock: ")]
        if process.returncode == 0 or len(lines) != 1 or any(p not in lines[0] for p in parts):
            fail(arguments, "ended with", process.returncode, errors)

    refused(["5 processes", "makes 4 of them"], processes=5)
    refused(["data 4 x tensor 1 x pipeline 1 = 4 processes, but 2 processes"], "--set", "parallel.data=4")
    refused(["= 4 processes, but 1 process"], "--set", "parallel.data=4", processes=1)
    refused(["parallel.context"], "--set", "parallel.context=2")
    refused(["parallel.tensor = 3", "model.heads", "the nearest value that does is 2"], "--set",
            "parallel.tensor=3", processes=3)
    refused(["parallel.expert = 3", "data-parallel ranks"], "--set", "parallel.expert=3", processes=4)
    refused(["parallel.sequence = true", "set parallel.tensor to 2 or more"], "--set", "parallel.sequence=true")
    refused(["train.checkpoint_every = 3 is not a multiple of parallel.local_steps = 8"], "--set",
            "parallel.local_steps=8")
    refused(["parallel.local_steps = 8 with parallel.zero = 1"], "--set", "parallel.local_steps=8", "--set",
            "parallel.zero=1")
    refused(["there is no such folder"], "--set", "data.corpus=nowhere")
    refused(["is for one process"], "--set", "train.gradient_sum=in-turn")
    refused(["multiply to more than"], "--set", "parallel.data=65536", "--set", "parallel.tensor=65536")
    piped = subprocess.run([trial.program, "train", "/dev/stdin", "--processes", "2", "--out", trial.new_run()],
                           input=open(trial.recipe).read(), capture_output=True, text=True, timeout=60)
    if piped.returncode == 0 or "is no file, and each of the 2 processes reads the recipe" not in piped.stderr:
        fail("a recipe from a pipe ended with", piped.returncode, piped.stderr)
    impatient = start(trial, trial.new_run(), 2, env={**os.environ, "PENSTOCK_START_SECONDS": "soon"})
    _, errors = impatient.communicate(timeout=60)
    if impatient.returncode != 1 or errors.count("PENSTOCK_START_SECONDS = 'soon'") != 1:
        fail("two processes with a wrong PENSTOCK_START_SECONDS ended with", impatient.returncode, errors)
    run = trial.new_run()
    finish(trial, run, 2)
    refused(["holds a run of another recipe", "train.lr"], "--set", "train.lr=0.5", run=run)
    ranks = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}
    for asked in (("finetune", "x", "--data", "y", "--task", "sst2", "--out", "z"),
                    ("upcycle", "x", "--out", "z")):
        done = subprocess.run([trial.program, *asked], env=ranks, capture_output=True, text=True, timeout=60)
        if done.returncode != 1 or f"penstock {asked[0]} is for one process" not in done.stderr:
            fail(asked, "as one of two ranks ended with", done.returncode, done.stderr)
    for command in ("train", "study"):
        done = subprocess.run([trial.program, command, trial.recipe, "--processes", "2", "--out", trial.new_run()],
                              env=ranks, capture_output=True, text=True, timeout=60)
        if done.returncode != 1 or "--processes beside RANK and WORLD_SIZE: this is one of several" not in done.stderr:
            fail(command, "--processes as one of two ranks ended with", done.returncode, done.stderr)
    print("what cannot be is refused in one line")


def test_nobody_reads_the_log(trial, reference):
    run = trial.new_run()
    process = start(trial, run, 2)
    process.stderr.close()
    process.stderr = None
    if process.wait(timeout=300) != 0:
        fail("exit code", process.returncode, "without a reader of the log")
    same_end(run, reference)
    print("ranks whose log nobody reads train on")


def test_info(trial):
    """`penstock info` estimates memory and traffic without training."""
    def info(*more):
        return subprocess.run([trial.program, "info", trial.recipe, *more], text=True,
                              capture_output=True)
    four = ("--set", "parallel.data=4")
    alone, shared = (json.loads(info(*more, "--json").stdout) for more in ((), four))
    parallel = shared["parallel"]
    bytes_of_weights = 4 * alone["total_parameters"]
    if alone["checkpoint_copy_bytes"] != 3 * bytes_of_weights or \
            "to write them while training goes on" not in info().stdout or \
            "to write them" in info("--set", "run.background_checkpoints=false").stdout:
        fail("info of the copy that checkpoints are written from:", alone, info().stdout)
    least = bytes_of_weights // 4 * 3  # with one micro-batch a rank: three quarters of the weights' bytes
    sent = parallel["bytes_per_step"]
    if "parallel" in alone or parallel["ranks"] != 4 or \
            parallel["parameter_bytes"] != bytes_of_weights or \
            set(sent) != {"gradients", "summed_gradients", "records"} or \
            not least <= sent["gradients"] <= bytes_of_weights or parallel["exchange_bytes"] == 0:
        fail("info of four processes:", parallel)
    divided = json.loads(info(*four, "--set", "parallel.zero=1", "--json").stdout)["parallel"]
    if divided["optimizer_bytes"] >= parallel["optimizer_bytes"] or \
            set(divided["bytes_per_step"]) != {"gradients", "weights", "records"}:
        fail("info of four processes that divide moments:", divided)
    local = json.loads(info(*four, "--set", "parallel.local_steps=4", "--set", "train.checkpoint_every=8",
                            "--json").stdout)["parallel"]
    # Records are exchanged in each step, with three numbers of 8 bytes for the norm.
    if local["bytes_per_step"] != {"gradients": sent["gradients"] // 4, "weights": sent["summed_gradients"] // 4,
                                   "records": sent["records"] + 3 * 8} or \
            local["exchange_seconds"] - local["record_seconds"] >= \
            (parallel["exchange_seconds"] - parallel["record_seconds"]) / 3:
        fail("info of four processes that make local steps:", local)
    if "processes     4, each" not in info(*four).stdout or "\nprocesses" in info().stdout:
        fail("info does not say what processes take")
    if "makes 4 of them" not in info("--set", "parallel.data=8").stderr:
        fail("info takes more processes than micro-batches")
    print("info counts memory and traffic")


def test_use(trial, reference):
    """The model of a run of several processes works like any other, also if each process wrote a piece of it."""
    def penstock(*arguments):
        done = subprocess.run([trial.program, *arguments], text=True, capture_output=True)
        if done.returncode != 0:
            fail(arguments, done.stderr)
        return done.stdout

    def loss_of(run):
        return json.loads(penstock("eval", run, "--data", os.path.join(trial.folder, "corpus"), "--json"))["loss"]

    for processes, layout in ((2, []), (4, ["zero=1"]), (4, ["tensor=2", "expert=2", "zero=3"]),
                              (4, ["pipeline=2", "expert=2"])):
        run = trial.new_run()
        finish(trial, run, processes, *(word for key in layout for word in ("--set", "parallel." + key)))
        files = os.listdir(os.path.join(run, "checkpoints", "step-%d" % single.STEPS))
        kinds = ("model", "optimizer")
        pieces = [f"{kind}-{rank + 1:05}-of-{processes:05}.safetensors" for kind in kinds for rank in range(processes)]
        whole = [kind + ".safetensors" for kind in kinds]
        wanted = [*pieces, "model.safetensors.index.json"] if layout else whole
        found = [name for name in files if name.startswith(kinds) or name.startswith("piece")]
        if sorted(found) != sorted(wanted):
            fail(layout, "left", files)
        if abs(loss_of(run) - loss_of(reference)) > 1e-4:
            fail(layout, "evaluates to", loss_of(run), "and one process to", loss_of(reference))
        penstock("generate", run, "--prompt", "the ", "--tokens", "4")
        penstock("export", run, "--format", "hf", "--out", run + "-exported")
        penstock("info", run)
        penstock("report", run)
    print("its model evaluates, generates and exports, also from pieces")


def test_begun_in_turn(trial):
    """A run of one process can continue with two. The program prints that the gradient sum changes to "tree"."""
    run = trial.new_run()
    process = start(trial, run, 1)
    wait_for(lambda: len(metrics(run)) > 4, process, 60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    if os.path.exists(os.path.join(run, "finished.json")):
        fail("the run ended before it could be stopped")
    process = start(trial, run, 2)
    _, errors = process.communicate(timeout=120)
    if process.returncode != 0 or "goes on with \"tree\"" not in errors:
        fail("exit code", process.returncode, errors)
    with open(os.path.join(run, "config.toml")) as file:
        if 'gradient_sum = "tree"' not in file.read():
            fail("config.toml does not say that sums are in a tree now")
    print("a run of one process goes on with two, and says what changes")


def test_started_by_another(trial, reference):
    run = trial.new_run()
    for process in start_by_hand(trial, run):
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            fail("exit code", process.returncode, errors)
    same_end(run, reference)
    # With zero = 1, the ranks share memory for the weights. Another d_ffn gives the weights other sizes.
    for zero, key, value in (0, "train.lr", 0.5), (1, "model.d_ffn", 4096):
        first, second = start_by_hand(trial, trial.new_run(), "--set", f"{key}={value}",
                                      of_all=["--set", f"parallel.zero={zero}"])
        said, quiet = first.communicate(timeout=120)[1], second.communicate(timeout=120)[1]
        if (first.returncode, second.returncode) != (1, 1) or "has another recipe than rank 0" not in \
                said or key not in said or "penstock:" in quiet:
            fail("ranks of two recipes:", said, quiet)
    run = trial.new_run()
    first, second = start_by_hand(trial, run)
    wait_for(lambda: len(metrics(run)) >= 3, first, 60)
    second.kill()
    second.communicate()
    said = first.communicate(timeout=60)[1].splitlines()[-1]
    if first.returncode != 1 or "rank 0 on " not in said or " lost " not in said or \
            "the last complete step was" not in said:
        fail("after its peer died rank 0 ended with", first.returncode, said)
    print("started by RANK and WORLD_SIZE: same end; other recipes refused; a dead peer is said")


def test_rank_of_another_job(trial, reference):
    """A job of three ranks was given the same port. Its rank 1 comes while the two ranks of this run meet."""
    run, port = trial.new_run(), str(random.SystemRandom().randrange(21000, 29000))
    other, = start_by_hand(trial, trial.new_run(), ranks=(1,), WORLD_SIZE="3", MASTER_PORT=port)
    ranks = start_by_hand(trial, run, MASTER_PORT=port)
    _, refused = other.communicate(timeout=120)
    if other.returncode != 1 or f"counts 3 ranks (RANK and WORLD_SIZE), and the job at 127.0.0.1:{port} has 2; " \
            not in refused:
        fail("a rank of another job ended with", other.returncode, refused)
    for process in ranks:
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            fail("exit code", process.returncode, errors)
    same_end(run, reference)
    print("a rank of another job is refused, and the run goes on")


def test_rank_of_a_job_with_another_name(trial, reference):
    """Another job of two ranks was given the same port. Its rank 1 comes first, with another recipe."""
    run, port = trial.new_run(), str(random.SystemRandom().randrange(21000, 29000))
    other, = start_by_hand(trial, trial.new_run(), "--set", "train.lr=1e-5", ranks=(1,), MASTER_PORT=port,
                           PENSTOCK_JOB="red")
    first, = start_by_hand(trial, run, ranks=(0,), MASTER_PORT=port, PENSTOCK_JOB="blue")
    _, refused = other.communicate(timeout=120)
    if other.returncode != 1 or refused.count("penstock: ") != 1 or " is of job 'red', and the ranks at " \
            f"127.0.0.1:{port} are of job 'blue'; give each job its own MASTER_PORT" not in refused:
        fail("a rank of a job with another name ended with", other.returncode, refused)
    second, = start_by_hand(trial, run, ranks=(1,), MASTER_PORT=port, PENSTOCK_JOB="blue")
    for process in (first, second):
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            fail("exit code", process.returncode, errors)
    same_end(run, reference)
    print("a rank of a job with another name is refused, and the run goes on")


def test_ipv6(trial, reference):
    """Ranks meet on the loopback of IPv6. Which card GLOO_SOCKET_IFNAME names does not matter there."""
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError as error:
        print("skipped: no IPv6:", error)
        return
    run = trial.new_run()
    for process in start_by_hand(trial, run, MASTER_ADDR="::1", GLOO_SOCKET_IFNAME="absent"):
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            fail("exit code", process.returncode, errors)
    same_end(run, reference)
    print("ranks that meet by IPv6 end as one process does")


def test_missing_rank_zero(trial):
    process, = start_by_hand(trial, trial.new_run(), ranks=(1,))
    line = process.stderr.readline()
    process.kill()
    process.communicate()
    if "rank 0 has not arrived yet at 127.0.0.1:" not in line or "waiting up to 11" not in line:
        fail("rank 1 without rank 0 said:", line)
    for name, value in ("PENSTOCK_SILENT_SECONDS", "soon"), ("PENSTOCK_START_SECONDS", "0"):
        refused = start_by_hand(trial, trial.new_run(), ranks=(0,), **{name: value})[0]
        _, errors = refused.communicate(timeout=60)
        if refused.returncode != 1 or f"{name} = '{value}'" not in errors:
            fail(name, "of", value, "ended with", refused.returncode, errors)
    for rank, said in (0, "of 2 ranks these did not arrive in 2 s: 1;"), (1, "rank 0 cannot be reached at 127.0.0.1:"):
        alone = start_by_hand(trial, trial.new_run(), ranks=(rank,), PENSTOCK_START_SECONDS="2")[0]
        _, errors = alone.communicate(timeout=60)
        if alone.returncode != 1 or said not in errors:
            fail("rank", rank, "alone ended with", alone.returncode, errors)
    # No network knows a name of this length. Rank 0 says that it waits for the name, and so does rank 1.
    for rank in (0, 1):
        process, = start_by_hand(trial, trial.new_run(), ranks=(rank,), MASTER_ADDR="x" * 64)
        line = process.stderr.readline()
        process.kill()
        process.communicate()
        if f"MASTER_ADDR = {'x' * 64}: " not in line or "waiting up to 11" not in line:
            fail("rank", rank, "without the address of a name said:", line)
    print("a rank says which rank or name is missing, and waits as long as it is told")


def main():
    with trial_of(sys.argv[1]) as trial:
        reference = test_same_bits(trial)
        test_refusals(trial)
        test_nobody_reads_the_log(trial, reference)
        test_info(trial)
        test_use(trial, reference)
        test_begun_in_turn(trial)
        test_started_by_another(trial, reference)
        test_rank_of_another_job(trial, reference)
        test_rank_of_a_job_with_another_name(trial, reference)
        test_ipv6(trial, reference)
        test_missing_rank_zero(trial)


if __name__ == "__main__":
    main()
