#!/usr/bin/env python3
"""check_file.py FILE: reads with Python's safetensors what tests/nn/safetensors_test.cpp wrote.

Exits 77 where that library is missing, 1 where a tensor is not what it should be.
"""
import sys

try:
    import numpy
    from safetensors import safe_open
except ImportError:
    sys.exit(77)

expected = {
    "conv.weight": numpy.arange(2 * 3 * 2 * 2, dtype=numpy.float32).reshape(2, 3, 2, 2),
    "count": numpy.array(-7, dtype=numpy.int64),
    "double": numpy.array([0.1, -2.5]),
    "half": numpy.array([1.5, -0.25], dtype=numpy.float16),
    "bytes": numpy.array([1, 2, 255], dtype=numpy.uint8),
    "none": numpy.zeros((0, 3), dtype=numpy.float32),
}
with safe_open(sys.argv[1], framework="np") as file:
    assert file.metadata() == {"note": "a \"quoted\" note"}, file.metadata()
    assert set(file.keys()) == set(expected), file.keys()
    for name, array in expected.items():
        found = file.get_tensor(name)
        assert found.dtype == array.dtype and found.shape == array.shape, (name, found)
        assert (found == array).all(), (name, found)
