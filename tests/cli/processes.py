"""Shared code of the tests of several processes: a trial with a tiny recipe, its ranks, and checks of a run's end."""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import kill_resume_test as single
from kill_resume_test import fail, metrics

TREE = ["--set", "train.gradient_sum=tree"]
# Keys of metrics.jsonl that only runs of several processes have.
OF_RANKS = ("ranks", "communication_seconds", "rank_seconds", "rank_load")


def recipe_of(trial):
    """Changes the trial's recipe to four micro-batches a step."""
    with open(trial.recipe) as file:
        text = file.read()
    with open(trial.recipe, "w") as file:
        file.write(text.replace("[train]", "[train]\nmicro_batch = 1"))


def command(trial, run, processes, *more):
    count = ["--processes", str(processes)] if processes > 1 else []
    return [trial.program, "train", trial.recipe, "--out", run, "--resume", *count, *more]


def start(trial, run, processes, *more, address_space=None, **how):
    def prepare():
        # A shell makes its background jobs ignore SIGINT, and child processes inherit this.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if address_space:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    how["preexec_fn"] = prepare
    return subprocess.Popen(command(trial, run, processes, *more), stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **how)


def finish(trial, run, processes, *more):
    process = start(trial, run, processes, *more)
    _, errors = process.communicate(timeout=300)
    if process.returncode != 0:
        fail("exit code", process.returncode, "of", run, "with", processes, "processes:", errors)


def same_end(run, reference, steps=single.STEPS):
    if single.hashes(run, steps) != single.hashes(reference, steps):
        fail(run, "ends otherwise than", reference)
    ours, theirs = metrics(run), metrics(reference)
    plain = [{k: v for k, v in single.untimed(line).items() if k not in OF_RANKS} for line in ours]
    if plain != [{k: v for k, v in single.untimed(line).items() if k not in OF_RANKS}
                 for line in theirs]:
        fail("metrics of", run, "are not those of", reference)
    files = []
    for directory in (run, reference):
        with open(os.path.join(directory, "finished.json")) as file:
            files.append(json.load(file))
    for key in ("validation", "test"):
        if single.untimed(files[0][key]) != single.untimed(files[1][key]):
            fail("finished.json:", key)


def ranks_of(launcher):
    """Returns the ids of the processes that the launcher started, by rank."""
    out = {}
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher.pid)], text=True,
                            stdout=subprocess.PIPE).stdout
    for pid in listed.split():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
        except OSError:
            continue
        if b"PENSTOCK_RANK" in variables:
            out[int(variables[b"PENSTOCK_RANK"])] = int(pid)
    return out


def alive(pids):
    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    return [pid for pid in pids if runs(pid)]


def start_by_hand(trial, run, *of_second, of_all=(), ranks=(0, 1), address_spaces=(None, None), **variables):
    """Starts the ranks of a run without a launcher, as torchrun, Kubernetes or a person would."""
    port = str(random.SystemRandom().randrange(21000, 29000))
    return [start(trial, run, 1, *of_all, *(of_second if rank else ()), address_space=address_spaces[rank], env={
                **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables})
            for rank in ranks]


@contextlib.contextmanager
def trial_of(program):
    """Yields a trial whose recipe several processes can train. Skips the test if the program is built without Gloo."""
    folder = tempfile.mkdtemp(prefix="penstock-processes-")
    try:
        trial = single.Trial(os.path.abspath(program), folder, single.MODELS["decoder, remoe"])
        recipe_of(trial)
        if "libgloo-dev" in start(trial, trial.new_run(), 2).communicate()[1]:
            print("built without Gloo: skipped")
            sys.exit(77)
        yield trial
    finally:
        shutil.rmtree(folder, ignore_errors=True)
