"""Search: from what a caller gives to answers, and what is measured and told about them."""
