"""From the committed records of our studies to docs/paper.md, docs/results.md, its appendix and the README's summary.

python -m paper            writes the blocks between markers in them, and the figures
python -m paper --check    says where they no longer follow from the records
"""
