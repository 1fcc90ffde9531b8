"""Known bugs of OpenVINO's CPU plugin: a table with one entry for each.

A module here holds the entries of one subject, as `Bug` objects at its top level; `table.bugs` finds them. An entry
states when the bug occurs, what the plugin does, and a model that shows it, which the tests run. To add a bug that can
be seen in the source graph, add an entry with `matches`; a bug that only a lowering can see is reported there by
`Bug.warn`.
"""
