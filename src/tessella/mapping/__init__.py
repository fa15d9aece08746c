"""The paper, part one: factors -> tiles -> slots -> sparse map."""
