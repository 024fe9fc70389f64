"""Memory recall: does the memory hold the evidence of a gap?"""
