"""Network namespaces that serve as the hosts of a cluster, and two of them with a cable between them. Needs root and
`ip`."""

import os
import random
import shutil
import subprocess
import sys

SKIPPED = 77  # the SKIP_RETURN_CODE in scripts.cmake


class Absent(Exception):
    """This machine lacks something that a test needs."""


def tool(name, package):
    """Returns the program's path. If it is missing, raises Absent with a message that scripts/run-tests parses."""
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise Absent(f"missing package: {package} (for {name})")
    return found


def need_root():
    if os.geteuid() != 0:
        raise Absent("needs root")


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def contain():
    """Restarts this process in its own mount and PID namespaces.

    The namespaces end with this process, however it ends. Then all processes and network names that it made end, too.
    Without root, or if namespaces are forbidden, nothing changes."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.getpid() == 1:  # this process is already in the namespaces
        subprocess.run(["mount", "-t", "tmpfs", "penstock", "/run"], capture_output=True)
    elif os.geteuid() == 0 and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        os.execvp(words[0], [*words, sys.executable, *sys.argv])


class Hosts:
    """Network namespaces, each with an address. They have no network devices yet."""

    def __init__(self, addresses):
        self.ip = tool("ip", "iproute2")
        need_root()
        self.addresses = addresses
        mark = f"{random.SystemRandom().randrange(1 << 16):04x}"
        self.names = [f"penstock-{mark}-{i}" for i in range(len(addresses))]
        self.ends = [f"pen{mark}{i}" for i in range(len(addresses))]
        try:
            for name in self.names:
                self.run("netns", "add", name)
        except subprocess.CalledProcessError as error:
            raise Absent("no network namespaces here") from error

    def run(self, *arguments):
        subprocess.run([self.ip, *arguments], check=True, capture_output=True)

    def connect(self, host):
        """Moves the existing device `ends[host]` into the host's namespace and gives it the host's address."""
        name, end = self.names[host], self.ends[host]
        self.run("link", "set", end, "netns", name)
        self.run("-n", name, "address", "add", self.addresses[host] + "/24", "dev", end)
        for device in ("lo", end):
            self.run("-n", name, "link", "set", device, "up")

    def inside(self, host):
        """Returns the command prefix that runs a command on that host, where it sees no processes of other hosts."""
        return [self.ip, "netns", "exec", self.names[host], "unshare", "--pid", "--fork", "--kill-child",
                "--mount-proc"]

    def start_ranks(self, command, port=29411, **how):
        """Starts one rank of a run on each host."""
        variables = {"WORLD_SIZE": str(len(self.names)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                     "MASTER_ADDR": self.addresses[0], "MASTER_PORT": str(port)}
        return [subprocess.Popen([*self.inside(rank), *command], env={**os.environ, **variables, "RANK": str(rank)},
                                 **how) for rank in range(len(self.names))]

    def close(self):
        for name in self.names:
            subprocess.run([self.ip, "netns", "delete", name], capture_output=True)


class Namespaces(Hosts):
    """Two hosts connected by a cable, like two machines."""

    def __init__(self):
        super().__init__(("10.213.7.1", "10.213.7.2"))
        self.run("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for host in range(2):
            self.connect(host)

    def shape(self, *limits):
        """Limits both directions of the cable. `limits` are the arguments of `tc qdisc replace dev … root`."""
        for name, end in zip(self.names, self.ends):
            self.run("netns", "exec", name, "tc", "qdisc", "replace", "dev", end, "root", *limits)
