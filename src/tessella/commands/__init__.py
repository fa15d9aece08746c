"""The commands of `tessella`: each reads files, queries an index or a recommender, and writes the answers."""
