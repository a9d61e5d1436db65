#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""gtest_cases.py JUNIT STATUS OUT: reads the report of `meson test`, which ended with STATUS. Writes one line per
case to OUT (ok Suite.Name, failed Suite.Name, skipped Suite.Name reason) and prints the numbers of passed and failed
cases. Programs that failed without any failed case (by a crash, a leak or a timeout) count as one failed case."""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def verdict_of(case):
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed", ""
        if child.tag == "skipped":
            return "skipped", " " + " ".join((child.get("message") or "no reason given").split())
    return "ok", ""


def cases_of(path):
    if not path.exists():
        return
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            if case.get("status") != "notrun":
                verdict, reason = verdict_of(case)
                yield verdict, f"{case.get('classname')}.{case.get('name')}{reason}"


def main():
    path, status, out = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    cases = list(cases_of(path))
    failed = sum(verdict == "failed" for verdict, _ in cases)
    if status and not failed:
        cases.append(("failed", "a test program, beyond its cases"))
        failed = 1
    out.write_text("".join(f"{verdict} {case}\n" for verdict, case in cases))
    print(sum(verdict == "ok" for verdict, _ in cases), failed)


main()
