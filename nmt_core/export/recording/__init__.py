"""PyTorch modules as ONNX graphs: a module runs once, and what it does is written down.

recorder.py  runs the module, on tensors without memory, and catches the functions of PyTorch that it calls
table.py     looks up the rule of a function and refuses arguments that the rule does not take
numbers.py, layers.py, shapes.py
             the rules, by families: each writes operators of ONNX
draft.py     the graph so far: operators, constants, and the tensors and sizes that the module holds
"""
