"""python -m tessella: the command line."""

from tessella.commands.app import main

if __name__ == "__main__":
    main()
