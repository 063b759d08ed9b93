"""Running programs on the simulated GCU: kernels and their launches."""
