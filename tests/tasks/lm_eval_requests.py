#!/usr/bin/python3
"""Makes the requests of lm-eval's tasks with the harness's own code, from the rows beside this script and from the
public files of zero-shot sets. For each task, file and number of few-shot examples, it prints the number of items and a
SHA-256 of all requests. Tests compare with this output.

    lm_eval_requests.py CHECKOUT [DATA [OLD_CHECKOUT]] > lm_eval_requests.json

CHECKOUT is a clone of EleutherAI/lm-evaluation-harness. DATA is a folder with the files of FILES. OLD_CHECKOUT is a
clone in which RACE has version 2.0 (the parent of 5eb3040). The script needs python3-jinja2, python3-numpy and
python3-yaml; stubs replace the harness's other imports. If a file's rows do not have the data set's own form, the
functions below convert them back to it.
"""

import gzip
import hashlib
import json
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))


class Stub(types.ModuleType):
    """A module in which every name is a class that does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


class Bar:
    """A progress bar that shows nothing."""

    def __init__(self, iterable=(), **_):
        self.iterable = iterable

    def __iter__(self):
        return iter(self.iterable)

    def update(self, _):
        pass

    def close(self):
        pass


class Rows(list):
    """A list of rows with the methods of a data set that the harness needs."""

    @property
    def features(self):
        return self[0]

    def map(self, function):
        return Rows({**row, **function(dict(row))} for row in self)


def import_harness(checkout, load):
    for name in ("datasets", "tqdm", "requests", "sacrebleu", "evaluate", "tqdm.contrib", "dill", "packaging",
                 "packaging.version"):
        sys.modules[name] = Stub(name)
    sys.modules["datasets"].load_dataset = load
    sys.modules["datasets"].__version__ = "0"
    sys.modules["tqdm"].tqdm = Bar
    for name in ("lm_eval", "lm_eval.tasks"):  # avoids the imports of their __init__.py
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(checkout, *name.split("."))]
    from lm_eval.api.task import ConfigurableTask
    return ConfigurableTask


def read(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def arc(row):
    letters = "ABCDE"[:len(row["choices"])]
    return {"question": row["query"].removeprefix("Question: "), "answerKey": letters[row["gold"]],
            "choices": {"text": row["choices"], "label": list(letters)}}


def arc_request(rows):
    """Converts rows that have one choice each. The second half repeats the items without questions and is skipped."""
    for row in rows:
        if row["idx"] == 0 and row["doc_id"] < 1_000_000:
            doc = row["doc"]
            yield arc({**doc, "query": doc["query"].removesuffix("\nAnswer:")})


def openbookqa(row):
    return {**arc({**row, "query": ""}), "question_stem": row["query"]}


def boolq(row):
    passage, question = row["query"].removeprefix("Passage: ").rsplit("\nQuestion: ", 1)
    return {"passage": passage, "question": question.removesuffix("?"), "label": row["gold"]}


def lambada(row):
    return {"text": row["context"] + " " + row["continuation"]}


def copa(row):
    premise, connective = row["query"].rsplit(", ", 1)
    return {"premise": premise + ".", "question": {"because": "cause", "therefore": "effect"}[connective],
            "choice1": row["choices"][0], "choice2": row["choices"][1], "label": row["gold"]}


def winogrande(row):
    first, second = row["context_options"]
    same = os.path.commonprefix([first, second])
    same = same[:same.rfind(" ") + 1]
    return {"sentence": f"{same}_ {row['continuation']}", "option1": first[len(same):],
            "option2": second[len(same):], "answer": str(row["gold"] + 1)}


def race(row):
    problem = {key: row[key] for key in ("question", "options", "answer")}
    return {"article": row["article"], "problems": repr([problem])}


def triviaqa(row):
    question = row["context"].removeprefix("Question: ").removesuffix("\nAnswer:")
    return {"question": question, "answer": {"aliases": row["aliases"]}}


def piqa(rows, path):
    with open(path.replace(".jsonl", "-labels.lst")) as file:
        return [{**row, "label": int(label)} for row, label in zip(rows, file)]


# Task, its configuration in the checkout, a file of DATA, and the function that converts a row to the data set's form.
FILES = [
    ("arc_easy", "arc/arc_easy", "arc_easy.jsonl", arc),
    ("arc_easy", "arc/arc_easy", "requests/arc_easy_val_rc_0shot.jsonl.gz", arc_request),
    ("arc_challenge", "arc/arc_challenge", "arc_challenge.jsonl", arc),
    ("boolq", "super_glue/boolq/default", "boolq.jsonl.gz", boolq),
    ("hellaswag", "hellaswag/hellaswag", "hellaswag_val.jsonl.gz", None),
    ("lambada_openai", "lambada/lambada_openai", "lambada_openai.jsonl.gz", lambada),
    ("piqa", "piqa/piqa", "piqa/valid.jsonl", piqa),
    ("race", "race/race", "race.jsonl.gz", race),
    ("openbookqa", "openbookqa/openbookqa", "openbook_qa.jsonl", openbookqa),
    ("copa", "super_glue/copa/default", "copa.jsonl", copa),
    ("winogrande", "winogrande/default", "winogrande.jsonl", winogrande),
    ("nq_open", "nq_open/nq_open", "nq_open_dev.jsonl", None),
    ("triviaqa", "triviaqa/default", "triviaqa_sm_sub.jsonl.gz", triviaqa),
]
# The same for the rows beside this script, which have the data sets' own forms.
ROWS = [(task, config, f"rows/{task}.jsonl", None) for task, config in (
    ("arc_easy", "arc/arc_easy"), ("boolq", "super_glue/boolq/default"),
    ("lambada_openai", "lambada/lambada_openai"), ("race", "race/race"), ("sciq", "sciq/sciq"),
    ("openbookqa", "openbookqa/openbookqa"), ("copa", "super_glue/copa/default"),
    ("winogrande", "winogrande/default"), ("commonsense_qa", "commonsense_qa/default"),
    ("social_iqa", "siqa/siqa"), ("wsc", "super_glue/wsc/default"), ("hellaswag", "hellaswag/hellaswag"))]


# Few-shot: number of examples, seed, the file that selects a line of the tables above (its last line with this file),
# and the file of the examples if it is another one.
SHOTS = [(1, 7, f"rows/{task}.jsonl", None) for task, *_ in ROWS] + [
    (2, 1234, "rows/wsc.jsonl", None), (2, 1 << 40 | 5, "arc_easy.jsonl", None), (5, 1234, "arc_easy.jsonl", None),
    (25, 1234, "arc_challenge.jsonl", "arc_easy.jsonl"), (5, 1234, "boolq.jsonl.gz", None),
    (10, 0, "hellaswag_val.jsonl.gz", None), (3, 1234, "lambada_openai.jsonl.gz", None),
    (5, 1234, "piqa/valid.jsonl", None), (2, 1234, "race.jsonl.gz", None), (5, 99, "openbook_qa.jsonl", None),
    (5, 1234, "copa.jsonl", None), (5, 1234, "winogrande.jsonl", None), (5, 1234, "nq_open_dev.jsonl", None),
    (5, 1234, "triviaqa_sm_sub.jsonl.gz", None)]
FIRST = [(3, "copa.jsonl"), (5, "openbook_qa.jsonl")]  # number of examples and file; the examples are the first rows


def load_config(checkout, name):
    from lm_eval.tasks._yaml_loader import load_yaml
    return load_yaml(os.path.join(checkout, "lm_eval/tasks", name + ".yaml"))


def rows_of(path, back):
    rows = read(path)
    if back is piqa:
        return piqa(rows, path)
    if back is arc_request:
        return list(arc_request(rows))
    if back is race:
        rows = [row for row in rows if row["example_id"].startswith("high")]
    return [back(row) for row in rows] if back else rows


def requests_of(task_class, checkout, name, rows, shots=0, seed=1234, pool=None, **more):
    """Yields for each item the gold index (the known answers of generation tasks) and (context, continuation) pairs."""
    config = {**load_config(checkout, name), **more}
    holder["rows"] = Rows(rows)
    holder["pool"] = Rows(pool or rows)
    task = task_class(config={key: value for key, value in config.items() if key not in ("tag", "group")})
    task.set_fewshot_seed(seed)
    for doc in task.eval_docs:
        multiple = task.OUTPUT_TYPE == "multiple_choice"
        context = task.fewshot_context(doc, num_fewshot=shots)
        instances = task.construct_requests(doc, context, doc_id=0, metadata=(None, 0, 1))
        if task.OUTPUT_TYPE == "generate_until":
            yield "\x1d".join(task.doc_to_target(doc)), [(context, "")]
            continue
        if not isinstance(instances, list):
            instances = [instances]
        gold = -1
        if multiple:
            gold = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
            if isinstance(gold, str):
                gold = task.doc_to_choice(doc).index(gold)
        yield gold, [instance.args for instance in instances]


def digest(items):
    """The number of items and a hash of all requests. tests/tasks/parity_test.cpp hashes the same form."""
    out = hashlib.sha256()
    count = 0
    for gold, requests in items:
        for context, continuation in requests:
            out.update(f"{context}\x1f{continuation}\x1e".encode())
        out.update(f"{gold}\n".encode())
        count += 1
    return {"items": count, "sha256": out.hexdigest()}


holder = {}


def few_shot(task_class, checkout, data):
    """Yields one dict for each line of SHOTS and FIRST."""
    known = {line[2]: line for line in ROWS + FILES}

    def rows_at(file):
        return rows_of(os.path.join(HERE if file.startswith("rows/") else data, file), known[file][3])

    for shots, seed, file, pool in SHOTS:
        task, config, *_ = known[file]
        items = requests_of(task_class, checkout, config, rows_at(file), shots, seed, pool and rows_at(pool))
        yield {"task": task, "file": file, "shots": shots, "seed": seed, **({"pool": pool} if pool else {}),
               **digest(items)}
    for shots, file in FIRST:
        task, config, *_ = known[file]
        items = requests_of(task_class, checkout, config, rows_at(file), shots, fewshot_config={"sampler": "first_n"})
        yield {"task": task, "file": file, "shots": shots, "first": True, **digest(items)}


def main(checkout, data=None, old_checkout=None):
    task_class = import_harness(checkout, lambda *a, **k: {
        split: holder["pool" if split == "train" else "rows"] for split in ("train", "validation", "test")})
    out = []
    for folder, files in ((HERE, ROWS), (data, FILES)):
        for task, config, file, back in files if folder else []:
            path = os.path.join(folder, file)
            rows = rows_of(path, back)
            out.append({"task": task, "file": file, **digest(requests_of(task_class, checkout, config, rows))})
    out += few_shot(task_class, checkout, data) if data else []
    if old_checkout:
        rows = rows_of(os.path.join(HERE, "rows/race.jsonl"), None)
        old = requests_of(task_class, old_checkout, "race/race", rows)
        out.append({"task": "race@2.0", "file": "rows/race.jsonl", **digest(old)})
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
