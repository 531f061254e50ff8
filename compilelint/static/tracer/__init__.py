"""The tracer: walks code the way Dynamo does, with value kinds in place of values.

It enters a region at its root with what is known of the arguments, follows calls into other functions and files, skips
paths that cannot be taken, and records for every expression it passes what the expression is. Rules then ask.
"""
