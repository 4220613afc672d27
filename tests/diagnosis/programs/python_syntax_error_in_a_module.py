# expect: rank any, line 9, signature syntax-error
import os
import sys
import tempfile

sys.path.insert(0, tempfile.mkdtemp())
with open(os.path.join(sys.path[0], "layers.py"), "w") as file:
    file.write("def layer(width:\n    return width\n")
import layers

print(layers.layer(3))
