"""Exact and near duplicates, found by shuffling rows into buckets."""
