#!/usr/bin/python3
"""Runs `penstock analyse` on a tiny run and on published tables.

    analyse_test.py PENSTOCK
"""

import json
import os
import re

from shell import main


def check_routing(shell):
    """A run on two domains: flips of routing between checkpoints, and experts by token and by domain."""
    with open(os.path.join(shell.directory, "digits.txt"), "w") as file:
        file.write("3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8 4 6 2 6 4 3\n" * 200)
    shell.ok("data", "prepare", "text.txt", "digits.txt", "--out", "two")
    shell.ok("train", "recipe.toml", "--out", "both", "--quiet", "--set", "data.corpus=two", "--set",
             "train.checkpoint_every=2", "--set", "train.keep_last=9")
    arguments = ("both", "--data", "two", "--split", "validation")
    done = json.loads(shell.ok("analyse", *arguments, "--json", "--html", "both.html"))
    shell.expect("no measure is refused", done["refused"] == {}, done["refused"])
    steps = [one["step"] for one in done["snapshots"]]
    between = done["flips"]["between"]
    shell.expect("flips between checkpoints", [(one["from"], one["to"]) for one in between] == list(zip(steps, steps[1:])), between)
    for one in between:
        shell.expect("flips between checkpoints", 0 <= one["rate"] <= 1 and abs(one["count"] - 4 * one["rate"]) < 1e-12, one)
        shell.expect("flips between checkpoints", abs(sum(one["layers"]) / 2 - one["rate"]) < 1e-12, one)
    frequency = done["token_frequency"]
    for bins in (frequency["by_frequency"], frequency["by_surprisal"]):
        shell.expect("number of places", sum(one["places"] for one in bins) == frequency["places"], bins)
    chosen = next(one for one in done["snapshots"] if one["step"] == done["step"])
    shell.expect("layers", len(frequency["layers"]) == 2 and "frequency_partial" in frequency["correlation"])
    for layer, table in enumerate(done["token_experts"]):
        for expert in table["experts"]:
            share = sum(one["share"] for one in expert["commonest"])
            load = chosen["layers"][layer]["load"]["share"][expert["expert"]]
            shell.expect("share of an expert that has load", (0 < share <= 1 + 1e-9) if load > 0 else share == 0, expert)
            shell.expect("surest tokens of an expert", all(one["share"] <= 1 and one["count"] >= 16 for one in expert["surest"]))
    domains = done["domains"]
    shell.expect("domains", [one["domain"] for one in domains["domains"]] == ["digits", "text"], domains)
    shell.expect("marks of the domains", domains["marks"] == {"share": 0.25, "load": 0.25, "inactive": 1 / 64}, domains["marks"])
    shell.expect("divergence", len(domains["divergence"]) == 2 and min(domains["divergence"]) >= 0, domains)
    for layer in domains["domains"][0]["layers"]:
        shell.expect("load", abs(sum(layer["load"]) - layer["active"]) < 1e-9, layer)
    page = open(os.path.join(shell.directory, "both.html"), encoding="utf-8").read()
    text = shell.ok("analyse", *arguments)
    for part in ("Flips of the routing between checkpoints", "Active experts, frequency and surprisal",
                 "Tokens of each expert", "Experts by domain"):
        shell.expect("text of the page", part in page, part)
        shell.expect("text of the output", part in text, text)
    one = json.loads(shell.ok("analyse", "both/checkpoints/step-6", *arguments[1:], "--json"))
    shell.expect("one model has no flips", one["flips"]["between"] == [] and "run directory" in one["refused"]["flips"],
                 one["refused"])
    os.rename(os.path.join(shell.directory, "both/checkpoints"), os.path.join(shell.directory, "away"))
    shell.mistake(1, ["both", "checkpoints"], "analyse", *arguments)


def check_layer_numbers(shell):
    """A model whose layers 0 and 2 are dense: its MoE layers have the numbers 1 and 3 wherever a user reads them."""
    shell.ok("train", "recipe.toml", "--out", "sparse", "--quiet", "--set", "model.layers=4", "--set",
             "model.moe.dense_layers=1", "--set", "model.moe.every=2")
    arguments = ("sparse", "--data", "corpus", "--split", "validation")
    done = json.loads(shell.ok("analyse", *arguments, "--json", "--html", "sparse.html"))
    shell.expect("expert_layers", done["expert_layers"] == [1, 3], done["expert_layers"])
    for rows in (done["snapshots"][0]["layers"], done["token_frequency"]["layers"], done["token_experts"], done["span"]):
        shell.expect("a layer counts the MoE layers", [row["layer"] for row in rows] == [0, 1], rows)
    page = open(os.path.join(shell.directory, "sparse.html"), encoding="utf-8").read()
    shell.expect("layers of the page", set(re.findall(r"layer (\d+)", page)) == {"1", "3"}, re.findall(r".{20}layer \d+", page))
    report = open(os.path.join(shell.directory, "sparse/report.html"), encoding="utf-8").read()
    shell.expect("layers of the run's report", set(re.findall(r"layer (\d+)", report)) == {"1", "3"}, re.findall(r".{20}layer \d+", report))
    text = shell.ok("analyse", *arguments)
    shell.expect("layers in sentences", set(re.findall(r"layer (\d+)", text)) <= {"1", "3"}, text)
    for title in ("Router entropy in nats", "Expert load", "Similarity of experts", "Jacobian's second term",
                  "Span of the router's rows"):
        table = text.partition(f"\n{title}")[2].split("\n\n")[0].splitlines()[2:]
        shell.expect(title, [row.split()[0] for row in table] == ["1", "3"], table)


def check_analyse(shell):
    done = json.loads(shell.ok("analyse", "run", "--data", "corpus", "--split", "validation", "--json",
                               "--html", "routing.html"))
    shell.expect("analyse", done["step"] in (3, 6) and done["method"] == "remoe", done["step"])
    shell.expect("analyse", [one["step"] for one in done["snapshots"]] == [0, 3, 6], done["snapshots"])
    for snapshot in done["snapshots"]:
        for layer in snapshot["layers"]:
            shell.expect("analyse", 0 < layer["entropy"]["mean"] <= done["most_entropy"], layer)
            shell.expect("analyse", abs(sum(layer["load"]["share"]) - 1) < 1e-9, layer)
            shell.expect("analyse", abs(layer["similarity"]["output_cosine"]) <= 1, layer)
            gradient = layer["gradient"]
            shell.expect("gradient", 0 < gradient["along_gate_sum"] <= 1 and gradient["gate_sum"]["mean"] > 0, gradient)
            shell.expect("gradient", gradient["matrix"]["norm"] > 0 and gradient["matrix"]["direction"] > 0, gradient)
    shell.expect("analyse", len(done["samples"]) == 4 and len(done["jacobian"]) == 2, done["jacobian"])
    for row in done["jacobian"]:
        shell.expect("analyse", row["bounds_hold"] and row["closed_form_error"] < 1e-12, row)
    shell.expect("analyse", [one["rank"] for one in done["span"][0]["router"]] == [4, 8, 12], done["span"])
    shell.expect("analyse", list(done["refused"]) == ["domains"] and "one domain" in done["refused"]["domains"],
                 done["refused"])
    page = open(os.path.join(shell.directory, "routing.html"), encoding="utf-8").read()
    shell.expect("analyse", "Router entropy" in page and "<script src" not in page)
    shell.expect("gradient", "ln gate sum over training" in page and "through the sum" in page)
    shell.expect("entropy as distance", "Distance from uniform over training" in page)
    text = shell.ok("analyse", "run/checkpoints/step-6", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "ln 4 = 1.3863" in text and "through the sum" in text and "step 6" in text and "step 0" not in text, text)
    shell.ok("train", "recipe.toml", "--out", "hashed", "--quiet", "--set", "model.router.method=hash")
    text = shell.ok("analyse", "hashed", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "Router entropy: not measured: scorer 'none'" in text, text)
    shell.expect("gradient", "there is nothing to take a gradient of" in " ".join(text.split()), text)
    tables = json.loads(shell.ok("analyse", "--tables", "A3,A4", "--json"))
    shell.expect("analyse", [table["table"] for table in tables] == ["A3", "A4"], tables)
    shell.expect("analyse", {"row": "SMoE-Dropout", "column": "Router", "published": 16.448, "computed": 16.448,
                             "useful": 16.448, "agrees": True, "remark": ""} == tables[1]["cells"][0], tables[1])
    shell.expect("analyse", re.search(r"k = 1 +HyperRouter +3\.47 +3\.7354 ", shell.ok("analyse", "--tables", "A3")))
    shell.mistake(1, ["A9", "A3"], "analyse", "--tables", "A9")
    for more in (["run"], ["--data", "corpus"], ["--html", "tables.html"]):
        shell.mistake(1, ["--tables needs no MODEL and no --data"], "analyse", "--tables", "A3", *more)
    shell.mistake(1, ["MODEL"], "analyse")
    shell.mistake(1, ["--data"], "analyse", "run")


if __name__ == "__main__":
    main([check_analyse, check_routing, check_layer_numbers])
