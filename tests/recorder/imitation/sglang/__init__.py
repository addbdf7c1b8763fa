"""An imitation of the few parts of SGLang that the recorder looks at, in plain torch.

The real ones run in `python -m tests.conformance.recorder_run`. Names, arguments and the order of calls are those of
SGLang 0.5.23; the network is the smallest that has the same parts.
"""
