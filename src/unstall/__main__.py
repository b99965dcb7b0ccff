"""``python -m unstall``: the same command where the script folder is not on the PATH."""

from unstall.cli import main

if __name__ == "__main__":
    main()
