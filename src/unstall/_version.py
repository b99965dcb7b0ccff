"""The version, in one place and without reading package metadata (which would cost import time)."""

VERSION = "0.1.0"
