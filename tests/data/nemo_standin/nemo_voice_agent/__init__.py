"""Stands in for the package of the same name: its public interface, and everything that its scenarios may do wrong."""

import os
import time
from pathlib import Path

print("nemo_voice_agent says hello on import")
os.write(1, b"and writes to the file descriptor\n")
time.sleep(float(os.environ.get("STANDIN_IMPORT_SECONDS", "0")))
if os.environ.get("STANDIN_IMPORT_FAILS"):
    raise RuntimeError("a dependency of it is missing")
if os.environ.get("STANDIN_STARTS"):
    with Path(os.environ["STANDIN_STARTS"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
