"""Writes pickled.pt (the zip form) and pickled_old.pt (the form before PyTorch 1.6), with the same tensors, and
pickled.safetensors, which holds them dense: what a reader of the first two has to give.

    .venv/bin/python crates/data/tests/goldens/pickles.py
"""

import pathlib
from collections import OrderedDict

import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
torch.manual_seed(7)
base = torch.randn(5, 6)
tensors = OrderedDict()
for dtype in [torch.float64, torch.float32, torch.float16, torch.bfloat16]:
    tensors[f"float.{str(dtype)[6:]}"] = torch.randn(2, 3).to(dtype)
for dtype in [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]:
    tensors[f"whole.{str(dtype)[6:]}"] = torch.arange(-3, 4).to(dtype)
tensors["truth"] = torch.tensor([True, False, True])
tensors["scalar"] = torch.tensor(2.5)
tensors["empty"] = torch.zeros(0, 4)
tensors["base"] = base
tensors["shared"] = base
tensors["turned"] = base.t()
tensors["rows"] = base[1:3]
tensors["columns"] = base[:, 2:5]
tensors["stepped"] = base[::2, ::3]
tensors["repeated"] = base[0].expand(3, 6)
tensors["one"] = base[2:3].t()
tensors["permuted"] = torch.randn(2, 3, 4).permute(2, 0, 1)
tensors["parameter"] = torch.nn.Parameter(torch.randn(3))
layer = torch.nn.Linear(3, 2)
state = layer.state_dict()
state.update(tensors)
whole = {"epoch": 3, "loss": 0.5, "optimizer": {"state": {0: {"step": torch.zeros(1)}}, "lr": [1e-3]}, "state_dict": state}
torch.save(whole, here / "pickled.pt")
torch.save(whole, here / "pickled_old.pt", _use_new_zipfile_serialization=False)
save_file({k: v.detach().contiguous().clone() for k, v in state.items()}, here / "pickled.safetensors")
