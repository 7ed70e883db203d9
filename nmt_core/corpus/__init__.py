"""Raw text to clean pairs: sources -> formats -> normalize -> filters -> dedup -> decontaminate -> split."""
