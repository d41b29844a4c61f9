"""Random ONNX graphs for differential.py: `draw.Draw` holds what is there so far, the other files one function for each
kind of node."""
