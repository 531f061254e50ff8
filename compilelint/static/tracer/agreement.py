"""What several results of one function say of one more."""

from __future__ import annotations

from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Mapping,
    Sequence,
    Tensor,
    Value,
    as_claimed,
    element_of,
    join_all,
    options,
)


def in_common(values: list[Value]) -> Value:
    """What may be said of one more value that was made as `values` were.

    A function that gave tensors for other arguments gives one for these, as far as anything is known. One that gave
    tensors and other things says nothing, and a dict or list is asked the same about what is in it.
    """
    found = [option for value in values for option in options(value) if option is not UNKNOWN]
    if found and all(isinstance(option, Tensor) or option == NONE for option in found):
        return join_all(as_claimed(option) for option in found)
    mappings = [option for option in found if isinstance(option, Mapping)]
    if mappings and len(mappings) == len(found) and len(set(found)) > 1:
        if any(not option.entries and not option.empty and option.unlisted == UNKNOWN for option in mappings):
            return Mapping()
        return Mapping((), in_common([element_of(option) for option in mappings]))
    tuples = [option.items for option in found if isinstance(option, Sequence) and option.form == "tuple"]
    if found and len(tuples) == len(found) and len({items and len(items) for items in tuples}) == 1 and tuples[0]:
        return Sequence("tuple", tuple(in_common(list(parts)) for parts in zip(*filter(None, tuples), strict=True)))
    return UNKNOWN if any(isinstance(option, Tensor) for option in found) else join_all(values)
