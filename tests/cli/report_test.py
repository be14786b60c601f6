#!/usr/bin/python3
"""Opens the pages of a tiny run and a tiny study in a headless browser, if one is installed. Checks that every chart is
drawn, that the console logs no error, that losses can be drawn over their cost, and that wide tables say that they
scroll. Checks also README's recipe and scripts/update-readme, which must notice a table and a picture of two runs.

    report_test.py PENSTOCK SOURCE_DIRECTORY
"""

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

from shell import finish, tiny

SKIPPED = 77  # the SKIP_RETURN_CODE in scripts.cmake
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

STUDY = """
name = "tiny"
base = "recipe.toml"
eval_k = [1, 2, 4]
[variants.topk]
set = {"model.router.method" = "topk", "model.router.k" = 2}
[variants.remoe]
"""


def opened(page, width):
    """Opens a page in the browser. Returns the page's DOM as text, and the lines that the browser's console logged."""
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--enable-logging=stderr", "--virtual-time-budget=4000",
         f"--window-size={width},2000", "--dump-dom", "file://" + page],
        capture_output=True, text=True, timeout=180)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check_pages(shell):
    with open(os.path.join(shell.directory, "study.toml"), "w") as file:
        file.write(STUDY)
    table = shell.ok("study", "study.toml", "--out", "study", "--quiet")
    with open(os.path.join(shell.directory, "study/results.txt")) as file:
        shell.expect("results.txt", table.startswith(file.read()), table)
    shell.expect("unequal compute is said", "compute differs by " in table, table)
    if not BROWSER:
        return
    for name in ("run", "study"):
        page = os.path.join(shell.directory, name, "report.html")
        for width in (1280, 400):
            dom, errors = opened(page, width)
            shell.expect(f"{name} at {width}: console", errors == [], errors)
            drawn = re.findall(r'<canvas id="([^"]+)"[^>]*style="[^"]*display: block', dom)
            canvases = re.findall(r'<canvas id="([^"]+)"', dom)
            shell.expect(f"{name} at {width}: charts", len(canvases) > 8 and drawn == canvases, (canvases, drawn))
            buttons = re.findall(r'<button type="button" aria-pressed="(\w+)">([^<]+)</button>', dom)
            shell.expect(f"{name} at {width}: costs", [text for _, text in buttons] ==
                         ["steps", "tokens", "training FLOPs", "seconds"], buttons)
            first = "training FLOPs" if name == "study" else "steps"
            shell.expect(f"{name} at {width}: the cost at first", [text for on, text in buttons if on == "true"] ==
                         [first], buttons)
            if width == 400 and name == "study":
                shell.expect(f"{name}: a wide table", 'class="scroll wide"' in dom and 'tabindex="0"' in dom)


def check_processes(shell):
    """The report of a run of two processes names the slowest. The test rewrites the metrics so that it is rank 1."""
    done = shell.run("train", "recipe.toml", "--processes", "2", "--set", "train.micro_batch=1", "--set",
                     "train.steps=20", "--out", "ranks", "--quiet")
    if "trains in one process" in done.stderr:  # built without Gloo
        return
    shell.expect("two processes", done.returncode == 0, done.stderr)
    metrics = os.path.join(shell.directory, "ranks", "metrics.jsonl")
    with open(metrics) as file:
        lines = [json.loads(line) for line in file]
    shell.expect("seconds of ranks", all(len(line["rank_seconds"]["by_rank"]) == 2 for line in lines if line["step"]),
                 lines[-1])
    with open(metrics, "w") as file:
        for line in lines:
            if line["step"]:
                slower = 0 if line["step"] % 10 == 0 else 1
                line["rank_seconds"].update(rank=slower, by_rank=[0.2, 0.1 if slower == 0 else 0.3])
            file.write(json.dumps(line) + "\n")
    shell.ok("report", "ranks")
    pages = {}
    for run in ("run", "ranks"):
        with open(os.path.join(shell.directory, run, "report.html")) as file:
            pages[run] = file.read()
    shell.expect("one process", "<h2>Processes</h2>" not in pages["run"])
    shell.expect("the slowest", "Process 1 was the slowest most often, in 90 % of the steps" in pages["ranks"],
                 re.findall("Process . was.*?<", pages["ranks"]))
    if not BROWSER:
        return
    dom, errors = opened(os.path.join(shell.directory, "ranks", "report.html"), 1280)
    shell.expect("processes: console", errors == [], errors)
    drawn = re.findall(r'<canvas id="([^"]+)"[^>]*style="[^"]*display: block', dom)
    shell.expect("processes: charts", {"communication", "rank_seconds"} <= set(drawn), drawn)


def picture(text):
    """Returns a PNG file of one grey pixel. It has a text chunk if `text` is not empty."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    if text:
        out += chunk(b"tEXt", b"penstock-results\0" + text.encode())
    return out + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


def check_readme(shell, source):
    root = os.path.join(shell.directory, "root")
    os.makedirs(os.path.join(root, "docs/images"))
    os.makedirs(os.path.join(root, "scripts"))
    script, _ = (shutil.copy(os.path.join(source, "scripts", name), os.path.join(root, "scripts"))
                 for name in ("update-readme", "doc_pages.py"))
    readme, image = os.path.join(root, "README.md"), os.path.join(root, "docs/images/report.png")

    def check(*arguments):
        return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=180)

    def write(results, drawn):
        with open(readme, "w") as file:
            file.write("<!-- demo: begin -->\n<!-- results %s table %s -->\n```\nold 2.5469\n```\n<!-- demo: end -->\n"
                       "<!-- routers: begin -->\n<!-- routers: end -->\n" %
                       (results, hashlib.sha256(b"old 2.5469").hexdigest()[:16]))
        with open(image, "wb") as file:
            file.write(picture(drawn))

    write("0" * 16, "0" * 16)
    shell.expect("update", check(shell.program).returncode == 0)
    shell.expect("one run", check("--check", shell.program).returncode == 0)
    for drawn in ("1" * 16, None):
        with open(image, "wb") as file:
            file.write(picture(drawn))
        done = check("--check", shell.program)
        shell.expect("two runs", done.returncode == 1 and "report.png is of run" in done.stderr, done.stderr)

    def tamper(old, new):
        """Changes the table by hand. --check must fail with the changed table and pass with the restored one."""
        with open(readme) as file:
            written = file.read()
        shell.expect("the table holds " + old, old in written, written)
        with open(readme, "w") as file:
            file.write(written.replace(old, new, 1))
        done = check("--check", shell.program)
        shell.expect("a changed table", done.returncode == 1 and "was edited by hand" in done.stderr,
                     done.stderr)
        with open(readme, "w") as file:
            file.write(written)
        shell.expect("the table again", check("--check", shell.program).returncode == 0)

    with open(image, "wb") as file:
        file.write(picture("0" * 16))
    tamper("2.5469", "2.4469")
    if not BROWSER:
        return
    done = check("--demo", os.path.join(shell.directory, "study"))
    shell.expect("--demo", done.returncode == 0, done.stderr)
    shell.expect("--demo", check("--check", shell.program).returncode == 0)
    with open(readme) as file, open(os.path.join(shell.directory, "study/results.json")) as results:
        text, loss = file.read(), json.load(results)["summary"][0]["validation_loss"]["mean"]
    shell.expect("the table is the run's", "%.4f" % loss in text and "old 2.5469" not in text, text)
    with open(os.path.join(shell.directory, "study/results.txt")) as file:
        compute = re.search("^compute differs by .*$", file.read(), re.M)[0]
    shell.expect("the line about compute, without the differences", f"\n\n{compute}\n" in text and
                 "differences, seed by seed" not in text, text)
    tamper("%.4f" % loss, "%.4f" % (loss - 0.1))
    shell.expect("the picture is the page's", os.path.getsize(image) > 20000, os.path.getsize(image))


def check_recipe(shell, source):
    with open(os.path.join(source, "README.md")) as file:
        recipe = re.search(r"```toml\n(.*?)```", file.read(), re.DOTALL)[1]
    with open(os.path.join(shell.directory, "remoe.toml"), "w") as file:
        file.write(recipe)
    said = json.loads(shell.ok("info", "remoe.toml", "--json"))
    shell.expect("README's recipe", 0 < said["active_parameters"] < said["total_parameters"], said)


def main():
    program, source = sys.argv[1:]
    with tiny(program) as shell:
        check_pages(shell)
        check_processes(shell)
        check_readme(shell, source)
        check_recipe(shell, source)
        failed = finish(shell)
    if not failed and not BROWSER:
        print("SKIPPED: no chromium to open the pages with; all else passed")
        sys.exit(SKIPPED)
    sys.exit(failed)


if __name__ == "__main__":
    main()
