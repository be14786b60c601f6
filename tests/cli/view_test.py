#!/usr/bin/python3
"""Requests the pages and data of `penstock view` for a run and for a study, of `penstock study --serve` during a study,
and of /v1/corpus, as programs do. page_test.py opens the pages in a browser.

    view_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import re
import subprocess
import time

import shell as shared
from serve_test import Server, serving

STUDY = """
name = "tiny"
base = "recipe.toml"
[variants.topk]
set = {"model.router.method" = "topk", "model.router.k" = 2}
[variants.remoe]
"""


def names(state):
    return [run["name"] for run in state["runs"]]


def a_run(shell):
    with serving(shell, model="run", command="view") as server:
        shell.expect("the page of its model", "<title>Penstock</title>" in server.ask("GET", "/")[1])
        models = json.loads(server.ask("GET", "/v1/models")[1])
        shell.expect("its model", models["data"][0]["id"] == "run" and "/report" in models["endpoints"], models)
        shell.expect("the page of its curves", "<title>Penstock: curves</title>" in server.ask("GET", "/runs")[1])
        state = json.loads(server.ask("GET", "/v1/runs")[1])
        shell.expect("its curves", state["finished"] and names(state) == ["run"] and state["runs"][0]["steps"] == 6 and
                     state["runs"][0]["curves"]["validation_loss"]["steps"] == [0, 3, 6], state)
        shell.expect("its report", "<html" in server.ask("GET", "/report")[1][:100])
        shell.expect("asked by another name", server.ask("GET", "/report", headers={"Host": "elsewhere.example"})[0] == 403)
    with serving(shell, "--without-model", model="run", command="view") as server:
        shell.expect("the curves in its place", "curves</title>" in server.ask("GET", "/")[1])
        status, error = server.post("/v1/completions", {"prompt": "a"})
        shell.expect("no model", status == 404 and error["error"]["param"] == "model", error)
    with serving(shell, model=".", command="view", folder="run") as server:
        shell.expect("the name of its folder", json.loads(server.ask("GET", "/v1/models")[1])["data"][0]["id"] == "run")
        shell.expect("one run", names(json.loads(server.ask("GET", "/v1/runs")[1])) == ["run"])
    shell.mistake(1, ["corpus", "neither a run nor a study"], "view", "corpus")
    shell.mistake(2, ["--without-model excludes --name"], "view", "run", "--without-model", "--name", "a", "--port", "0")
    os.makedirs(os.path.join(shell.directory, "place/runs"))
    os.symlink("../../run", os.path.join(shell.directory, "place/runs/mine"))
    shell.mistake(1, ["place: is neither a run nor a study; view one of its runs, such as place/runs/mine\n"], "view", "place",
                  "--port", "0")


def a_study(shell):
    """The curves of a study during the study and after its end."""
    with open(os.path.join(shell.directory, "study.toml"), "w") as file:
        file.write(STUDY)
    running = subprocess.Popen([shell.program, "study", "study.toml", "--out", "study", "--quiet", "--serve", "0",
                                "--set", "train.steps=300", "--set", "train.eval_every=50"],
                               cwd=shell.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = running.stderr.readline()
        found = re.search(r"curves at http://127\.0\.0\.1:(\d+)/", line)
        shell.expect("an address", found, line)
        server, seen = Server(running, int(found.group(1))), []
        while running.poll() is None and not any(0 < steps < 300 for _, steps in seen):
            try:
                state = json.loads(server.ask("GET", "/v1/runs")[1])
            except OSError:
                break  # the study ended in the meantime
            shell.expect("not finished", not state["finished"], state)
            seen += [(run["name"], run["steps"]) for run in state["runs"]]
            time.sleep(0.01)
        shell.expect("a run under way", any(0 < steps < 300 for _, steps in seen), seen[-5:])
        shell.expect("the study", running.wait(timeout=120) == 0, running.stderr.read())
    finally:
        running.kill()
        running.communicate()
    with serving(shell, model="study", command="view") as server:
        state = json.loads(server.ask("GET", "/v1/runs")[1])
        shell.expect("its curves", state["finished"] and names(state) == ["remoe-seed-1", "topk-seed-1"], state)
        shell.expect("its report", "<html" in server.ask("GET", "/report")[1][:100])
    shell.mistake(1, ["study: has no model of its own for --name; leave it out, or view one of its runs, such as study/runs/"],
                  "view", "study", "--name", "a", "--port", "0")
    os.remove(os.path.join(shell.directory, "study/results.json"))
    with serving(shell, model="study", command="view") as server:
        state = json.loads(server.ask("GET", "/v1/runs")[1])
        shell.expect("a study under way", not state["finished"] and len(names(state)) == 2, state)


def beside(shell):
    shell.ok("train", "recipe.toml", "--out", "gates", "--quiet", "--set", "model.router.method=hyperrouter")
    with serving(shell, "--folded", "--beside", "run", "--data", "corpus", model="gates") as server:
        models = json.loads(server.ask("GET", "/v1/models")[1])["data"]
        shell.expect("three models", [model["id"] for model in models] == ["gates", "gates-folded", "run"], models)
        ask = {"prompt": "the gate", "max_tokens": 8, "seed": 3, "temperature": 0}
        texts = [server.post("/v1/completions", {**ask, "model": name})[1]["choices"][0]["text"]
                 for name in ("gates", "gates-folded")]
        shell.expect("folded, the same text", texts[0] == texts[1], texts)
        corpus = json.loads(server.ask("GET", "/v1/corpus")[1])
        layers = corpus["layers"]
        shell.expect("tokens of each expert", len(layers) == 2 and len(layers[0]) == corpus["experts"] == 4, corpus)
        places = sum(token["count"] for token in corpus["frequent"])
        shell.expect("all tokens", places == corpus["tokens"], (places, corpus["tokens"]))
        for token in corpus["frequent"]:
            shares = sum(share for _, share in token["layers"][0])
            shell.expect("shares of its places", token["count"] and 0.99 < shares, token)
        load = sum(corpus["domains"][0]["load"][0])
        shell.expect("domains", abs(load - corpus["domains"][0]["active"][0]) < 1e-9, corpus["domains"])
    shell.mistake(1, ["two models are called 'gates'"], "serve", "gates", "--beside", "gates", "--port", "0")


if __name__ == "__main__":
    shared.main([a_run, a_study, beside])
