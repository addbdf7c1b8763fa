"""Special tokens, the tokenizer and chat templates."""
