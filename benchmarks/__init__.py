"""Every performance claim as a command: `python -m benchmarks NAME` measures it beside its peers and prints
the ratio.

Absolute times of a shared machine mean little: ratios of one run do. Peers that are not installed leave a
row that says so;
`pip install -e '.[bench]'` installs them (`'.[bench,torch]'` PyTorch, too).
"""
