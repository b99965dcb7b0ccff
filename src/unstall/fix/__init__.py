"""Remedies: what a finding's fix is in code. ``prefetch`` and ``resident`` are what users import.

One file a remedy; each says which findings it serves, how safe it is, how it is tried without an edit, and how it is
written into a script.
"""
