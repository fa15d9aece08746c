"""What a recommender knows beside its index: users, attributes, signals; and what it makes of a question."""
