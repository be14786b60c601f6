#!/usr/bin/python3
"""Runs `penstock eval --tasks` on a tiny run: results, records of every item, comparison of two models, and one
clear line for each mistake.

    eval_tasks_test.py PENSTOCK SOURCE_DIRECTORY
"""

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from random import Random

from shell import main

TASK = """name = "sides"
metrics = ["acc", "acc_norm"]
files = ["sides.jsonl"]
[[form]]
has = ["q", "c"]
context = "{{q}}:"
choices = ["{{c}}"]
gold = "{{g}}"
"""


def write(shell, name, text):
    path = os.path.join(shell.directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text if isinstance(text, str) else "".join(json.dumps(row) + "\n" for row in text))


def check_own_task(shell):
    write(shell, "own/sides.toml", TASK)
    write(shell, "own/sides.jsonl", [{"q": f"the gate {i}", "c": ["the", "turbine", "zq"], "g": i % 3}
                                     for i in range(30)])
    own = ("eval", "run", "--task", "own/sides.toml")
    out = json.loads(shell.ok(*own, "--json", "--items", "items.jsonl"))["tasks"]["sides"]
    shell.expect("--task", out["n"] == 30 and out["protocol"] == "lm-eval" and out["version"] == "1.0", out)
    with open(os.path.join(shell.directory, "items.jsonl")) as file:
        items = [json.loads(line) for line in file]
    shell.expect("--items", len(items) == 30 and items[3]["doc"]["q"] == "the gate 3", items[3])
    shell.mistake(1, ["own/sides.jsonl"], *own, "--items", "own/sides.jsonl")
    shell.expect("--items keeps its input", os.path.getsize(os.path.join(shell.directory, "own/sides.jsonl")) > 900)
    shell.mistake(1, ["two tasks named sides@1.0"], *own, "--task", "own/sides.toml")
    shell.mistake(1, ["nowhere"], *own, "--compare", "nowhere")
    right = norm = 0
    for item in items:
        requests = item["requests"]
        shell.expect("--items", [request["continuation"] for request in requests] == [" the", " turbine", " zq"])
        # The model reads 16 bytes. The first bytes of a longer request are left out.
        for request in requests:
            text = (request["context"] + request["continuation"]).encode()[-17:]
            shell.expect("--items", bytes(request["ids"]) == text, request)
            shell.expect("--items", bytes(request["ids"][request["scored_from"]:]) ==
                         request["continuation"].encode(), request)
        logs = [request["loglikelihood"] for request in requests]
        shell.expect("--items", item["chosen"] == logs.index(max(logs)), item)
        right += item["chosen"] == item["gold"]
        by_length = [log / length for log, length in zip(logs, (3, 7, 2))]
        norm += by_length.index(max(by_length)) == item["gold"]
    shell.expect("acc", out["acc"] == right / 30 and out["acc_norm"] == norm / 30, out)
    error = math.sqrt(out["acc"] * (1 - out["acc"]) / 29)
    shell.expect("acc_stderr", abs(out["acc_stderr"] - error) < 1e-12, out)
    shell.expect("guess", abs(out["guess"] - 1 / 3) < 1e-12, out)
    ten = json.loads(shell.ok(*own, "--json", "--limit", "10"))["tasks"]["sides"]
    shell.expect("--limit", ten["n"] == 10, ten)
    table = shell.ok(*own, "--fold")
    shell.expect("table", "sides@1.0" in table and "routers folded" in table, table)
    short = json.loads(shell.ok(*own, "--json", "--sequence-length", "9", "--items", "short.jsonl"))
    shell.expect("--sequence-length", short["tasks"]["sides"]["n"] == 30, short)
    with open(os.path.join(shell.directory, "short.jsonl")) as file:
        longest = max(len(request["ids"]) for line in file for request in json.loads(line)["requests"])
    shell.expect("--sequence-length", longest == 10, longest)


def check_requests(shell):
    """--requests gives the same scores as --items for the same requests, given as texts and as token ids."""
    with open(os.path.join(shell.directory, "items.jsonl")) as file:
        asked = [request for line in file for request in json.loads(line)["requests"]]
    scores = [{key: request[key] for key in ("ids", "scored_from", "loglikelihood", "greedy")} for request in asked]
    for keys in (("context", "continuation"), ("ids", "scored_from")):
        write(shell, "asked.jsonl", [{key: request[key] for key in keys} for request in asked])
        answers = [json.loads(line) for line in shell.ok("eval", "run", "--requests", "asked.jsonl").splitlines()]
        shell.expect("--requests", len(answers) == len(scores), len(answers))
        for answer, score in zip(answers, scores):
            shell.expect("--requests", abs(answer["loglikelihood"] - score["loglikelihood"]) < 1e-5, answer)
            shell.expect("--requests", {**answer, "loglikelihood": 0} == {**score, "loglikelihood": 0}, answer)
    with subprocess.Popen([shell.program, "eval", "run", "--requests", "-"], cwd=shell.directory, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        for score in scores[:3]:  # each answer is read before the next request is written
            program.stdin.write(json.dumps({"ids": score["ids"], "scored_from": score["scored_from"]}) + "\n\n")
            program.stdin.flush()
            answer = json.loads(program.stdout.readline())
            shell.expect("--requests -", abs(answer["loglikelihood"] - score["loglikelihood"]) < 1e-5, answer)
        program.stdin.close()
        shell.expect("--requests -", program.wait() == 0 and program.stdout.read() == "")
    write(shell, "asked.jsonl", '{"context": "a", "continuation": "b"}\n\n{"context": "a"}\n')
    shell.mistake(1, ["asked.jsonl:3", "'context' and 'continuation'"], "eval", "run", "--requests", "asked.jsonl")
    shell.mistake(1, ["nowhere.jsonl", "cannot be opened"], "eval", "run", "--requests", "nowhere.jsonl")
    shell.mistake(2, ["--requests", "--task"], "eval", "run", "--requests", "x", "--task", "own/sides.toml")
    shell.mistake(2, ["--requests", "--data"], "eval", "run", "--requests", "x", "--data", "corpus")
    shell.mistake(2, ["MODEL"], "eval", "--requests", "x")


def check_word_tasks(shell):
    """examples/tasks: cloze and last-word items made from a text."""
    folder = os.path.join(os.path.abspath(sys.argv[2]), "examples", "tasks")
    ends = ("water", "gates", "stone", "wheel", "river")
    write(shell, "words.txt", "".join(f"Number {i} of the gates that we saw was made of much more {ends[i % 5]}. "
                                      for i in range(60)))
    command = [sys.executable, os.path.join(folder, "make_word_tasks.py"), "words.txt", "words", "--from", "0.5",
               "--items", "20"]
    done = subprocess.run(command, cwd=shell.directory, capture_output=True, text=True)
    shell.expect("make_word_tasks.py", done.returncode == 0, done.stderr)
    with open(os.path.join(shell.directory, "words", "cloze.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        number = int(row["context"][row["context"].rindex("Number ") + 7:].split()[0])
        shell.expect("cloze", row["words"][row["right"]] == ends[number % 5] and len(set(row["words"])) == 4 and
                     number >= 30 and row["context"].endswith("much more"), row)
    out = json.loads(shell.ok("eval", "run", "--task", os.path.join(folder, "cloze.toml"), "--task",
                              os.path.join(folder, "last_word.toml"), "--task-data", "words", "--json"))["tasks"]
    shell.expect("word tasks", out["cloze"]["n"] == out["last_word"]["n"] == len(rows) == 20 and
                 out["cloze"]["guess"] == 0.25 and "perplexity" in out["last_word"], out)


def check_generated_answers(shell):
    task = TASK.replace('["acc", "acc_norm"]', '["exact_match"]\nkind = "generation"\nmax_tokens = 4')
    task = task[:task.index("choices")] + 'answers = ["{{c}}"]\n'
    write(shell, "said/sides.toml", task)
    write(shell, "said/sides.jsonl", [{"q": f"the gate {i}", "c": ["the", "turbine"]} for i in range(5)])
    said = ("eval", "run", "--task", "said/sides.toml", "--json")
    out = json.loads(shell.ok(*said, "--items", "said.jsonl"))["tasks"]["sides"]
    shell.expect("exact_match", out["n"] == 5 and out["exact_match"] == out["acc"] and "guess" not in out, out)
    with open(os.path.join(shell.directory, "said.jsonl")) as file:
        items = [json.loads(line) for line in file]
    for i, item in enumerate(items):
        # The window has 16 bytes and the answer takes 4, so 12 are left for "the gate 0:" (11 bytes).
        shell.expect("--items", bytes(item["requests"][0]["ids"]) == f"the gate {i}:".encode()[-12:], item)
        shell.expect("--items", 1 <= len(item["generated"].encode()) <= 12 and item["answers"] == ["the", "turbine"],
                     item)
        shell.expect("--items", "loglikelihood" not in item["requests"][0], item)
    shell.mistake(1, ["sides.jsonl:1", "window of 4 tokens has no room"], *said, "--sequence-length", "4")
    shell.mistake(1, ["own number of experts"], "eval", "xl", "--task", "said/sides.toml", "--k", "1")


def check_tasks_by_name(shell):
    write(shell, "data/arc_easy.jsonl", [
        {"query": "Question: What turns?", "choices": ["a gate", "a turbine", "water"], "gold": 1},
        {"query": "Question: What flows?", "choices": ["a gate", "a turbine", "water", "air"], "gold": 2}])
    arc = ("eval", "run", "--tasks", "arc_easy", "--task-data", "data", "--json")
    out = json.loads(shell.ok(*arc))["tasks"]["arc_easy"]
    shell.expect("--tasks", out["n"] == 2 and "acc_norm" in out and abs(out["guess"] - 7 / 24) < 1e-12, out)
    other = json.loads(shell.ok(*arc, "--protocol", "opencompass", "--sequence-length", "99"))["tasks"]["arc_easy"]
    shell.expect("opencompass", other["n"] == 1 and other["left_out"] == 1 and "acc_norm" not in other, other)
    shell.expect("opencompass", other["protocol"] == "opencompass" and other["version"] == "a450bd", other)
    exact = json.loads(shell.ok(*arc, "--f64", "--items", "exact.jsonl"))
    shell.ok(*arc, "--items", "usual.jsonl")
    shell.expect("--f64", exact["dtype"] == "f64" and exact["tasks"]["arc_easy"]["acc"] == out["acc"], exact)
    sums = []
    for name in ("exact.jsonl", "usual.jsonl"):
        with open(os.path.join(shell.directory, name)) as file:
            sums.append([r["loglikelihood"] for line in file for r in json.loads(line)["requests"]])
    apart = [abs(a - b) for a, b in zip(*sums)]
    shell.expect("--f64", len(apart) == 7 and 0 < max(apart) < 1e-3, apart)
    shell.mistake(2, ["--tasks or --requests"], "eval", "run", "--text", "data/arc_easy.jsonl", "--f64")
    listed = shell.ok("eval", "--list-tasks")
    for word in ("protocol lm-eval", "arc_easy@1.0", "race@2.0", "remoe", "protocol opencompass", "router-upcycling"):
        shell.expect("--list-tasks", word in listed, word)


def check_few_shot(shell):
    write(shell, "few/sides.toml", TASK.replace("[[form]]", "[fewshot]\nwithout_itself = true\n[[form]]"))
    rows = [{"q": f"gate {i}", "c": ["the", "zq"], "g": i % 2} for i in range(9)]
    write(shell, "few/sides.jsonl", rows)
    few = ("eval", "run", "--task", "few/sides.toml", "--fewshot", "3")
    out = json.loads(shell.ok(*few, "--json", "--items", "few.jsonl"))["tasks"]["sides"]
    shell.expect("--fewshot", out["n"] == 9 and out["fewshot"] == 3 and out["fewshot_seed"] == 1234, out)
    with open(os.path.join(shell.directory, "few.jsonl")) as file:
        items = [json.loads(line) for line in file]
    random = Random(1234)  # Python's own generator, which the program must reproduce
    for row, item in zip(rows, items):
        drawn = [one for one in random.sample(rows, 4) if one != row][:3]
        text = "".join(f"{one['q']}: {one['c'][one['g']]}\n\n" for one in drawn) + f"{row['q']}:"
        shell.expect("--fewshot", item["requests"][0]["context"] == text, f"{item['requests'][0]} {text!r}")
    other = json.loads(shell.ok(*few, "--json", "--fewshot-seed", "5", "--limit", "2"))["tasks"]["sides"]
    shell.expect("--fewshot-seed", other["n"] == 2 and other["fewshot_seed"] == 5, other)
    shell.expect("--fewshot", "protocol lm-eval, 3-shot" in shell.ok(*few))
    shell.mistake(1, ["10 few-shot examples", "9 rows"], "eval", "run", "--task", "few/sides.toml", "--fewshot", "10")
    shell.mistake(1, ["sides.toml", "no table [fewshot]"], "eval", "run", "--task", "own/sides.toml", "--fewshot", "1")
    arc = ("eval", "run", "--tasks", "arc_easy", "--task-data", "data", "--fewshot", "1")
    shell.mistake(1, ["arc_easy", "few-shot examples", "arc_easy_train.jsonl"], *arc)
    shell.mistake(1, ["opencompass", "--fewshot", "lm-eval"], *arc, "--protocol", "opencompass")
    shell.mistake(2, ["--fewshot-seed", "--fewshot"], "eval", "run", "--task", "few/sides.toml", "--fewshot-seed", "5")


def check_kept_answers(shell):
    """An evaluation that was killed repeatedly at random moments ends with the same bytes as one that was not killed.

    It computes no answer twice."""
    words = ["the", "turbine", "zq", "gate", "water"]
    write(shell, "long/sides.toml", TASK)
    write(shell, "long/sides.jsonl", [{"q": f"gate {i}" * (1 + i % 3), "c": words, "g": i % 5} for i in range(6000)])
    own = ("eval", "run", "--task", "long/sides.toml", "--json", "--items")
    begin = time.monotonic()
    whole = shell.ok(*own, "whole.jsonl")
    seconds = time.monotonic() - begin

    def kept():
        path = os.path.join(shell.directory, "killed.jsonl.part")
        with open(path, "rb") if os.path.exists(path) else io.BytesIO() as file:
            return [line for line in file.read().split(b"\n")[1:] if line]

    random, before, interrupted = Random(7), [], 0
    for signum, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = subprocess.Popen([shell.program, *own, "killed.jsonl"], cwd=shell.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while process.poll() is None and len(kept()) == len(before):
            time.sleep(0.005)
        time.sleep(random.uniform(0, seconds / 8))
        process.send_signal(signum)
        _, said = process.communicate(timeout=60)
        if process.returncode == 0:  # the evaluation ended before the signal
            break
        interrupted += 1
        shell.expect("a killed evaluation keeps its answers", process.returncode == code, f"{process.returncode} {said}")
        shell.expect("Ctrl-C", signum != signal.SIGINT or "kept in killed.jsonl.part" in said, said)
        shell.expect("a killed evaluation keeps its answers", not before or "taken up" in said, said)
        now = kept()
        shell.expect("a killed evaluation keeps its answers", now[:len(before)] == before and len(now) > len(before), f"{len(before)} {len(now)}")
        before = now
    shell.expect("a killed evaluation keeps its answers", interrupted >= 1)
    shell.mistake(1, ["killed.jsonl.part", "another evaluation", "other requests of sides@1.0"], *own, "killed.jsonl",
                  "--limit", "5000")
    shell.mistake(1, ["killed.jsonl.part", "another model"], "eval", "topk", *own[2:], "killed.jsonl")
    part = os.path.join(shell.directory, "killed.jsonl.part")
    with open(part, "rb") as file:
        content = file.read()
    with open(part, "wb") as file:
        file.write(content.replace(b"scores", b"Scores", 1))
    shell.mistake(1, ["killed.jsonl.part", "is damaged", "remove the file"], *own, "killed.jsonl")
    with open(part, "wb") as file:
        file.write(content)
    shell.expect("answers are taken up", json.loads(shell.ok(*own, "killed.jsonl")) == json.loads(whole))
    with open(os.path.join(shell.directory, "killed.jsonl"), "rb") as mine, \
            open(os.path.join(shell.directory, "whole.jsonl"), "rb") as other:
        shell.expect("answers are taken up", mine.read() == other.read())
    shell.expect("answers are taken up", not os.path.exists(part))


def check_compare(shell):
    shell.ok("train", "recipe.toml", "--out", "xl", "--quiet", "--set", "model.architecture=transformer-xl",
             "--set", "model.router.method=smoe", "--set", "model.router.k=2")
    own = ("eval", "run", "--task", "own/sides.toml", "--compare", "xl")
    out = json.loads(shell.ok(*own, "--json"))
    pair = out["compare"]["differences"]["sides@1.0"]
    other = out["compare"]["tasks"]["sides"]
    shell.expect("--compare", abs(pair["difference"] - (other["acc"] - out["tasks"]["sides"]["acc"])) < 1e-12, out)
    shell.expect("--compare", pair["interval"][0] <= pair["difference"] <= pair["interval"][1], pair)
    shell.expect("--compare", "McNemar p" in shell.ok(*own))
    same = json.loads(shell.ok("eval", "xl", "--task", "own/sides.toml", "--compare", "xl", "--k", "1", "--json"))
    pair = same["compare"]["differences"]["sides@1.0"]
    shell.expect("--compare", same["k"] == 1 and pair["difference"] == 0 and pair["p"] == 1, same)


def check_other_formats(shell):
    """Exports to Hugging Face and GGUF have the same scores as the exported model."""
    shell.ok("train", "recipe.toml", "--out", "topk", "--quiet", "--set", "model.router.method=topk")
    task = ("--task", "own/sides.toml", "--json", "--sequence-length", "16")
    own = json.loads(shell.ok("eval", "topk", *task))["tasks"]["sides"]
    shell.ok("export", "topk", "--format", "hf", "--out", "hf")
    shell.ok("export", "topk", "--format", "gguf", "--out", "topk.gguf")
    for model in ("hf", "topk.gguf"):
        other = json.loads(shell.ok("eval", model, *task))["tasks"]["sides"]
        shell.expect(model, other == own, f"{other} {own}")


def check_mistakes(shell):
    def own(row, *more, form=TASK):
        write(shell, "bad/sides.toml", form)
        write(shell, "bad/sides.jsonl", row if isinstance(row, str) else [row])
        return ("eval", "run", "--task", "bad/sides.toml", *more)

    good = {"q": "x", "c": ["a", "b"], "g": 0}
    shell.ok(*own(good))
    shell.mistake(1, ["bad/sides.jsonl:1", "no JSON"], *own("{\"q\": \n"))
    shell.mistake(1, ["bad/sides.jsonl:1", "fits no form of task sides", "{q, g}"], *own({"q": "x", "g": 0}))
    shell.mistake(1, ["bad/sides.jsonl:1", "sides.toml:8", "no field 'g'"], *own({"q": "x", "c": ["a", "b"]}))
    shell.mistake(1, ["bad/sides.jsonl:1", "the answer 2 is none of the choices 0 to 1"], *own({**good, "g": 2}))
    shell.mistake(1, ["bad/sides.jsonl:1", "choice 2 is empty"], *own({**good, "c": ["a", ""]}))
    shell.mistake(1, ["bad/sides.jsonl:1", "21 tokens is longer than the model's window of 16", "--sequence-length = 21"],
                  *own({**good, "c": ["a", "b" * 20]}))
    shell.ok(*own({**good, "c": ["a", "b" * 20]}, "--sequence-length", "21"))
    shell.mistake(1, ["bad/sides.toml:8", "no filter 'indx'", "'index'"],
                  *own(good, form=TASK.replace("{{g}}", "{{g | indx}}")))
    shell.mistake(1, ["bad/sides.toml", "colour"], *own(good, form="colour = 1\n" + TASK))
    shell.mistake(1, ["no-such.toml"], "eval", "run", "--task", "no-such.toml")
    shell.mistake(1, ["'arc_esy'", "'arc_easy'"], "eval", "run", "--tasks", "arc_esy", "--task-data", "data")
    shell.mistake(1, ["piqa", "data", "piqa/valid.jsonl"], "eval", "run", "--tasks", "arc_easy,piqa", "--task-data",
                  "data")
    shell.mistake(1, ["arc_easy", "--task-data"], "eval", "run", "--tasks", "arc_easy")
    shell.mistake(1, ["no-such-folder"], "eval", "run", "--tasks", "arc_easy", "--task-data", "no-such-folder")
    shell.mistake(1, ["protocol opencompass has no task 'piqa'"], "eval", "run", "--tasks", "piqa", "--task-data",
                  "data", "--protocol", "opencompass")
    shell.mistake(2, ["--protocol", "windows"], *own(good, "--protocol", "windows"))
    shell.mistake(2, ["--tasks", "--data"], "eval", "run", "--tasks", "arc_easy", "--data", "corpus")
    shell.mistake(2, ["--task", "--text"], "eval", "run", "--task", "x", "--text", "text.txt")
    shell.mistake(2, ["MODEL"], "eval", "--tasks", "arc_easy")
    for option in (("--limit", "3"), ("--items", "x"), ("--compare", "run"), ("--task-data", "data"),
                   ("--fewshot", "1")):
        shell.mistake(2, [option[0], "--tasks"], "eval", "run", "--data", "corpus", *option)
    shell.mistake(2, ["--limit"], *own(good, "--limit", "-1"))
    shell.mistake(2, ["--k", "one number"], "eval", "xl", "--task", "own/sides.toml", "--k", "1,2")
    shell.mistake(1, ["no-such-folder"], *own(good, "--items", "no-such-folder/x"))


if __name__ == "__main__":
    main([check_own_task, check_requests, check_tasks_by_name, check_few_shot, check_compare, check_word_tasks,
          check_generated_answers, check_other_formats, check_kept_answers, check_mistakes])
