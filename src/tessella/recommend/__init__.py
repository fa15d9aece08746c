"""What a recommender holds besides its index (users, attributes, signals), and how it answers a request."""
