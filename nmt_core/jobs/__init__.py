"""Translation jobs: text of any size, translated by any number of workers. A worker that dies costs a chunk at most.

order.py       the order of a job: its files with their identity, the pinned model and the search; and its fingerprint
inputs.py      the files that a path, a folder, a pattern or an address in a store names
folder.py      the files of a job, and its journal
reading.py     rows of a text, from a file or a pipe; refuses text that would be misread
documents.py   documents, whose segments are rows
kept.py        columns of the input that are carried over to the output
staging.py     step 1: read the text once, check it, and cut it into chunks
chunk.py       step 2: translate one chunk; the task of a worker
checks.py      faults of translations, by the filters of `clean`
profiles.py    the profile of the text and of the translations, chunk by chunk
makers.py      by which code each chunk was translated
claims.py      which worker does which task, so that two workers rarely do the same one
merge.py       step 3: merge the chunks into the output, in their order
writers.py     the formats of the output
unreadable.py  the file with bytes that are not UTF-8
shadow.py      a challenger that translates a share of the lines too
review.py      the lines most worth a human's time
pace.py        rows per second, and the time that is left
run.py         all three steps, from wherever an earlier attempt stopped
stream.py      text from or to a pipe: translated at once, without a job

A job folder is a folder, or any address that fsspec supports::

    <job>/order-1.json                       the order, written first: no other job may begin in this folder
    <job>/plan.json                          the order and its chunks. Chunks are copies: the text is no longer needed
    <job>/parts-<fingerprint>/
        input/0000000.parquet                the rows of a chunk
        kept/0000000.parquet                 its columns that are carried over, if any
        document/0000000                     a document of the input as it is, if there are any
        output/0000000.parquet               their translations: a chunk is done if and only if this file exists
        shadow/0000000.parquet               a challenger's translations of some of its rows, if there is one
        claims/0000000.json                  the worker that translates the chunk
    <job>/profile.json                       histograms of the text and of the translations
    <job>/done.json                          the output exists; the order and the folder above are removed

A text that differs from the text of the order, its modification time included, makes another order. That order is
refused until the job is done.

These rules make a job robust:

- A folder holds one order at a time. The order is published before the text is read, in a file that is created only if
  it does not exist. It is read again before the plan is written. Jobs of a folder are numbered, and the name of the
  file contains the number: the next job can begin although the file of a finished job still exists.
- A file appears under its name when it is complete. On a disk it is renamed after `fsync`. A store shows an object when
  its last byte has arrived.
- The content of a file depends on the fingerprint and the number of the file alone, never on the worker or the time,
  as long as all workers have the same code. Each translated chunk names its code, and a job reports a change.
  Two workers that translate the same chunk write the same bytes, so it does not matter whose file stays. (Processors
  of different kinds may round differently, so that the last digit of a score may differ.)
- No result depends on a claim. Stores differ in whether "create this file if it does not exist" is atomic: S3 has
  If-None-Match since 2024, others have nothing like it. Clocks differ as well. So two workers may hold the same claim,
  which costs the time to translate a chunk twice, and nothing else. A worker that waits for a claim from another
  machine uses its own clock to see whether the owner still extends the claim.
- Files of an order are in a folder named after its fingerprint: a worker of an earlier job that resumes late writes
  where no other worker reads. Before it publishes an output, it checks that its job is still to be done.
- A chunk is published only if the text is still the text of the order after the rows of the chunk have been read.
"""
