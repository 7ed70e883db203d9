"""Run programs that judge or translate, and hash the files that they use."""
