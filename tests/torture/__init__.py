"""The attacks on a run: hostile plugins, signals, wrong command lines, fuzzed files and options.

`make torture` runs them all and writes the tables of docs/robustness.md. Seeds are fixed, so that two
runs try the same. `plugins` and `command_lines` are lists to add to; so is `parsers`, where a function is a parser.
"""
