"""An implementation in a process of its own, where the harness cannot be imported.

`outside` is the side that judges, `inside` the side of the implementation; `wire` is what both know. Arrays
cross in shared memory, everything else as JSON. Nothing that comes from inside is run as code.
"""
