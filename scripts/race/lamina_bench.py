"""Times Lamina in compare_pytorch_model.py: processes that load at once and take turns."""

import fcntl
import json
import subprocess
import tempfile
import time
from pathlib import Path


class Bench:
    """A `lamina bench model` that loads and compiles its network and then waits for its turn."""

    def __init__(self, lamina, file, device, seconds, precision, batch):
        self.lock = tempfile.NamedTemporaryFile()
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.process = subprocess.Popen(
            [lamina, "bench", "model", "--model", file, "--device", device, "--precision", precision, "--batch", batch, "--seconds",
             str(seconds), "--turns", self.lock.name, "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def processor_time(self):
        """In ticks; 0 when it has ended."""
        try:
            return sum(map(int, Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            return 0

    def time(self):
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        out, said = self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"lamina bench model: {' '.join(said.split())}")
        return json.loads(out[out.index("{"):])


def wait_until_loaded(benches):
    """Until they do no more: all wait for their turns then, or have failed."""
    before, end = -1, time.monotonic() + 60
    while (now := sum(bench.processor_time() for bench in benches)) != before and time.monotonic() < end:
        before = now
        time.sleep(0.3)
