#!/usr/bin/env python3
"""`penstock train` started by what clusters start programs with: Open MPI's and MPICH's mpirun, a
real Slurm of two nodes on this host, and by hand in two network namespaces, as on two machines.
Each ends with the bits of one process. A launcher that is not installed, or that this user may not
run, is passed over with a word; without any the test is skipped.

  launchers_test.py PROGRAM [SOURCE]
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import kill_resume_test as single
import processes_test as processes
from kill_resume_test import fail
from namespaces import Absent, Namespaces

# Debian's Slurm looks for this key, munged for its own folders.
MUNGE_KEY = "/etc/munge/munge.key"


def tool(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise Absent(f"{name} is not installed")
    return found


def need_root():
    if os.geteuid() != 0:
        raise Absent("needs root")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_under(prefix, trial, run, **variables):
    """The launcher, with the command that each rank is to run."""
    environment = {**os.environ, **variables}
    done = subprocess.run([*prefix, *processes.command(trial, run, 1)], env=environment, text=True,
                          capture_output=True, timeout=300)
    if done.returncode != 0:
        fail(prefix, "ended with", done.returncode, done.stderr[-2000:])


def expect_ranks(run, ranks):
    found = processes.metrics(run)[-1].get("ranks")
    if found != ranks:
        fail(run, "was trained by", found, "ranks, not", ranks)


def test_open_mpi(trial, reference):
    prefix = [tool("mpirun.openmpi"), "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    run = trial.new_run()
    run_under(prefix, trial, run, MASTER_PORT=str(free_port()))
    expect_ranks(run, 2)
    processes.same_end(run, reference)


def test_mpich(trial, reference):
    run = trial.new_run()
    run_under([tool("mpirun.mpich"), "-n", "4"], trial, run, MASTER_PORT=str(free_port()))
    expect_ranks(run, 4)
    processes.same_end(run, reference)


class Slurm:
    """slurmctld and two slurmd of this host, in a folder of their own."""

    def __init__(self):
        need_root()
        daemons = [tool(name) for name in ("slurmctld", "slurmd", "munged")]
        self.srun = tool("srun")
        if not os.path.exists(MUNGE_KEY):
            raise Absent(f"no {MUNGE_KEY}")
        self.folder = tempfile.mkdtemp(prefix="penstock-slurm-")
        self.conf = os.path.join(self.folder, "slurm.conf")
        host, ports = socket.gethostname().split(".")[0], [free_port() for _ in range(3)]
        with open(self.conf, "w") as file:
            file.write(f"""ClusterName=penstock
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
SlurmctldPort={ports[0]}
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        os.makedirs(self.folder + "/state")
        subprocess.run([daemons[2], "--force", "--socket", self.folder + "/munge",
                        "--pid-file", self.folder + "/munged.pid", "--log-file",
                        self.folder + "/munged.log", "--seed-file", self.folder + "/munge.seed",
                        "--key-file", self.own_key()], check=True, capture_output=True)
        with open(self.conf, "a") as file:
            file.write(f"AuthInfo=socket={self.folder}/munge\n")
        self.started = [subprocess.Popen([daemons[0], "-D", "-f", self.conf],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        self.started += [subprocess.Popen([daemons[1], "-D", "-N", node, "-f", self.conf],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                         for node in ("first", "second")]

    def own_key(self):
        key = self.folder + "/munge.key"
        shutil.copy(MUNGE_KEY, key)
        os.chmod(key, 0o600)
        return key

    def wait_until_idle(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            said = subprocess.run([tool("sinfo"), "-h", "-o", "%D %t"], text=True,
                                  capture_output=True, env={**os.environ, "SLURM_CONF": self.conf})
            if said.stdout.strip() == "2 idle":
                return
            time.sleep(0.2)
        fail("Slurm's two nodes did not become idle:", said.stdout, said.stderr)

    def close(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait(timeout=30)
        with open(self.folder + "/munged.pid") as file:
            os.kill(int(file.read()), 15)
        shutil.rmtree(self.folder, ignore_errors=True)


def test_slurm(trial, reference):
    slurm = Slurm()
    try:
        slurm.wait_until_idle()
        run = trial.new_run()
        # The nodes' names are this test's own, so the address of the first is said.
        run_under([slurm.srun, "-N", "2", "-n", "4"], trial, run, SLURM_CONF=slurm.conf,
                  MASTER_ADDR="127.0.0.1")
        expect_ranks(run, 4)
        processes.same_end(run, reference)
    finally:
        slurm.close()


def test_two_hosts(trial, reference):
    hosts = Namespaces()
    try:
        run = trial.new_run()
        ranks = hosts.start_ranks(processes.command(trial, run, 1), text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
        listening = subprocess.run([hosts.ip, "netns", "exec", hosts.names[0], "ss", "-Htln"],
                                   text=True, capture_output=True).stdout
        for process in ranks:
            _, errors = process.communicate(timeout=300)
            if process.returncode != 0:
                fail("a rank in a namespace ended with", process.returncode, errors[-2000:])
        if any(address in listening for address in ("0.0.0.0:", "[::]:", "*:")):
            fail("a rank listens on all interfaces:", listening)
        expect_ranks(run, 2)
        processes.same_end(run, reference)
    finally:
        hosts.close()


def main():
    program = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp(prefix="penstock-launchers-")
    tried = 0
    try:
        trial = single.Trial(program, folder, next(iter(single.MODELS.values())))
        processes.recipe_of(trial)
        reference = trial.new_run()
        processes.finish(trial, reference, 1, *processes.TREE)
        for name, test in (("Open MPI", test_open_mpi), ("MPICH", test_mpich),
                           ("Slurm", test_slurm), ("two network namespaces", test_two_hosts)):
            try:
                test(trial, reference)
                tried += 1
                print(f"{name}: the bits of one process")
            except Absent as why:
                print(f"{name}: not tried: {why}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if tried == 0:
        print("no launcher is installed")
        sys.exit(77)


if __name__ == "__main__":
    main()
