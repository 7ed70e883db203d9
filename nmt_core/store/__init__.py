"""Artifact store: immutable folders, their manifests, and the files in them."""
