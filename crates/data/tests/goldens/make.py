"""Makes mixed.safetensors with the reference implementation: `pip install safetensors==0.8.0; python make.py`.

Every dtype that Regard reads, names that need escapes, a scalar, an empty tensor, an odd number of bytes.
The contents are byte i of a tensor = (37 * i + len(name)) mod 251, booleans mod 2."""

import ctypes
import os

from safetensors import TensorSpec, serialize_file

WIDTHS = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
          "int32": 4, "uint32": 4, "float32": 4, "float64": 8, "int64": 8, "uint64": 8}
TENSORS = [("b.weight", "float32", [2, 3]), ("a.weight", "float32", [4]), ("half", "float16", [3]),
           ("brain", "bfloat16", [1, 5]), ("scalar", "float32", []), ("empty", "float32", [0, 7]),
           ("mask", "bool", [3]), ("bytes", "uint8", [5]), ("i8", "int8", [1]), ("i16", "int16", [2]),
           ("u16", "uint16", [2]), ("ids", "int64", [2]), ("i32", "int32", [1]), ("u32", "uint32", [1]),
           ("double", "float64", [1]), ("u64", "uint64", [1]), ('quo"te\\', "float32", [1]),
           ("tab\tnew\n\u0001", "float32", [1]), ("schön/√", "float32", [1]), ("A.weight", "float32", [1])]


def content(name, dtype, shape):
    count = WIDTHS[dtype]
    for extent in shape:
        count *= extent
    byte = [(37 * i + len(name.encode())) % 251 for i in range(count)]
    return bytes(b % 2 for b in byte) if dtype == "bool" else bytes(byte)


buffers = []  # must outlive the call: the reference takes addresses
tensors = {}
for name, dtype, shape in TENSORS:
    data = content(name, dtype, shape)
    buffers.append(ctypes.create_string_buffer(data, max(len(data), 1)))
    tensors[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(data))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixed.safetensors")
serialize_file(tensors, path, {"format": "pt"})
