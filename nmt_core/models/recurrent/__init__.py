"""Recurrent encoder-decoders (Cho et al. 2014, Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015)."""
