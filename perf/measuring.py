# SPDX-License-Identifier: BSD-3-Clause
"""Measures programs alternately: all run at once, but all except one are stopped. What a machine does
beside, and how its clock drifts, so hits all alike."""
import contextlib
import pathlib
import shutil
import statistics
import tempfile
import time

import processes
from processes import Failure

WARM_SECONDS = 0.02  # Of the worker's CPU time: caches that the others filled.
MOST_WAIT_S = 60     # For one sample, on a busy machine.


def compared(program):
    """What runs beside what: names, and how each is started in a folder for a scene."""
    node = lambda icrc: lambda *where: processes.Node(*where, program, icrc)
    testpmd = lambda mode: lambda *where: processes.Testpmd(*where, mode)
    return {"io": testpmd("io"), "5tswap": testpmd("5tswap"),
            "icrc": node("on"), "no_icrc": node("off")}


@contextlib.contextmanager
def started(makers, scene, memory):
    """Every program, settled and stopped, by its name."""
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
    """Until the workers had that much CPU time each. On a busy machine that takes longer."""
    workers = process.scene.workers
    begin, used = time.monotonic(), process.worker_seconds()
    while (left := seconds - (process.worker_seconds() - used) / workers) > 0:
        if time.monotonic() - begin > MOST_WAIT_S:
            raise Failure(f"the worker gets no CPU time:\n{process.tail()}")
        time.sleep(max(0.0005, left))


def reading(process):
    """CPU seconds and packets sent at one moment: the time is the middle of those before and after
    the question."""
    before = process.worker_seconds()
    sent = process.sent()
    return (before + process.worker_seconds()) / 2, sent


def measure_slice(process, seconds):
    """Packets a second of the worker's CPU time. A worker polls, so all of its time is forwarding;
    on a machine with nothing else to do it has all the time there is, on a busy one its own time is
    what compares."""
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
    """Samples of each program, as many of every one; those of one index were taken one after another.
    Every second turn goes the other way round."""
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
    """Spread of one program's rate over another's, sample by sample."""
    return spread([a["packets_per_second"] / b["packets_per_second"]
                   for a, b in zip(samples[name], samples[to])])


def figures(samples, scene):
    """What the report says of each program of a scene."""
    rows = {}
    for name, taken in samples.items():
        rates = [sample["packets_per_second"] for sample in taken]
        rows[name] = {
            "packets_per_second": spread(rates),
            "ns_per_packet": spread([1e9 * scene.workers / rate for rate in rates]),
            "ip_bits_per_second": spread([rate * scene.ip_octets * 8 for rate in rates]),
            "ratio_to": {to: ratio(samples, name, to) for to in ("io", "5tswap") if to in samples},
            "lost_share": max(sample["lost_share"] for sample in taken),
            "cpu_share": statistics.median(sample["cpu_share"] for sample in taken),
            "samples": rates}
    return rows
