# SPDX-License-Identifier: BSD-3-Clause
"""Measures programs alternately. All of them are started, and all except one are stopped at any time. So other load
of the machine and changes of its clock affect all programs equally."""
import contextlib
import pathlib
import shutil
import statistics
import tempfile
import time

import processes
from processes import Failure

WARM_SECONDS = 0.02  # CPU time of a worker before each slice: the other programs have filled the caches.
MOST_WAIT_S = 60     # The limit for one sample on a busy machine.


def compared(program, scene, l3fwd=None):
    """The programs that are compared: by name, a function that starts one in a folder for a scene. `l3fwd`: program of
    that name, for the scenes that it can forward."""
    node = lambda icrc: lambda *where: processes.Node(*where, program, icrc)
    testpmd = lambda mode: lambda *where: processes.Testpmd(*where, mode)
    makers = {"io": testpmd("io"), "5tswap": testpmd("5tswap")}
    if l3fwd and scene.suits_l3fwd:
        makers["l3fwd"] = lambda *where: processes.L3fwd(*where, l3fwd)
    return makers | {"icrc": node("on"), "no_icrc": node("off")}


@contextlib.contextmanager
def started(makers, scene, memory):
    """Starts every program, waits until it forwards without losses, and stops it. Yields them by name."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name, make in makers.items():
            folder = pathlib.Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ipoib-perf-")))
            stack.callback(shutil.rmtree, pathlib.Path("/run/dpdk") / folder.name, ignore_errors=True)
            process = stack.enter_context(make(folder, scene, memory))
            processes.settle(process)
            process.pause()
            running[name] = process
        yield running


def wait_for_cpu(process, seconds):
    """Waits until the workers have had `seconds` of CPU time each. On a busy machine that takes longer."""
    workers = process.scene.workers
    begin, used = time.monotonic(), process.worker_seconds()
    while (left := seconds - (process.worker_seconds() - used) / workers) > 0:
        if time.monotonic() - begin > MOST_WAIT_S:
            raise Failure(f"the worker gets no CPU time:\n{process.tail()}")
        time.sleep(max(0.0005, left))


def reading(process):
    """CPU seconds and packets sent at one moment. The time is the mean of those before and after the request for the
    counter."""
    before = process.worker_seconds()
    sent = process.sent()
    return (before + process.worker_seconds()) / 2, sent


def measure_slice(process, seconds):
    """Measures packets per second of the worker's CPU time. A worker polls, so all of its time is forwarding. On an
    idle machine its CPU time is the wall-clock time; on a busy one only rates by CPU time can be compared."""
    process.resume()
    try:
        wait_for_cpu(process, WARM_SECONDS)
        lost, begin = process.lost(), time.monotonic()
        cpu_before, sent_before = reading(process)
        wait_for_cpu(process, seconds)
        cpu_after, sent_after = reading(process)
        took, lost = time.monotonic() - begin, process.lost() - lost
    finally:
        process.pause()
    workers = process.scene.workers
    sent, cpu = sent_after - sent_before, (cpu_after - cpu_before) / workers
    if not sent:
        raise Failure(f"nothing was sent:\n{process.tail()}")
    return {"packets_per_second": sent / cpu, "cpu_share": cpu / took,
            "lost_share": lost / (sent + lost)}


def alternate(makers, scene, memory, rounds, slices, seconds):
    """Returns equally many samples of each program. Those with the same index were taken one after another. Every
    second turn goes in reverse order."""
    samples = {name: [] for name in makers}
    for _ in range(rounds):
        with started(makers, scene, memory) as running:
            for turn in range(slices):
                order = list(running.items())
                for name, process in order[::-1] if turn % 2 else order:
                    samples[name].append(measure_slice(process, seconds))
    return samples


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratio(samples, name, to):
    """The spread of the quotient of two programs' rates, sample by sample."""
    return spread([a["packets_per_second"] / b["packets_per_second"]
                   for a, b in zip(samples[name], samples[to])])


def figures(samples, scene):
    """The report's figures of each program of a scene."""
    rows = {}
    for name, taken in samples.items():
        rates = [sample["packets_per_second"] for sample in taken]
        rows[name] = {
            "packets_per_second": spread(rates),
            "ns_per_packet": spread([1e9 * scene.workers / rate for rate in rates]),
            "ip_bits_per_second": spread([rate * scene.ip_octets * 8 for rate in rates]),
            "ratio_to": {to: ratio(samples, name, to) for to in ("io", "5tswap", "l3fwd") if to in samples},
            "lost_share": max(sample["lost_share"] for sample in taken),
            "cpu_share": statistics.median(sample["cpu_share"] for sample in taken),
            "samples": rates}
    return rows
