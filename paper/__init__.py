"""The paper's claims, and their tests on our records and on public ones: the generated parts of docs/paper.md."""
