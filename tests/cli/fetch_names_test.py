#!/usr/bin/python3
"""Fetches the data sets that `penstock data fetch` knows by name from a server on 127.0.0.1. Checks rows of tasks
(archives are unpacked), files without a published checksum, right and wrong names, and an archive that becomes a
corpus.

    fetch_names_test.py PENSTOCK
"""

import hashlib
import json
import os
import subprocess
import zipfile

from fetch_server import run, zipped


def check_rows_of_tasks(test):
    """Members of an archive are unpacked, and a later call compares them with the record of the first call."""
    members = {"COPA/val.jsonl": "{\"a\": 1}\n", "COPA/train.jsonl": "{\"a\": 2}\n"}
    content = zipped({f"outer/{name}": text for name, text in members.items()} | {"COPA/test.jsonl": "no"})
    right = ("--sha256", hashlib.sha256(content).hexdigest(), "--json")
    test.server.reset(content, cut_after=100)
    test.fails("cut", ["100 bytes are kept"], "rows", *right, dataset="copa")
    test.server.reset(content)
    done = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("members of the archive", done["resumed_from"] == 100 and "--task-data " + test.path("rows") in done["next"], done)
    test.expect("members of the archive", test.left("rows") == ["COPA", "COPA.zip.fetched.json"], test.left("rows"))
    for name, text in members.items():
        with open(test.path(f"rows/{name}")) as file:
            test.expect("members of the archive", file.read() == text, name)
    test.expect("members of the archive", test.left("rows/COPA") == ["train.jsonl", "val.jsonl"], test.left("rows/COPA"))
    again = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("a second call fetches nothing", again["already_there"] and again["sha256"] == done["sha256"] and
                len(test.server.requests) == 1, again)
    test.fails("other sum", ["COPA.zip.fetched.json", done["sha256"], "0" * 64], "rows", "--sha256", "0" * 64,
               dataset="copa")
    os.remove(test.path("rows/COPA/val.jsonl"))
    again = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("a missing member is unpacked again", not again["already_there"] and test.left("rows/COPA") == ["train.jsonl", "val.jsonl"],
                again)
    with open(test.path("rows/COPA/val.jsonl"), "a") as file:
        file.write("more")
    test.fails("changed", ["COPA/val.jsonl", "when it was fetched", "remove both"], "rows", *right, dataset="copa")
    with open(test.path("rows/COPA.zip.fetched.json"), "w") as file:
        file.write("{}")
    test.fails("damaged record", ["COPA.zip.fetched.json", "is damaged", "remove it"], "rows", *right, dataset="copa")
    os.remove(test.path("rows/COPA.zip.fetched.json"))
    test.fails("mine", ["COPA/val.jsonl", "is there already", "is not what"], "rows", *right, dataset="copa")
    lacking = zipped({"COPA/val.jsonl": "{}\n"})
    test.server.reset(lacking)
    test.fails("lacking", ["has no member COPA/train.jsonl"], "lacking", "--sha256",
               hashlib.sha256(lacking).hexdigest(), dataset="copa")
    test.server.reset(content[:60])
    test.fails("torn", ["COPA.zip"], "torn", "--sha256", hashlib.sha256(content[:60]).hexdigest(), dataset="copa")
    test.expect("an archive cut short", "COPA.zip.fetched.json" not in test.left("torn"), test.left("torn"))


def check_first_sum_is_kept(test):
    """If no checksum of a file is published, the next call compares with the checksum of the first download."""
    test.server.reset(b"{}\n")
    plain = test.fetch("race", dataset="race").stdout
    test.expect("no checksum is known", "checksum unverified" in plain and "the next call compares with" in plain, plain)
    again = test.fetch("race", "--json", dataset="race")
    test.expect("no checksum is known", json.loads(again.stdout)["already_there"], again)
    with open(test.path("race/race_high_test.jsonl"), "w") as file:
        file.write("{ }\n")
    test.fails("no sum", ["race_high_test.jsonl", "when it was fetched"], "race", dataset="race")


def check_names(test):
    listed = subprocess.run([test.program, "data", "fetch", "--list"], capture_output=True, text=True).stdout
    for part in ("text8", "BoolQ.zip", "CC BY-SA 3.0", "853fbe7922f7", "dataset_infos.json", "no published checksum"):
        test.expect("--list", part in listed, part)
    test.fails("several", ["--url", "one data set", "hellaswag-val, hellaswag-train"], "x", dataset="hellaswag")
    test.fails("none", ["task wsc", "wsc.jsonl", "docs/tasks.md"], "x", dataset="wsc")
    for option in ("--all", "--list"):
        both = subprocess.run([test.program, "data", "fetch", option, "race"], capture_output=True, text=True)
        test.expect("a name that would be passed over", both.returncode == 2 and f"NAME excludes {option}" in both.stderr, both.stderr)
    test.fails("no checksum", ["--sha256 'xyz' should be 64 hexadecimal digits"], "x", "--sha256", "xyz", dataset="enwik8")
    none = subprocess.run([test.program, "data", "fetch"], capture_output=True, text=True)
    test.expect("no name was given", none.returncode == 2 and "--all" in none.stderr, none.stderr)


def check_prepared(test):
    """`data prepare` makes a corpus from the fetched archive."""
    archive = test.path("enwik8.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("enwik8", "<page>\n turbine &amp; gate\n</page>\n" * 1000)
    with open(archive, "rb") as file:
        content = file.read()
    test.server.reset(content)
    done = test.fetch("archive", "--sha256", hashlib.sha256(content).hexdigest(), "--json", dataset="enwik8")
    fetched = json.loads(done.stdout)["path"]
    prepared = subprocess.run([test.program, "data", "prepare", fetched, "--out", test.path("corpus"), "--json"],
                              capture_output=True, text=True, timeout=60)
    test.expect("preparing the fetched file", prepared.returncode == 0 and '"enwik8"' in prepared.stdout, prepared.stderr)


def checks(test):
    check_rows_of_tasks(test)
    check_first_sum_is_kept(test)
    check_names(test)
    check_prepared(test)


if __name__ == "__main__":
    run(checks)
