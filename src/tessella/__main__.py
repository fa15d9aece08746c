"""python -m tessella: the command line."""

from tessella.cli import main

if __name__ == "__main__":
    main()
