"""Fast paths: the same numbers up to rounding, sooner. Offered by the configuration alone, never by timing.

The small networks on the CPU have lean inference (`make_actor`) and gradients by hand (`make_gradients`). Neither needs
a compiler or any time to warm up, so they pay from the first step. Where there is no replacement, training takes the
reference.
"""
