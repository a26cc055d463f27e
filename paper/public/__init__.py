"""Procgen at the paper's scale from what OpenAI published: tables, figures and claims.

python -m paper.public --data FOLDER    writes results/procgen-public from a folder of the compacted records
"""
