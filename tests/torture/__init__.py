"""The attacks on a run: hostile plugins, signals, wrong command lines, fuzzed files and options.

`make torture` runs them all and writes the tables of docs/robustness.md. Seeds are fixed, so that two
runs try the same. Add to the lists of `plugins`, `command_lines` and `parsers`.
"""
