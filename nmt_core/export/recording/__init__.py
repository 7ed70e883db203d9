"""Record PyTorch modules as ONNX graphs: a module runs once, and its functions are translated into operators.

recorder.py  runs the module on tensors without memory, and intercepts the functions of PyTorch that it calls
table.py     looks up the rule of a function, and refuses arguments that the rule does not take
numbers.py, layers.py, shapes.py
             rules by family, each of which writes ONNX operators
draft.py     the graph so far: operators, constants, and the tensors and sizes that the module holds
"""
