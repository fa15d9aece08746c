"""What the commands of `tessella` do: each reads files, asks the index, and writes what it says."""
