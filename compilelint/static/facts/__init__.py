"""Questions that several rules ask about code and kinds: tensors, sizes, state, what runs when."""
