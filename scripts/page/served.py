"""A server for as long as something looks at its page."""

import contextlib
import re
import subprocess


@contextlib.contextmanager
def served(lamina, page, *arguments):
    """The address of a `lamina serve` whose page is what is in the folder `page`."""
    server = subprocess.Popen([lamina, "serve", "--port", "0", "--device", "cpu", "--path", page, *arguments],
                              stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", server.stdout.readline())[0]
    finally:
        server.terminate()
        server.wait()
