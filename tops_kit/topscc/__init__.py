"""The kernel compiler: a typed tree, the builder that makes it for front ends, its lowering to a program."""
