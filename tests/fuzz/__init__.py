"""A fuzzer: cases drawn from the package's own tables, held against exact answers.

    python -m tests.fuzz --minutes 10            # a seed of its own, which it prints
    python -m tests.fuzz --minutes 10 --seed 7 --family graphs --jobs 2
    python -m tests.fuzz --seed 7 --family graphs --case 1234      # one case again

It ends when its minutes are over, with a count of cases for each family and, for each fault found,
a program that shows it: small, and without need of this package. The exit status is 1 if there is
one. A case is drawn from the seed, its family's name and its number alone, so that it can be had
again whatever the time, the other families and the jobs. A worker that dies, or does not answer, is
a finding as any other.

A family is a module (`case.Family` says what is in it) that `runner.FAMILIES` names. `draw` makes a
`Case` of arrays and options, taking what it can from `gpudist.kernels()`, `gpudist.metrics` and
`gpudist.semirings`, so that what is added to those is tried without being added here. `program`
writes what must hold as a text over data, right answers among them; helpers that texts call are in
`helpers`, and are printed with them. Shrinking of arrays is done for all families alike, by the
names of their axes; `simpler` gives plainer options. An `ISOLATED` family has each case in a
process of its own.

What is right comes from `oracle`, which alone imports exact distances and data from the benchmarks.
`coverage` has the same objects that lie as a target for atheris, which looks for new ways through
the C code by itself.
"""
