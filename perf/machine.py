# SPDX-License-Identifier: BSD-3-Clause
"""Describes the machine and the revision of a report."""
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def output(*command, folder=ROOT):
    return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout.strip()


def describe():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    cpu = re.search(r"model name\s*: (.*)", info)
    return {"cpu": cpu[1] if cpu else platform.machine(), "cpus": len(os.sched_getaffinity(0)),
            "avx512": "avx512f" in info and "vpclmulqdq" in info, "load": os.getloadavg()[0], "kernel": platform.release(),
            "dpdk": output("pkg-config", "--modversion", "libdpdk"), **revision()}


def revision():
    return {"commit": output("git", "rev-parse", "--short=12", "HEAD"),
            "dirty": bool(output("git", "status", "--porcelain", "-uno"))}
