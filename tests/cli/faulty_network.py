"""Hosts behind a switch that delays packets, drops some packets, and sometimes cuts a host off. A separate process
forwards the packets between the hosts' TUN devices. It needs no kernel module such as netem.
"""

import ctypes
import dataclasses
import fcntl
import heapq
import ipaddress
import multiprocessing
import os
import random
import select
import struct
import time

from namespaces import Absent, Hosts

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 9000


@dataclasses.dataclass(frozen=True)
class Faults:
    """The switch's treatment of packets. Times are in seconds; chances are from 0 to 1."""

    delay: float = 0.002        # mean of an exponential distribution, so that packets overtake others
    long_delay: float = 0.1     # added to the delay of a few packets
    long_chance: float = 0.002  # chance that a packet gets the long delay
    drop_chance: float = 0.005
    cut: float = 1.5            # how long a host is cut off
    cut_every: float = 20       # mean time from one cut to the next


class FaultyNetwork(Hosts):
    def __init__(self, hosts, seed, faults=Faults()):
        super().__init__([f"10.213.8.{host + 1}" for host in range(hosts)])
        try:
            devices = [self._device(host) for host in range(hosts)]
        except OSError as error:
            raise Absent("no TUN devices here") from error
        self.counts = multiprocessing.Array(ctypes.c_uint64, 3)
        self.switch = multiprocessing.Process(
            target=forward, args=(devices, self.addresses, faults, seed, self.counts), daemon=True)
        self.switch.start()
        for device in devices:
            os.close(device)

    def _device(self, host):
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", self.ends[host].encode(), IFF_TUN | IFF_NO_PI))
        self.connect(host)
        self.run("-n", self.names[host], "link", "set", self.ends[host], "mtu", str(MTU))
        return device

    def done(self):
        """Returns the numbers of packets forwarded, of packets dropped, and of times that a host was cut off."""
        return tuple(self.counts)

    def close(self):
        self.switch.terminate()
        self.switch.join()
        super().close()


def forward(devices, addresses, faults, seed, counts):
    rng = random.Random(seed)
    device_of = {ipaddress.ip_address(address).packed: host for host, address in enumerate(addresses)}
    waiting, number = [], 0  # (when, number, host, packet)
    cut_host, cut_until, next_cut = None, 0.0, time.monotonic() + rng.expovariate(1 / faults.cut_every)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        readable, _, _ = select.select(devices, [], [], pause)
        now = time.monotonic()
        if now >= next_cut:
            cut_host, cut_until = rng.randrange(len(devices)), now + faults.cut
            next_cut = cut_until + rng.expovariate(1 / faults.cut_every)
            counts[2] += 1
        for device in readable:
            packet = os.read(device, MTU + 100)
            to = device_of.get(packet[16:20])
            if to is None or packet[0] >> 4 != 4:
                continue  # for example a multicast, which no host here needs
            cut = now < cut_until and cut_host in (to, devices.index(device))
            if cut or rng.random() < faults.drop_chance:
                counts[1] += 1
                continue
            late = faults.long_delay if rng.random() < faults.long_chance else 0.0
            heapq.heappush(waiting, (now + late + rng.expovariate(1 / faults.delay), number, to, packet))
            number += 1
        while waiting and waiting[0][0] <= now:
            _, _, to, packet = heapq.heappop(waiting)
            try:
                os.write(devices[to], packet)
                counts[0] += 1
            except OSError:
                counts[1] += 1  # the host's queue is full or its end is down
