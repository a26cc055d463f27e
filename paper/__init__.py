"""From the committed records of our studies to what docs/results.md and the README say of them.

python -m benchmarks.evidence            writes the blocks between markers in both, and the figures of results/choice
python -m benchmarks.evidence --check    says where they no longer follow from the records
"""
