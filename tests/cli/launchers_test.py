#!/usr/bin/env python3
"""Starts `penstock train` by the launchers of clusters: Open MPI's and MPICH's mpirun, a real Slurm with two nodes on
this host, the ssh script of docs/cluster.md with an ssh server of this test, and two network namespaces in place of two
machines. In the namespaces it starts the ranks by hand and by the command of the Kubernetes Job in docs/cluster.md.
Each run must end with the same bits as one process. A launcher is skipped if it is not installed or cannot run here.

  launchers_test.py PROGRAM SOURCE open_mpi | mpich | slurm | ssh | two_hosts | kubernetes
"""

import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import kill_resume_test as single
import processes
from kill_resume_test import fail
from namespaces import Absent, Namespaces, contain, need_root, skip, tool


SOURCE = os.path.abspath(sys.argv[2])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_under(prefix, trial, ranks, reference, **variables):
    """Trains with the launcher `prefix`, which starts the training command `ranks` times, and checks the run's end."""
    run = trial.new_run()
    done = subprocess.run([*prefix, "-n", str(ranks), *processes.command(trial, run, 1)], text=True,
                          capture_output=True, timeout=300, env={**os.environ, **variables})
    if done.returncode != 0:
        fail(prefix, "ended with", done.returncode, done.stderr[-2000:])
    expect_end(run, ranks, reference)


def expect_end(run, ranks, reference):
    found = processes.metrics(run)[-1].get("ranks")
    if found != ranks:
        fail(run, "was trained by", found, "ranks, not", ranks)
    processes.same_end(run, reference)


def test_open_mpi(trial, reference):
    # `plm isolated` keeps Open MPI from looking for ssh, which one machine does not need.
    prefix = [tool("mpirun.openmpi", "openmpi-bin"), "--allow-run-as-root", "--oversubscribe", "--mca",
              "plm", "isolated"]
    run_under(prefix, trial, 2, reference, MASTER_PORT=str(free_port()))


def test_mpich(trial, reference):
    run_under([tool("mpirun.mpich", "mpich")], trial, 4, reference, MASTER_PORT=str(free_port()))


class Slurm:
    """A Slurm of one slurmctld and two slurmd on this host, with all their files in a temporary folder."""

    def __init__(self):
        control, node, munge, self.srun, self.sinfo = (
            tool(name, "slurm-wlm") for name in ("slurmctld", "slurmd", "munged", "srun", "sinfo"))
        need_root()
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
SlurmdParameters=config_overrides
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
            file.write(f"AuthInfo=socket={self.folder}/munge\n")
        with open(self.folder + "/cgroup.conf", "w") as file:
            file.write(f"CgroupPlugin={self.cgroup_plugin(node)}\n")
        os.makedirs(self.folder + "/state")
        self.started = []
        try:
            self.start(munge, "--foreground", "--force", "--socket", self.folder + "/munge", "--pid-file",
                       self.folder + "/munged.pid", "--log-file", self.folder + "/munged.log",
                       "--seed-file", self.folder + "/munge.seed", "--key-file", self.new_key())
            single.wait_for(lambda: os.path.exists(self.folder + "/munge"), self.started[0], 20)
            self.start(control, "-D", "-f", self.conf)
            for name in ("first", "second"):
                self.start(node, "-D", "-N", name, "-f", self.conf)
            self.wait_until_idle()
        except BaseException:
            self.close()
            raise

    def start(self, *command):
        """Starts a daemon. It is killed when this process ends, also if this process is killed."""
        self.started.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    @staticmethod
    def cgroup_plugin(node):
        """Returns a CgroupPlugin that does not look for cgroups. Containers may lack them, and this test needs none."""
        said = subprocess.run([node, "-V"], text=True, capture_output=True).stdout
        version = re.search(r"(\d+)\.(\d+)", said)
        return "disabled" if tuple(map(int, version.groups())) >= (23, 11) else "cgroup/v1"

    def new_key(self):
        key = self.folder + "/munge.key"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        return key

    def wait_until_idle(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            said = subprocess.run([self.sinfo, "-h", "-o", "%D %t"], text=True,
                                  capture_output=True, env={**os.environ, "SLURM_CONF": self.conf})
            if said.stdout.strip() == "2 idle":
                return
            time.sleep(0.2)
        fail("Slurm's two nodes did not become idle:", said.stdout, said.stderr, self.logs())

    def logs(self):
        out = ""
        for path in glob.glob(self.folder + "/slurm*.log"):
            with open(path) as file:
                out += f"\n{path}:\n{file.read()[-2000:]}"
        return out

    def close(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def test_slurm(trial, reference):
    slurm = Slurm()
    try:
        # The nodes' names exist only in this test's slurm.conf, so MASTER_ADDR gives the first node's address.
        run_under([slurm.srun, "-N", "2"], trial, 4, reference, SLURM_CONF=slurm.conf,
                  MASTER_ADDR="127.0.0.1")
    finally:
        slurm.close()


def block_of_docs(before, path="docs/cluster.md"):
    """Returns the first code block after the text `before` in a page of the docs."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        found = re.search(re.escape(before) + r".*?```\n(.*?)```", file.read(), re.S)
    if not found:
        fail(path, "has no block behind:", before)
    return found[1]


def given_recipe(trial, folder):
    """Makes the folder with the recipe as my.toml, the name in the docs."""
    os.makedirs(folder)
    shutil.copy(trial.recipe, os.path.join(folder, "my.toml"))


class SshServer:
    """An sshd with its own key. Its sessions start in `folder`, with the program on the PATH."""

    def __init__(self, folder, program):
        server, keygen = tool("sshd", "openssh-server"), tool("ssh-keygen", "openssh-client")
        self.client = tool("ssh", "openssh-client")
        need_root()
        os.makedirs("/run/sshd", exist_ok=True)  # sshd's privilege separation directory
        key, port = os.path.join(folder, "key"), free_port()
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        session = os.path.join(folder, "session")
        self.write(session, f"""#!/bin/sh
cd {folder} && PATH={os.path.dirname(program)}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"
""", 0o755)
        self.write(os.path.join(folder, "sshd_config"), f"""ListenAddress 127.0.0.1:{port}
HostKey {key}
AuthorizedKeysFile {key}.pub
ForceCommand {session}
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
""")
        # `ssh HOST` in a script reaches this server for every HOST.
        self.tools = os.path.join(folder, "bin")
        os.makedirs(self.tools)
        self.write(os.path.join(self.tools, "ssh"), f"""#!/bin/sh
exec {self.client} -F {folder}/ssh_config "$@"
""", 0o755)
        self.write(os.path.join(folder, "ssh_config"), f"""Host *
  Port {port}
  User root
  IdentityFile {key}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
""")
        self.process = subprocess.Popen([server, "-D", "-e", "-f", os.path.join(folder, "sshd_config")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        single.wait_for(lambda: self.listens(port), self.process, 20)

    @staticmethod
    def write(path, text, mode=0o644):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "w") as file:
            file.write(text)

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)


def test_ssh(trial, reference):
    folder = os.path.join(trial.folder, "ssh")
    given_recipe(trial, os.path.join(folder, "my"))
    server = SshServer(folder, trial.program)
    try:
        with open(os.path.join(folder, "hosts"), "w") as file:
            file.write("127.0.0.1\nlocalhost\n")
        script = block_of_docs("Plain ssh, to the hosts of a file").replace("29500", str(free_port()))
        done = subprocess.run(["sh", "-ec", script], cwd=folder, text=True, capture_output=True, timeout=300,
                              env={**os.environ, "PATH": server.tools + ":" + os.environ["PATH"]})
        if done.returncode != 0:
            fail("the script for ssh ended with", done.returncode, done.stderr[-2000:])
        expect_end(os.path.join(folder, "my", "runs", "my"), 2, reference)
    finally:
        server.close()


def test_kubernetes(trial, reference):
    """Runs the docs' Kubernetes Job as two pods on two hosts, with the container's command and variables.

    The test adds what a cluster adds: each pod's index and the pods' names in /etc/hosts."""
    job = block_of_docs("Kubernetes, as a Job with an index")
    command = re.search(r"command: \[sh, -c, \"(.*)\"\]", job)
    variables = dict(re.findall(r"- \{name: (\w+), value: \"?([^\"}]+)\"?\}", job))
    if not command or not {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(variables):
        fail("the Job of the docs has no command or lacks variables:", job)
    hosts = Namespaces()
    try:
        folder = os.path.join(trial.folder, "pods")
        given_recipe(trial, folder)
        with open(os.path.join(folder, "hosts"), "w") as file:
            file.write(f"127.0.0.1 localhost\n{hosts.addresses[0]} {variables['MASTER_ADDR']}\n")
        run = os.path.join(folder, "runs", "my")
        inside = command[1].replace("/runs/my", run)
        environment = {**os.environ, **variables, "WORLD_SIZE": "2",
                       "PATH": os.path.dirname(trial.program) + ":" + os.environ["PATH"]}
        pods = [subprocess.Popen([*hosts.inside(index), "sh", "-c",
                                  f"mount --bind {folder}/hosts /etc/hosts && exec sh -c '{inside}'"],
                                 cwd=folder, env={**environment, "JOB_COMPLETION_INDEX": str(index)}, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for index in range(2)]
        for pod in pods:
            _, errors = pod.communicate(timeout=300)
            if pod.returncode != 0:
                fail("a pod ended with", pod.returncode, errors[-2000:])
        expect_end(run, 2, reference)
    finally:
        hosts.close()


def sockets(hosts, host):
    """Returns (state, local address, peer) of each TCP socket of the host. An address has its port behind a colon."""
    listed = subprocess.run([hosts.ip, "netns", "exec", hosts.names[host], tool("ss", "iproute2"), "-Htan"],
                            text=True, capture_output=True, check=True).stdout
    return {(words[0], words[3], words[4]) for words in map(str.split, listed.splitlines())}


def check_addresses(hosts, seen, meeting):
    """Checks that ranks listened on their hosts' own addresses alone, and that the sockets of both hosts were seen.

    `seen` has the sockets of each host. Gloo may close the socket on which a rank listens once it is connected, so
    the second host shows by its connection to the meeting that its sockets are listed."""
    listening = [{local for state, local, _ in found if state == "LISTEN"} for found in seen]
    for own, found in zip(hosts.addresses, listening):
        if any(local.rsplit(":", 1)[0] != own for local in found):
            fail("the rank on", own, "listens on", found)
    if meeting not in listening[0]:
        fail("nobody listens on", meeting, "where ranks meet:", seen[0])
    if not any(state == "ESTAB" and peer == meeting for state, _, peer in seen[1]):
        fail("the second rank is not connected to", meeting, "but has", seen[1])


def test_two_hosts(trial, reference):
    hosts, port = Namespaces(), 29411
    try:
        run, seen = trial.new_run(), (set(), set())
        ranks = hosts.start_ranks(processes.command(trial, run, 1), port, text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)

        def begun():
            for host, found in enumerate(seen):
                found.update(sockets(hosts, host))
            return processes.metrics(run)
        trains = single.wait_for(begun, ranks[0], 120)
        for process in ranks:
            _, errors = process.communicate(timeout=300)
            if process.returncode != 0:
                fail("a rank in a namespace ended with", process.returncode, errors[-2000:])
        if not trains:
            fail("no line of metrics was seen while the ranks ran")
        check_addresses(hosts, seen, f"{hosts.addresses[0]}:{port}")
        expect_end(run, 2, reference)
    finally:
        hosts.close()


TESTS = {"open_mpi": test_open_mpi, "mpich": test_mpich, "slurm": test_slurm, "ssh": test_ssh,
         "two_hosts": test_two_hosts, "kubernetes": test_kubernetes}


def main():
    contain()
    program, name = os.path.abspath(sys.argv[1]), sys.argv[3]
    folder = tempfile.mkdtemp(prefix="penstock-launchers-")
    try:
        trial = single.Trial(program, folder, next(iter(single.MODELS.values())))
        processes.recipe_of(trial)
        reference = trial.new_run()
        processes.finish(trial, reference, 1, *processes.TREE)
        TESTS[name](trial, reference)
        print(f"{name}: the bits of one process")
    except Absent as why:
        skip(why)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
