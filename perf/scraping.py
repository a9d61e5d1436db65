# SPDX-License-Identifier: BSD-3-Clause
"""Measures the effect of requests for metrics on a worker: the same node is alternately scraped and not scraped."""
import contextlib
import pathlib
import re
import statistics
import tempfile
import threading
import time
import urllib.request

import measuring
import processes

# Operators scrape once a second; the effect of that is less than the noise, that of 100 scrapes a second is not.
PER_SECOND = 100


class Scraped(processes.Node):
    """A dpdk-ipoib with its Prometheus endpoint on a free port."""

    def __init__(self, folder, scene, memory, program):
        super().__init__(folder, scene, memory, program, "on", ["--prometheus", "127.0.0.1:0"])

    def url(self):
        return self.until("its metrics' address", lambda: re.search(
            r"http://127\.0\.0\.1:\d+/metrics", self.log.read_text(errors="replace")))[0]


@contextlib.contextmanager
def scraped(url, per_second):
    """Requests the metrics `per_second` times a second in a thread. Yields the list of the seconds that each answer
    took."""
    took, ended = [], threading.Event()

    def scrape():
        due = time.monotonic()
        while not ended.is_set():
            begin = time.monotonic()
            with urllib.request.urlopen(url, timeout=10) as answer:
                answer.read()
            took.append(time.monotonic() - begin)
            due = max(due + 1 / per_second, time.monotonic())
            ended.wait(due - time.monotonic())

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


def measure(program, scene, memory, turns, seconds):
    ratios, took = [], []
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ipoib-perf-")))
        node = stack.enter_context(Scraped(folder, scene, memory, program))
        processes.settle(node)
        url = node.url()
        rate_of = lambda: measuring.measure_slice(node, seconds)["packets_per_second"]
        for _ in range(turns):
            before = rate_of()
            node.resume()
            with scraped(url, PER_SECOND) as answers:
                between = rate_of()
                node.resume()  # measure_slice() stopped the node, and the last answer is still missing.
            took += answers
            ratios.append(between / statistics.mean((before, rate_of())))
    return {"per_second": PER_SECOND, "ratio": measuring.spread(ratios), "scrapes": len(took),
            "answer_seconds": measuring.spread(took)}
