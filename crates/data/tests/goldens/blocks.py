"""Writes blocks.gguf: random blocks of every quantised type that is read, and the numbers that the package `gguf` makes
of them, beside each under the same name with `.numbers`; settings of every kind.

    pip install gguf; python crates/data/tests/goldens/blocks.py
"""

import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

random = np.random.default_rng(11)
writer = GGUFWriter(pathlib.Path(__file__).parent / "blocks.gguf", "llama")
writer.add_uint32("test.number", 7)
writer.add_float32("test.float", 0.25)
writer.add_bool("test.truth", True)
writer.add_array("test.floats", [0.5, -1.5])
writer.add_array("test.whole", [3, -4])
writer.add_array("test.texts", ["a", "ß", ""])
for kind in [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K]:
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (2, 512 // elements * size), dtype=np.uint8)
    # The scales are halves: an exponent of all ones would be no number. 0x2e.. is about 0.1.
    scales = {T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}.get(kind, [0])
    for row in blocks:
        for begin in range(0, len(row), size):
            for scale in scales:
                row[begin + scale + 1] = 0x2E | int(random.integers(0, 2)) << 7
    writer.add_tensor(kind.name, blocks, raw_dtype=kind)
    writer.add_tensor(f"{kind.name}.numbers", dequantize(blocks, kind).astype(np.float32))
bf16 = random.integers(0x3E00, 0x4000, (2, 3), dtype=np.uint16)
writer.add_tensor("BF16", bf16.view(np.uint8).reshape(2, 6), raw_dtype=T.BF16)
writer.add_tensor("BF16.numbers", dequantize(bf16.view(np.uint8).reshape(2, 6), T.BF16).astype(np.float32))
half = random.standard_normal((3, 2)).astype(np.float16)
writer.add_tensor("F16", half)
writer.add_tensor("F16.numbers", half.astype(np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
