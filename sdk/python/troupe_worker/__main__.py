"""The program of runtime: python: ``python3 -m troupe_worker``, started by a node."""

from .loader import Files
from .runtime import Worker

if __name__ == "__main__":
    Worker(Files()).run()
