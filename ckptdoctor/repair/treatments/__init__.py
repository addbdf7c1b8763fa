"""One module for each treatment. `propose(case, **arguments)` answers with edits, or refuses."""
