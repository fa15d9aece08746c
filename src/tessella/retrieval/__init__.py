"""The paper, part two: queries -> candidates -> scores -> top k."""
