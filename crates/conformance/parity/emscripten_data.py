"""Takes files out of the package that emscripten makes of a folder: a script says where each begins and ends.

    emscripten_data.py PACKAGE.js PACKAGE.data FOLDER
"""

import pathlib
import re
import sys

script, data, folder = (pathlib.Path(path) for path in sys.argv[1:])
whole = data.read_bytes()
found = set(re.findall(r'"?filename"?:\s*"([^"]+)",\s*"?start"?:\s*(\d+),\s*"?end"?:\s*(\d+)', script.read_text()))
if not found:
    sys.exit(f"{script}: names no files")
for name, start, end in sorted(found):
    (folder / pathlib.Path(name).name).write_bytes(whole[int(start):int(end)])
    print(folder / pathlib.Path(name).name, int(end) - int(start))
