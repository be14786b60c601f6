#!/usr/bin/python3
"""Runs `penstock analyse` on a tiny run and on published tables.

    analyse_test.py PENSTOCK
"""

import json
import os
import re

from shell import main


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
    shell.expect("analyse", len(done["samples"]) == 4 and len(done["jacobian"]) == 2, done["jacobian"])
    for row in done["jacobian"]:
        shell.expect("analyse", row["bounds_hold"] and row["closed_form_error"] < 1e-12, row)
    shell.expect("analyse", [one["rank"] for one in done["span"][0]["router"]] == [4, 8, 12], done["span"])
    shell.expect("analyse", done["refused"] == {}, done["refused"])
    page = open(os.path.join(shell.directory, "routing.html"), encoding="utf-8").read()
    shell.expect("analyse", "Router entropy" in page and "<script src" not in page)
    shell.expect("entropy as distance", "Distance from uniform over training" in page)
    text = shell.ok("analyse", "run/checkpoints/step-6", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "ln 4 = 1.3863" in text and "step 6" in text and "step 0" not in text, text)
    shell.ok("train", "recipe.toml", "--out", "hashed", "--quiet", "--set", "model.router.method=hash")
    text = shell.ok("analyse", "hashed", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "Router entropy: not measured: scorer 'none'" in text, text)
    tables = json.loads(shell.ok("analyse", "--tables", "A3", "A4", "--json"))
    shell.expect("analyse", [table["table"] for table in tables] == ["A3", "A4"], tables)
    shell.expect("analyse", re.search(r"k = 1 +HyperRouter +3\.47 +3\.7354 ", shell.ok("analyse", "--tables", "A3")))
    shell.mistake(1, ["A9", "A3"], "analyse", "--tables", "A9")
    shell.mistake(1, ["MODEL"], "analyse")
    shell.mistake(1, ["--data"], "analyse", "run")


if __name__ == "__main__":
    main([check_analyse])
