"""Run a command and write what it took to a file: `python -I -S measured_child.py REPORT COMMAND...`; standard library only.

A process of its own because the system counts the memory of the process that starts another as the other's at its beginning: this
one is small. The report: wall time and CPU in s, the highest resident memory in KB, the exit code.
"""

import os
import sys
import time

began = time.perf_counter()
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
took = time.perf_counter() - began
with open(sys.argv[1], "w", encoding="ascii") as report:  # noqa: PTH123 - pathlib would make it larger
    print(took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status), file=report)
