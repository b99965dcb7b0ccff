"""Programs to profile. Each is one file, run as a script; nothing else of the package imports them."""
