"""Runs `penstock data prepare --system --more` with a stand-in for apt: mistakes, and the files left after Ctrl-C."""

import os
import signal
import subprocess
import time

from processes import alive
from shell import main


def mistakes(shell):
    os.mkdir(os.path.join(shell.directory, "empty"))
    prepare = ("data", "prepare", "--out", "c")
    shell.mistake(1, ["--more adds to --system"], *prepare, "--more", "text.txt")
    shell.mistake(1, ["--packages", "--more"], *prepare, "--system", "--packages", "empty")
    shell.mistake(1, ["empty", "--packages", "apt-get download"], *prepare, "--system", "--more", "--packages", "empty")
    shell.mistake(1, ["nothere", "--packages"], *prepare, "--system", "--more", "--packages", "nothere")
    shell.expect("nothing was written", not os.path.exists(os.path.join(shell.directory, "c")))


def write_program(path, text):
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def apt_of_our_own(shell, download):
    """Returns an environment whose apt knows only git-doc and downloads it by the shell script `download`."""
    folder = os.path.join(shell.directory, "bin")
    os.makedirs(folder, exist_ok=True)
    write_program(os.path.join(folder, "apt-cache"), """[ "$1" = show ] && cat <<END
Package: git-doc
Version: 1:2
Architecture: all
Size: 4

END
""")
    write_program(os.path.join(folder, "apt-get"), download)
    return {**os.environ, "PATH": folder + ":" + os.environ["PATH"],
            "XDG_CACHE_HOME": os.path.join(shell.directory, "cache")}


def no_network(shell):
    environment = apt_of_our_own(shell, "echo 'E: no route' >&2; exit 100\n")
    done = subprocess.run([shell.program, "data", "prepare", "--system", "--more", "--out", "c"],
                          cwd=shell.directory, env=environment, capture_output=True, text=True, timeout=120)
    shell.expect("without a network", done.returncode == 1, done.stderr)
    for part in ("no route", "apt-get update", "--packages", "downloading git-doc"):
        shell.expect("without a network", part in done.stderr, f"{part!r} not in {done.stderr!r}")


def interrupted_download(shell):
    environment = apt_of_our_own(shell, "echo $$ > ../../../../pid; echo half > git-doc_1%3a2_all.deb; exec sleep 60\n")
    process = subprocess.Popen([shell.program, "data", "prepare", "--system", "--more", "--out", "c"],
                               cwd=shell.directory, env=environment, stderr=subprocess.PIPE, text=True)
    pid_file = os.path.join(shell.directory, "pid")
    while (not os.path.exists(pid_file) or os.path.getsize(pid_file) == 0) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    shell.expect("an interrupted download", process.returncode == 130 and "nothing was written" in said, said)
    shell.expect("no corpus is left", not os.path.exists(os.path.join(shell.directory, "c")))
    cache = os.path.join(shell.directory, "cache/penstock/packages")
    shell.expect("no half package is left", not [name for name in os.listdir(cache) if name.endswith(".deb")])
    with open(pid_file) as file:
        downloader = int(file.read())
    for _ in range(1500):  # 30 s
        if not alive([downloader]):
            break
        time.sleep(0.02)
    shell.expect("the download ended too", not alive([downloader]))


main([mistakes, no_network, interrupted_download], run=False)
