"""Jobs: work for all users, in bounded memory, that outlasts an interruption."""
