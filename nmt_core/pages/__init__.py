"""Self-contained HTML pages, which are one file each and load nothing from elsewhere.

page.py      makes a page from the template, the style and the script of a package
colours.css  the colours of all pages, in light and in dark
"""
