"""Translation models and their loss.

Names of tensors and arrays end in their shape, one letter for each dimension in order (Noam Shazeer, "Shape suffixes",
2024): `x_BLM` is [B, L, M]. All models, batches and searches share these letters. A module's docstring names the
letters that it adds or uses differently.

- B: sentences of a batch
- K: hypotheses of a sentence, such as the beams of a search
- R: rows of a decoding step: R = B * K, with the rows of a sentence side by side
- L: positions of a sentence, source or target
- S: source positions
- T: target positions; in decoding, those read so far
- N: tokens of a packed stream
- H: attention heads
- D: width of a head (values may have another width than queries and keys)
- P: width of all heads side by side: P = H * D
- M: width of the model, `d_model`
- V: pieces of the target vocabulary
- C: candidates of a row in a decoding step
- W: blocks of a shortlist
- E: pieces of a block

A digit is a fixed size: 1, or 2 for source and target. A name may leave out its first dimensions: `x_M` is [B, L, M]
where sentences are padded, and [N, M] where they are packed.
"""
