#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Types keys into a pseudo-terminal of dpdk-ipoib and checks its output.

  terminal.py COMMAND...   starts the command as a child with the pseudo-terminal. It must have -i, a port eth0
                           and log level debug of ipoib.sa

Prints a line for each check and ends with 1 at the first that fails.
"""
import os
import pty
import select
import sys
import time

PROMPT = "ipoib> "
TIMEOUT_S = 30.0


class Terminal:
    def __init__(self, command):
        self.unread = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)

    def read_until(self, wanted):
        """Reads until `wanted` appears. Returns the text up to its end, without carriage returns."""
        text = self.unread
        end = time.monotonic() + TIMEOUT_S
        while wanted not in text:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit(f"terminal: no {wanted!r} in {text!r}")
            try:
                part = os.read(self.fd, 65536)
            except OSError:
                part = b""
            if not part:
                sys.exit(f"terminal: ended before {wanted!r}: {text!r}")
            text += part.decode(errors="replace").replace("\r", "")
        read = text.index(wanted) + len(wanted)
        self.unread = text[read:]
        return text[:read]

    def type(self, keys, wanted):
        os.write(self.fd, keys.encode())
        return self.read_until(wanted)

    def end(self, keys):
        """Types the keys, waits for the end of the program and returns its exit status."""
        os.write(self.fd, keys.encode())
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def check(what, condition, text):
    if not condition:
        sys.exit(f"terminal: {what}: {text!r}")
    print(f"terminal: {what}")


def main():
    t = Terminal(sys.argv[1:])
    t.read_until(PROMPT)
    t.type("sho\t", "show ")
    text = t.type("por\t\t\t", "eth0") + t.read_until("stats")
    check("Tab completes a word, and lists what may follow", "port" in text, text)
    t.type("\x03start\n", "forwarding is on\n" + PROMPT)
    t.type("set log ?", "worker")
    check("? lists what may stand there", True, "")
    t.type("\x03stop\n", "forwarding is off\n" + PROMPT)
    t.type("\x1b[A\n", "forwarding was off\n" + PROMPT)
    check("arrow up brings the last line back", True, "")
    t.type("quit\x03show fwd json\n", '"mode"')
    t.read_until("}\n" + PROMPT)
    check("Ctrl-C forgets the line and ends nothing", True, "")

    t.type("route add 10.9.0.0/16 blackhole" + " " * 600 + "\n", "error: line longer than")
    t.read_until("\n" + PROMPT)
    check("a line that is too long is refused", True, "")
    t.type("st\u00e9art\n", "forwarding is on\n" + PROMPT)
    check("letters no command has are left out", True, "")

    t.type("show log\n", "sa      debug\n")
    t.read_until(PROMPT)
    check("show log says what EAL's --log-level set", True, "")
    t.type("set log sa error\n", PROMPT)
    text = t.type("show log\n", "worker  notice\n")
    check("set log changes it", "sa      error\n" in text and "link    notice\n" in text, text)
    t.read_until(PROMPT)
    check("Ctrl-D ends the program in order", t.end("\x04") == 0, "")


main()
