"""Prints the rows of a study as a table. `penstock study` and `penstock.study` write the rows. The table is a pandas
DataFrame if pandas is installed; otherwise plain Python prints it.

    /usr/bin/python3 examples/python/study_table.py STUDY/results.json
"""
import json
import statistics
import sys


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["rows"]


def plain_table(rows):
    variants = {}
    for row in rows:
        variants.setdefault(row["variant"], []).append(row)
    print(f"{'variant':16s} {'seeds':>5s} {'validation loss':>15s} {'spread':>8s} {'tokens/s':>9s}")
    for name, of_variant in variants.items():
        losses = [row["validation"]["loss"] for row in of_variant]
        spread = f"{statistics.stdev(losses):8.4f}" if len(losses) > 1 else "       –"
        speed = statistics.mean(row["tokens_per_second"] for row in of_variant)
        print(f"{name:16s} {len(losses):5d} {statistics.mean(losses):15.4f} {spread} {speed:9.0f}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = rows_of(sys.argv[1])
    try:
        import pandas
    except ImportError:
        return plain_table(rows)
    table = pandas.json_normalize(rows).groupby("variant", sort=False)
    print(table[["validation.loss", "tokens_per_second"]].agg(["count", "mean", "std"]))


if __name__ == "__main__":
    main()
