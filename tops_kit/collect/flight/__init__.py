"""The flight recorder: a recording that keeps its last seconds only, and snapshots of them.

The way of the data. Records go from rings to journal parts to segments as in any recording, a flush each
second at least; samples come as chunk files. The difference is what happens to segments:

- `retention.Window` is told of each segment as it gets its name. By the time of arrival, in seconds in which
  recording was on, it deletes those of tables of events that are older than the window, or that are too much
  for `keep_bytes`, oldest first; it merges the many small ones of a long window into some thirty a table, and
  the tables without times (processes, threads, stacks) into one. What went is counted for the ledger.
- A snapshot is a session beside it. The drain loop empties the rings into the active part and copies the
  tables of open ranges; the writing thread makes segments of that part, takes the samples, and gives each
  segment of the window a second name (a hard link) in a folder of the snapshot: segments never change, so
  that is all there is to copy. A thread of its own writes what is left (open ranges as unfinished, processes,
  session.json) and gives the folder its name. Where links can't be, files are copied.
- Who asks: files in `snapshots/` of the session (`plan.ask`), from topstx.snapshot(), `topsprof snapshot` or
  topsprof itself on a signal; and `triggers.Triggers`, which sees each row of ranges on its way.

All of it is the collector's: the program only ever writes its rings. At the end the session itself holds the
window, complete as any other; after a crash `recover` makes that of segments, journal and rings.
"""
