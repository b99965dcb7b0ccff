"""The parts of reading a trace of PyTorch's profiler: text → events → tables. ``unstall.load.kineto`` runs them."""
