#!/usr/bin/env python3
"""Kills, stops or interrupts ranks of `penstock train --processes N` or their launcher. Checks that all processes end,
the printed lines, and that the resumed run ends with the same bits as an undisturbed run.

  processes_test.py PROGRAM [SOURCE] [KILLS] [SEED]
"""

import os
import random
import re
import signal
import sys
import time

import kill_resume_test as single
from kill_resume_test import fail, metrics, wait_for
from processes import OF_RANKS, TREE, alive, finish, ranks_of, same_end, start, start_by_hand, trial_of


def test_signals(trial, reference):
    """SIGTERM to the launcher, to rank 0 or to another rank: the same step is saved, and all ranks stop.

    `timeout` sends the launcher the signal twice."""
    for whom in ("launcher", "launcher twice", 0, 1):
        run = trial.new_run()
        launcher = start(trial, run, 2)
        if not wait_for(lambda: len(metrics(run)) >= 4, launcher, 60):
            fail("no progress before a signal")
        ranks = ranks_of(launcher)
        for pid in (launcher.pid, *ranks.values()):
            with open(f"/proc/{pid}/comm") as file:
                if (name := file.read().strip()) != "penstock":
                    fail("ps calls process", pid, name)
        os.kill(ranks.get(whom, launcher.pid), signal.SIGTERM)
        if whom == "launcher twice":
            launcher.send_signal(signal.SIGTERM)
        _, errors = launcher.communicate(timeout=60)
        stopped = re.search(r"stopped by signal 15 after step (\d+)", errors)
        if launcher.returncode != 130 or not stopped:
            fail("SIGTERM to", whom, "ended with", launcher.returncode, errors)
        # If its evaluation was stopped, the last step's line is in the checkpoint.
        done = int(stopped[1])
        if metrics(run)[-1]["step"] not in (done - 1, done):
            fail("SIGTERM to", whom, "after step", done, "left a log up to", metrics(run)[-1]["step"])
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
    """A rank is stopped by SIGSTOP. The run ends after parallel.timeout, after 20 s, or after two interrupts.

    The ranks wait for parallel.timeout, and the launcher waits for 20 s."""
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


def test_silent_rank(trial):
    """A rank is stopped by SIGSTOP, without a launcher to notice this. The other rank names it and ends.

    The stopped rank ends when it is continued."""
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


def most_address_space(process):
    """Returns the largest address space of a process in bytes (VmPeak). Waits until the process ends."""
    most = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as file:
                lines = [line.split() for line in file if line.startswith("VmPeak:")]
            most = max([most, *(1024 * int(line[1]) for line in lines)])
        except OSError:
            pass
        time.sleep(0.01)
    return most


def test_memory_that_runs_out(trial):
    """A rank's address space is limited: a small model's peak plus three quarters of a large model's additional need.

    Both ranks end. One line says which rank's memory ran out, with the reason and the place."""
    short, large, most = ["--set", "train.steps=2", "--set", "train.eval_every=2"], "model.d_ffn=20000", []
    for more in (short, [*short, "--set", large]):
        # This limit prevents the reservation of addresses for large pages, which is as large as the machine's memory.
        process = start(trial, trial.new_run(), 1, *more, address_space=4 << 30)
        most.append(most_address_space(process))
        if process.wait() != 0:
            fail("ended with", process.returncode, process.communicate()[1])
    with open(trial.recipe) as file:
        small = file.read()
    with open(trial.recipe, "w") as file:
        file.write(re.sub("(?m)^(steps|eval_every) = .*$", r"\1 = 2",
                          re.sub("(?m)^d_ffn = .*$", "d_ffn = 20000", small)))
    limit = (most[0] + 3 * most[1]) // 4
    for starved in (1, 0):
        begun = time.monotonic()
        ranks = start_by_hand(trial, trial.new_run(), address_spaces=[limit if r == starved else None for r in (0, 1)])
        ends = [rank.communicate(timeout=60)[1] for rank in ranks]
        told = [line for end in ends for line in end.splitlines()
                if line.startswith("penstock: ") and f"rank {starved} on " in line and "memory ran out" in line]
        if [rank.returncode for rank in ranks] != [1, 1] or len(told) != 1 or time.monotonic() - begun > 30:
            fail("rank", starved, "without memory ended with", [rank.returncode for rank in ranks], ends)
    with open(trial.recipe, "w") as file:
        file.write(small)
    print("a rank whose memory runs out ends all, and one line says so")


def test_local_steps(trial, rng):
    """Ranks train with local steps. A stopped or killed run ends with the same bits in the same layout."""
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
            if launcher.returncode == 0:  # the kill came after the rank had finished
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
    if longest > 14:  # after 15 s the launcher itself ends ranks that did not notice
        fail("the others took", longest, "s to end")
    finish(trial, run, rng.choice((1, 2, 4)), *TREE)
    same_end(run, reference)
    print(f"{done} kills of a rank; all ended within {longest:.1f} s; resumed to the same end")


def main():
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    with trial_of(sys.argv[1]) as trial:
        reference = trial.new_run()
        finish(trial, reference, 1, *TREE)
        test_signals(trial, reference)
        test_stuck_rank(trial)
        test_death_of_the_launcher(trial)
        test_silent_rank(trial)
        test_memory_that_runs_out(trial)
        test_local_steps(trial, random.Random(seed))
        test_kills(trial, reference, kills, random.Random(seed))


if __name__ == "__main__":
    main()
