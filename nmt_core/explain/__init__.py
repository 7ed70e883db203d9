"""Show how a model translates a sentence, step by step, as an HTML page: `nmt explain`.

trace.py         observes the beam search and keeps its tree
explanation.py   everything that the page shows, as numbers and tokens; needs onnxruntime only
positions.py     the positional encoding by its formula
matrices.py      the matrices of the first layers by their names, which are shown by
numbers.py       tables if the model is very small, or else by
heat_maps.py     heat maps
encoding.py      arrays as text for the script
drawing.py       the layout of the tree of hypotheses
page.py          the page: one self-contained HTML file, made from page.html.jinja, page.css and page.js
"""
