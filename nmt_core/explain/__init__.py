"""What happens to a sentence on its way through a model, as a page for people: `nmt explain`.

trace.py         looks on while the beam search works, and keeps its tree
explanation.py   everything that the page shows, as numbers and tokens; onnxruntime only
positions.py     the positional encoding by its formula
drawing.py       where each hypothesis of the tree is drawn
page.py          the page: one HTML file that needs nothing else; page.html.jinja, page.css and page.js
"""
