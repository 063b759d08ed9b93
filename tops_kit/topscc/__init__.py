"""The kernel compiler: a typed tree, the builder that front ends make it with, and its lowering to a program."""
