"""Annotate a script: ranges where a profiler listens, next to nothing otherwise.

unstall run -- python 03_annotate.py
"""

import time

import unstall


@unstall.annotate("data_load")
def load(index: int) -> list[int]:
    """Stands for reading and decoding."""
    time.sleep(0.005)
    return [index] * 1000


def main() -> None:
    """Twenty steps, each a range of its own with the phases in it."""
    for i in range(20):
        with unstall.step(i):
            batch = load(i)
            with unstall.annotate("forward"):
                loss = sum(x * x for x in batch)
            with unstall.annotate("backward"):
                loss -= sum(batch)
    print("done", loss)


if __name__ == "__main__":
    main()
