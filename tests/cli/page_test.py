#!/usr/bin/python3
"""Opens the pages of `penstock serve` and `penstock view` in headless Chromium (page_check.js). The server has a tiny,
hardly trained model, the same model with folded routers, a dense model, a corpus, and a finished run.

    page_test.py PENSTOCK SOURCE_DIRECTORY [SCREENSHOT_FOLDER]

Skips (77) if node, Chromium, puppeteer-core or axe-core is missing. The last two are npm modules, looked for in
NODE_PATH and in build/node_modules (scripts/page-modules).
"""

import os
import shutil
import subprocess
import sys
import tempfile

import shell as shared
from serve_test import serving


def node_environment(source, *modules):
    """Returns an environment with NODE_PATH. Skips the test if node or an npm module is missing."""
    if not shutil.which("node"):
        print("missing package: nodejs")
        sys.exit(77)
    places = [os.environ.get("NODE_PATH", ""), os.path.join(source, "build/node_modules")]
    environment = {**os.environ, "NODE_PATH": os.pathsep.join(place for place in places if place)}
    for module in modules:
        if subprocess.run(["node", "-e", f"require.resolve({module!r})"], env=environment, capture_output=True).returncode:
            print(f"missing module: {module} (scripts/page-modules)")
            sys.exit(77)
    return environment


def prepare(shell):
    """Trains a model whose routers can be folded. Its weights are large, so that other experts make another text."""
    with open(os.path.join(shell.directory, "page.toml"), "w") as file:
        file.write(shared.RECIPE.replace('method = "remoe"', 'method = "hyperrouter"\nk = 2')
                   .replace("d_ffn = 24", "d_ffn = 24\ninit_std = 0.3").replace("sequence_length = 16", "sequence_length = 64"))
    shell.ok("train", "page.toml", "--out", "gates", "--quiet")
    shell.ok("train", "page.toml", "--set", "model.router.method=dense", "--out", "plain", "--quiet")


def main():
    program, source = sys.argv[1], os.path.abspath(sys.argv[2])
    environment = node_environment(source, "puppeteer-core", "axe-core")
    if not shutil.which("chromium"):
        print("missing package: chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as own, shared.tiny(program, run=False) as shell:
        folder = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else own
        os.makedirs(folder, exist_ok=True)
        prepare(shell)
        with serving(shell, "--folded", "--beside", "plain", "--data", "corpus", model="gates") as served, \
                serving(shell, model="gates", command="view") as viewed:
            done = subprocess.run(["node", os.path.join(source, "tests/cli/page_check.js"), shutil.which("chromium"),
                                   f"http://127.0.0.1:{served.port}/", f"http://127.0.0.1:{viewed.port}/", folder],
                                  env=environment, capture_output=True, text=True, timeout=400)
            shell.expect("the check of the pages", done.returncode == 0, done.stdout + done.stderr)
        return shared.finish(shell)


if __name__ == "__main__":
    sys.exit(main())
