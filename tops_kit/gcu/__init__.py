"""The simulated device: what a part is made of, with the source of every figure."""

from tops_kit.gcu.figures import Figure
from tops_kit.gcu.reading import SpecificationError, load, part_names
from tops_kit.gcu.specification import RESOURCES, Specification

__all__ = ["RESOURCES", "Figure", "Specification", "SpecificationError", "load", "part_names"]
