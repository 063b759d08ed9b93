"""Graphs: work that is stated once, by capturing streams or node by node, and launched again and again."""
