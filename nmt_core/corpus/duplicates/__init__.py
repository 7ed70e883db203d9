"""Find exact and near duplicates by shuffling rows into buckets."""
