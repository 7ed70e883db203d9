"""Translation jobs: text of any size, translated by any number of workers, whose death costs a chunk at most.

order.py     what is to be done: files with their identity, the model and its search pinned; a fingerprint of it
inputs.py    the files that a path, a folder, a pattern or an address in a store means
folder.py    where the parts of a job lie, and its journal
staging.py   the first step: the text is read once, checked, and cut into chunks
chunk.py     the second: one chunk is translated; the task of a worker
claims.py    who works on what, so that several do not do the same
merge.py     the third: the chunks become the output, in their order; writers.py knows the formats, unreadable.py keeps
             what is not UTF-8
pace.py      rows per second, and the time that is left
run.py       all three, from wherever an earlier attempt stopped
stream.py    text that comes or goes through a pipe: translated at once, without a job

A job folder is a folder, or any address that fsspec knows::

    <job>/order-1.json                       the order, written before anything is done: no other may begin beside it
    <job>/plan.json                          the order and its chunks, which are copies: from then on the text may go
    <job>/parts-<fingerprint>/
        input/0000000.parquet                the rows of a chunk
        output/0000000.parquet               their translations: the chunk is done if and only if this is there
        claims/0000000.json                  who is at it
    <job>/done.json                          the output is there; the order and the folder above are removed

A text that is there, but is not the one of the order (its time of change included), makes another order, which is
refused until the job is done.

What makes it hold:

- A folder is for one order at a time. The order is published before the text is read, by a file that is created only
  where there is none, and looked at again before the plan is written. Jobs of a folder are counted, and the file has
  the number of the job in its name: nobody has to remove the one of a job that is done for the next one to begin.
- Every file appears under its name when it is whole. On a disk it is renamed, after `fsync`; stores show an object when
  its last byte has come.
- What a file holds depends on the fingerprint and its number alone, never on who wrote it or when. Two workers that do
  the same chunk write the same bytes (on processors of one kind: another may round differently, and the last digit of
  a score may differ), so it does not matter whose file stays.
- Nothing is ever decided by a claim. Stores differ in whether "create this if it is not there" is one step (S3 knows
  If-None-Match since 2024, others know nothing like it) and clocks differ as well, so that two may hold the same claim:
  that costs the time of doing a chunk twice, and no more. Who waits for a claim from another machine sees by his own
  clock whether its owner still puts its end off.
- Files of an order lie under its fingerprint: a worker of an earlier job, come back to life, writes where nobody looks,
  and asks whether his job is still to be done before he publishes an output.
- A chunk is published only if the text is still the one of the order once the chunk's rows have been read.
"""
