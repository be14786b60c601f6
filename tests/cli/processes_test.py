#!/usr/bin/env python3
"""`penstock train --processes N`: the bits of one process, what dies and what goes on, and what is
refused.

  processes_test.py PROGRAM [SOURCE] [KILLS] [SEED]
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import kill_resume_test as single
from kill_resume_test import fail, metrics, wait_for

TREE = ["--set", "train.gradient_sum=tree"]
# Of several processes: written beside what one process writes.
OF_RANKS = ("ranks", "communication_seconds", "rank_seconds", "rank_load")


def recipe_of(trial):
    """Four micro-batches a step."""
    with open(trial.recipe) as file:
        text = file.read()
    with open(trial.recipe, "w") as file:
        file.write(text.replace("[train]", "[train]\nmicro_batch = 1"))


def command(trial, run, processes, *more):
    count = ["--processes", str(processes)] if processes > 1 else []
    return [trial.program, "train", trial.recipe, "--out", run, "--resume", *count, *more]


def start(trial, run, processes, *more, **how):
    # A shell has its background jobs ignore SIGINT, and a process inherits that.
    how["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
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
    """The processes that the launcher started, by rank."""
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


def test_use(trial, reference):
    """What a run of several processes left is a model as any other, also where each wrote a piece of it."""
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
    """A run of one process goes on with two, which is said."""
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


def test_info(trial):
    """Memory and traffic before anything is trained."""
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
    least = bytes_of_weights // 4 * 3  # one micro-batch each: three quarters of one copy
    sent = parallel["bytes_per_step"]
    if "parallel" in alone or parallel["ranks"] != 4 or \
            parallel["parameter_bytes"] != bytes_of_weights or \
            set(sent) != {"gradients", "summed_gradients"} or \
            not least <= sent["gradients"] <= bytes_of_weights or parallel["exchange_bytes"] == 0:
        fail("info of four processes:", parallel)
    divided = json.loads(info(*four, "--set", "parallel.zero=1", "--json").stdout)["parallel"]
    if divided["optimizer_bytes"] >= parallel["optimizer_bytes"] or \
            set(divided["bytes_per_step"]) != {"gradients", "weights"}:
        fail("info of four processes that divide moments:", divided)
    local = json.loads(info(*four, "--set", "parallel.local_steps=4", "--set", "train.checkpoint_every=8",
                            "--json").stdout)["parallel"]
    if local["bytes_per_step"] != {"gradients": sent["gradients"] // 4,
                                   "weights": sent["summed_gradients"] // 4} or \
            local["exchange_seconds"] >= parallel["exchange_seconds"] / 3:
        fail("info of four processes that make local steps:", local)
    if "processes     4, each" not in info(*four).stdout or "\nprocesses" in info().stdout:
        fail("info does not say what processes take")
    if "makes 4 of them" not in info("--set", "parallel.data=8").stderr:
        fail("info takes more processes than micro-batches")
    print("info counts memory and traffic")


def test_local_steps(trial, rng):
    """Ranks that train apart: the same layout ends with the same bits, however it was stopped."""
    four = ["--set", "parallel.local_steps=4", "--set", "train.checkpoint_every=8"]

    def lines(run):
        return [{k: v for k, v in single.untimed(line).items() if k not in OF_RANKS}
                for line in metrics(run)]

    reference = trial.new_run()
    finish(trial, reference, 2, *four)
    for line in metrics(reference):
        step = line["step"]
        if line.get("outer_step") != (step // 4 if step > 0 and step % 4 == 0 else None):
            fail("outer steps in", line)
    for how in (signal.SIGTERM, signal.SIGKILL):
        run = trial.new_run()
        launcher = start(trial, run, 2, *four)
        target = 10 + rng.randint(0, 8)
        wait_for(lambda: len(metrics(run)) >= target, launcher, 60)
        ranks = ranks_of(launcher)
        if launcher.poll() is not None or len(ranks) != 2:
            fail("the run ended before it could be stopped")
        os.kill(ranks[1], how)
        launcher.communicate(timeout=60)
        done = metrics(run)[-1]["step"]
        finish(trial, run, 2, *four)
        if single.hashes(run, single.STEPS) != single.hashes(reference, single.STEPS):
            fail("stopped by", how, "after step", done, "a run of local steps ends otherwise")
        if lines(run) != lines(reference):
            fail("metrics of a run of local steps that was stopped after step", done)
    run = trial.new_run()
    launcher = start(trial, run, 2, *four)
    wait_for(lambda: len(metrics(run)) >= 10, launcher, 60)
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=60)
    process = start(trial, run, 2)
    _, errors = process.communicate(timeout=60)
    if process.returncode != 1 or "parallel.local_steps: 4 -> 1" not in errors:
        fail("a run of local steps without them:", errors)
    finish(trial, run, 4, *four)
    finish(trial, trial.new_run(), 1, *four)
    print("local steps: stopped and killed runs end as others do; other numbers of ranks go on")


def test_kills(trial, reference, kills, rng):
    run, done, longest = trial.new_run(), 0, 0.0
    while done < kills:
        processes = rng.choice((2, 2, 3, 4))
        launcher = start(trial, run, processes)
        target = len(metrics(run)) + rng.randint(0, 12)
        wait_for(lambda: len(metrics(run)) >= target, launcher, 60)
        time.sleep(rng.random() * 0.05)
        ranks = ranks_of(launcher)
        if launcher.poll() is None and len(ranks) == processes:
            rank = rng.choice(sorted(ranks))
            begun = time.monotonic()
            os.kill(ranks[rank], signal.SIGKILL)
            _, errors = launcher.communicate(timeout=60)
            longest = max(longest, time.monotonic() - begun)
            if launcher.returncode == 0:  # it came after the rank's work was done
                same_end(run, reference)
                run = trial.new_run()
                continue
            said = [line for line in errors.splitlines() if line.startswith("penstock: ")]
            if len(said) != 1 or f"rank {rank} on " not in said[0] or "signal 9" not in said[0] \
                    or not ("after step" in said[0] or "before a step" in said[0]):
                fail("killed rank", rank, "of", processes, "and heard:", errors)
            if alive(ranks.values()):
                fail("ranks outlived the one that was killed")
            done += 1
            single.check_checkpoints(run)
            continue
        launcher.communicate(timeout=120)
        if launcher.returncode != 0:
            fail("exit code", launcher.returncode)
        same_end(run, reference)
        run = trial.new_run()
    if longest > 14:  # after 15 the launcher ends who does not notice
        fail("the others took", longest, "s to end")
    finish(trial, run, rng.choice((1, 2, 4)), *TREE)
    same_end(run, reference)
    print(f"{done} kills of a rank; all ended within {longest:.1f} s; resumed to the same end")


def test_signals(trial, reference):
    """To the launcher, to rank 0 and to another rank: one step is saved, and all stop."""
    for whom in ("launcher", 0, 1):
        run = trial.new_run()
        launcher = start(trial, run, 2)
        if not wait_for(lambda: len(metrics(run)) >= 4, launcher, 60):
            fail("no progress before a signal")
        ranks = ranks_of(launcher)
        os.kill(launcher.pid if whom == "launcher" else ranks[whom], signal.SIGTERM)
        _, errors = launcher.communicate(timeout=60)
        done = metrics(run)[-1]["step"]
        if launcher.returncode != 130 or f"stopped by signal 15 after step {done}" not in errors:
            fail("SIGTERM to", whom, "ended with", launcher.returncode, errors)
        if "--processes 2" not in errors or not os.path.isdir(
                os.path.join(run, "checkpoints", "step-%d" % done)):
            fail("SIGTERM to", whom, "left no checkpoint of step", done, errors)
        finish(trial, run, 4)
        same_end(run, reference)
    launcher = start(trial, trial.new_run(), 2)
    wait_for(lambda: len(ranks_of(launcher)) == 2, launcher, 60)
    launcher.send_signal(signal.SIGINT)
    _, errors = launcher.communicate(timeout=60)
    if launcher.returncode != 130 or "penstock:" in errors:
        fail("SIGINT at the start ended with", launcher.returncode, errors)
    print("SIGTERM to the launcher, rank 0 and rank 1: saved once, resumed to the same end")


def test_stuck_rank(trial):
    """A rank that is stopped: the others wait parallel.timeout, the launcher 20 s, or the user interrupts twice."""
    for timeout, signals, code, parts in ((2, 0, 1, ["rank 1 on ", "was stopped by a signal after step", "--resume"]),
                                          (600, 0, 1, ["rank 1 on ", "was stopped by a signal after step", "--resume"]),
                                          (600, 2, 130, ["interrupted before all", "--resume"])):
        run = trial.new_run()
        launcher = start(trial, run, 2, "--set", f"parallel.timeout={timeout}")
        wait_for(lambda: len(metrics(run)) >= 3, launcher, 60)
        os.kill(ranks_of(launcher)[1], signal.SIGSTOP)
        for _ in range(signals):
            time.sleep(0.5)
            launcher.send_signal(signal.SIGINT)
        _, errors = launcher.communicate(timeout=40)
        if launcher.returncode != code or any(part not in errors.splitlines()[-1] for part in parts):
            fail("with a stuck rank the launcher ended with", launcher.returncode, errors)
    print("a rank that does not answer is named; two interrupts end it too")


def test_death_of_the_launcher(trial):
    run = trial.new_run()
    launcher = start(trial, run, 2)
    wait_for(lambda: len(metrics(run)) >= 3, launcher, 60)
    ranks = ranks_of(launcher)
    launcher.kill()
    launcher.communicate(timeout=60)
    end = time.monotonic() + 30
    while alive(ranks.values()) and time.monotonic() < end:
        time.sleep(0.1)
    if len(ranks) != 2 or alive(ranks.values()):
        fail("ranks outlived their launcher", ranks)
    print("ranks end with their launcher")


def start_by_hand(trial, run, *of_second, ranks=(0, 1), **variables):
    """As torchrun, Kubernetes or a person would start them."""
    port = str(random.SystemRandom().randrange(21000, 29000))
    return [start(trial, run, 1, *(of_second if rank else ()), env={
                **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables})
            for rank in ranks]


def test_silent_rank(trial):
    """One that is stopped, with no launcher to notice: the other names it and ends, and so does that
    one when it is continued."""
    for stopped in (1, 0):
        run = trial.new_run()
        ranks = start_by_hand(trial, run, PENSTOCK_SILENT_SECONDS="3")
        wait_for(lambda: len(metrics(run)) >= 3, ranks[0], 60)
        ranks[stopped].send_signal(signal.SIGSTOP)
        left, begun = ranks[1 - stopped], time.monotonic()
        _, errors = left.communicate(timeout=60)
        ranks[stopped].send_signal(signal.SIGCONT)
        _, late = ranks[stopped].communicate(timeout=60)
        if ranks[stopped].returncode != 1 or f"penstock: rank {stopped} on " not in late or \
                "lost the others, which had not heard of it for" not in late:
            fail("rank", stopped, "was continued and ended with", ranks[stopped].returncode, late)
        said = errors.splitlines()[-1]
        if left.returncode != 1 or f"lost rank {stopped} on " not in said or \
                "has not been heard of for" not in said or time.monotonic() - begun > 20:
            fail("with rank", stopped, "stopped the other ended with", left.returncode, errors)
    run = trial.new_run()
    ranks = start_by_hand(trial, run, PENSTOCK_SILENT_SECONDS="3")
    wait_for(lambda: len(metrics(run)) >= 3, ranks[0], 60)
    for rank in ranks:
        rank.send_signal(signal.SIGSTOP)
    time.sleep(5)
    for rank in ranks:
        rank.send_signal(signal.SIGCONT)
    if [rank.communicate(timeout=120) and rank.returncode for rank in ranks] != [0, 0]:
        fail("ranks that were all stopped for a while did not go on")
    print("a silent rank is named where no launcher sees it; ranks that all were stopped go on")


def test_missing_rank_zero(trial):
    process, = start_by_hand(trial, trial.new_run(), ranks=(1,))
    line = process.stderr.readline()
    process.kill()
    process.communicate()
    if "rank 0 has not arrived yet at 127.0.0.1:" not in line or "waiting up to 11" not in line:
        fail("rank 1 without rank 0 said:", line)
    refused = start_by_hand(trial, trial.new_run(), ranks=(0,), PENSTOCK_SILENT_SECONDS="soon")[0]
    _, errors = refused.communicate(timeout=60)
    if refused.returncode != 1 or "PENSTOCK_SILENT_SECONDS = 'soon'" not in errors:
        fail("a silence of 'soon' ended with", refused.returncode, errors)
    print("rank 1 says that rank 0 is missing")


def test_started_by_another(trial, reference):
    def start_ranks(run, *of_second):
        return start_by_hand(trial, run, *of_second)

    run = trial.new_run()
    for process in start_ranks(run):
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            fail("exit code", process.returncode, errors)
    same_end(run, reference)
    first, second = start_ranks(trial.new_run(), "--set", "train.lr=0.5")
    said, quiet = first.communicate(timeout=120)[1], second.communicate(timeout=120)[1]
    if (first.returncode, second.returncode) != (1, 1) or "has another recipe than rank 0" not in \
            said or "train.lr" not in said or "penstock:" in quiet:
        fail("ranks of two recipes:", said, quiet)
    run = trial.new_run()
    first, second = start_ranks(run)
    wait_for(lambda: len(metrics(run)) >= 3, first, 60)
    second.kill()
    second.communicate()
    said = first.communicate(timeout=60)[1].splitlines()[-1]
    if first.returncode != 1 or "rank 0 on " not in said or " lost " not in said or \
            "the last complete step was" not in said:
        fail("after its peer died rank 0 ended with", first.returncode, said)
    print("started by RANK and WORLD_SIZE: same end; other recipes refused; a dead peer is said")


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
    run = trial.new_run()
    finish(trial, run, 2)
    refused(["holds a run of another recipe", "train.lr"], "--set", "train.lr=0.5", run=run)
    ranks = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}
    for asked in (("finetune", "x", "--data", "y", "--task", "sst2", "--out", "z"),
                    ("upcycle", "x", "--out", "z")):
        done = subprocess.run([trial.program, *asked], env=ranks, capture_output=True, text=True, timeout=60)
        if done.returncode != 1 or f"penstock {asked[0]} is for one process" not in done.stderr:
            fail(asked, "as one of two ranks ended with", done.returncode, done.stderr)
    print("what cannot be is refused in one line")


def main():
    program = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    folder = tempfile.mkdtemp(prefix="penstock-processes-")
    try:
        trial = single.Trial(program, folder, single.MODELS["decoder, remoe"])
        recipe_of(trial)
        if "libgloo-dev" in start(trial, trial.new_run(), 2).communicate()[1]:
            print("built without Gloo: skipped")
            sys.exit(77)
        reference = test_same_bits(trial)
        test_refusals(trial)
        test_info(trial)
        test_use(trial, reference)
        test_begun_in_turn(trial)
        test_signals(trial, reference)
        test_stuck_rank(trial)
        test_death_of_the_launcher(trial)
        test_started_by_another(trial, reference)
        test_silent_rank(trial)
        test_missing_rank_zero(trial)
        test_local_steps(trial, random.Random(seed))
        test_kills(trial, reference, kills, random.Random(seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
