# SPDX-License-Identifier: BSD-3-Clause
"""Provides hugepages for a run: new ones, which it returns at the end, or those that are free."""
import contextlib
import pathlib

PAGE_MIB = 2
POOL = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def read(name):
    try:
        return int((POOL / name).read_text())
    except OSError:
        return 0


def write(count):
    try:
        (POOL / "nr_hugepages").write_text(f"{count}\n")
    except OSError:
        pass  # Only root can do this, and only with hugetlbfs. The caller reads the result.


class Memory:
    """The memory arguments, which are the same for every measured DPDK process."""

    def __init__(self, huge):
        self.huge = huge

    def arguments(self, mib):
        return ["--in-memory", "-m", str(mib)] if self.huge else ["--no-huge", "-m", str(mib)]

    def __str__(self):
        return f"{PAGE_MIB} MiB hugepages" if self.huge else "no hugepages (4 KiB pages)"


@contextlib.contextmanager
def for_run(mib, wanted=True):
    """Yields Memory for processes that need `mib` together. It uses additional hugepages if the kernel allocates that
    many, else those that are free if they suffice, else none."""
    if not wanted:
        yield Memory(False)
        return
    before = read("nr_hugepages")
    free = read("free_hugepages")
    write(before + mib // PAGE_MIB)
    added = read("nr_hugepages") - before
    huge = max(added, free) * PAGE_MIB >= mib
    if not huge and added:
        write(before)
        added = 0
    try:
        yield Memory(huge)
    finally:
        if added:
            write(max(0, read("nr_hugepages") - added))
