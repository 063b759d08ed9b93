"""Sampling of Python programs from outside: stacks, states, waits, native code and asyncio tasks of other
processes.

Nothing of ours runs in the program: no thread, no signal handler, no import, no stop. Its memory is read by
process_vm_readv; what was torn is noticed and counted. CPython 3.11, 3.12 and 3.13 on 64-bit Linux; needs the
C extension `_sampler`.

    from topsprof.capture.sampling.sampler import Sampler, SamplingLoop

    loop = SamplingLoop(1000)              # one loop serves many processes: it needs one thread in all
    loop.add(Sampler(pid))                 # UserError: one line; NotPythonError: no Python there (yet)
    while running:
        for ended in loop.run(0.25):       # the GIL is free meanwhile; returns early when a process ends
            write(ended, ended.batch())    # ended.end: "exited" or "executed" (then make a new Sampler)
        for sampler in samplers:
            write(sampler, sampler.batch())   # columns, and what is new of stacks, codes, tasks, ...
            sampler.counts()               # for the ledger: unresolved, cut, native_unnamed, rows_lost, ...

A forked child is another process: give it a Sampler of its own. Rows carry CLOCK_MONOTONIC, and a weight: the
time that they stand for. Threads that do not run are not walked again; their rows are merged up to 100 ms.
`dumping.take(pid)` looks once, with variables and all tasks. `extension.problem()` says why there is no
sampling here.
"""
