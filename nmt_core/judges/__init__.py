"""Run programs and ask services that judge or translate, and hash the files that they use.

lines.py       a program that reads lines and writes lines
programs.py    judges: a number for each translation
reranking.py   a judge that chooses among the candidates of a search
impartial.py   judges that chose what they judge
files.py       hashes of all files that decide the result of `evaluate`
http_forms.py  requests and answers of translation services
http_client.py requests that are repeated, within limits of time
systems.py     other systems' translations of a test set, each paid for once
"""
