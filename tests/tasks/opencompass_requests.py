#!/usr/bin/python3
"""Makes the texts of OpenCompass's tasks with its own code: readers, templates, and the parser that joins turns for a
model without a meta template. For each task and file, it prints the number of items and a SHA-256 of all texts. Tests
compare with this output.

    opencompass_requests.py CHECKOUT [DATA] > opencompass_requests.json

CHECKOUT is a clone of open-compass/opencompass. DATA is a folder with the files of FILES. Stubs replace the code's
imports of other packages. The functions below convert rows to the forms that OpenCompass's readers take.
"""

import csv
import hashlib
import importlib
import json
import os
import re
import runpy
import sys
import tempfile
import types

from lm_eval_requests import Rows, Stub, arc, arc_request, boolq, read, winogrande

HERE = os.path.dirname(os.path.abspath(__file__))
READERS = {"ARCDataset": "arc", "OBQADataset": "obqa", "HellaswagDataset": "hellaswag", "BoolQDataset": "boolq",
           "WinograndeDataset": "winogrande", "HFDataset": "huggingface",
           "NaturalQuestionDataset": "natural_question", "NQEvaluator": "natural_question",
           "TriviaQADataset": "triviaqa", "TriviaQAEvaluator": "triviaqa"}


class Readers(types.ModuleType):
    """The package opencompass.datasets. It runs only the file of a requested reader."""

    def __getattr__(self, name):
        if name not in READERS:
            raise AttributeError(name)
        return getattr(importlib.import_module("opencompass.datasets." + READERS[name]), name)


def package(name, path, kind=types.ModuleType):
    sys.modules[name] = kind(name)
    sys.modules[name].__path__ = [path]


def import_opencompass(checkout):
    for name in ("mmengine", "mmengine.config", "datasets", "torch", "opencompass.registry",
                 "opencompass.openicl.icl_retriever", "opencompass.openicl.icl_inferencer",
                 "opencompass.openicl.icl_evaluator", "opencompass.datasets.base"):
        sys.modules[name] = Stub(name)
    root = os.path.join(checkout, "opencompass")
    for name in ("", ".utils", ".openicl", ".models"):
        package("opencompass" + name, os.path.join(root, name[1:]))
    package("opencompass.datasets", os.path.join(root, "datasets"), Readers)
    sys.modules["opencompass.utils"].get_data_path = lambda path, **_: path
    registry = sys.modules["opencompass.registry"]
    known = types.SimpleNamespace(
        register_module=lambda *a, **k: (lambda thing: thing))
    for name in ("LOAD_DATASET", "ICL_PROMPT_TEMPLATES", "ICL_EVALUATORS", "TEXT_POSTPROCESSORS"):
        setattr(registry, name, known)
    sys.modules["datasets"].Dataset = type("Dataset", (), {"from_list": Rows})
    sys.modules["datasets"].DatasetDict = dict
    sys.modules["datasets"].load_dataset = lambda path=None, data_files=None, **_: Rows(read(data_files))


def ai2(row):
    choices = [{"text": text, "label": label} for text, label in zip(row["choices"]["text"], row["choices"]["label"])]
    return {"question": {"stem": row["question"], "choices": choices}, "answerKey": row["answerKey"]}


def arc_rows(rows):
    return [ai2(arc(row)) for row in rows]


def arc_request_rows(rows):
    return [ai2(row) for row in arc_request(rows)]


def obqa_rows(rows):
    return [ai2({**arc({**row, "query": ""}), "question": row["query"]}) for row in rows]


def clean(text):
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def hellaswag_rows(rows):
    """Converts the authors' rows as lm-eval does. OpenCompass's reader takes rows in this form."""
    return [{"query": clean(f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"),
             "choices": [clean(ending) for ending in row["endings"]], "gold": int(row["label"])} for row in rows]


def boolq_rows(rows):
    return [{**row, "label": "true" if row["label"] else "false"}
            for row in (row if "passage" in row else boolq(row) for row in rows)]


def winogrande_rows(rows):
    return [row if "sentence" in row else winogrande(row) for row in rows]


def as_they_are(rows):
    return rows


ARC_E, ARC_C = "ARC_e/ARC_e_ppl_a450bd.py", "ARC_c/ARC_c_ppl_a450bd.py"
OBQA, WINOGRANDE = "obqa/obqa_ppl_c7c154.py", "winogrande/winogrande_ll_c5cf57.py"
HELLASWAG, BOOLQ = "hellaswag/hellaswag_ppl_47bff9.py", "SuperGLUE_BoolQ/SuperGLUE_BoolQ_ppl_314b96.py"
# Task, configuration, index of the data set in it, file, and the function that converts rows to the reader's form.
FILES = [
    ("arc_easy", ARC_E, 0, "arc_easy.jsonl", arc_rows),
    ("arc_easy", ARC_E, 0, "requests/arc_easy_val_rc_0shot.jsonl.gz", arc_request_rows),
    ("arc_challenge", ARC_C, 0, "arc_challenge.jsonl", arc_rows),
    ("openbookqa", OBQA, 0, "openbook_qa.jsonl", obqa_rows),
    ("hellaswag", HELLASWAG, 0, "hellaswag_val.jsonl.gz", hellaswag_rows),
    ("boolq", BOOLQ, 0, "boolq.jsonl.gz", boolq_rows),
    ("winogrande", WINOGRANDE, 0, "winogrande.jsonl", winogrande_rows),
    ("nq_open", "nq/nq_gen_c788f6.py", 0, "nq_open_dev.jsonl", as_they_are),
]
ROWS = [
    ("copa", "SuperGLUE_COPA/SuperGLUE_COPA_ppl_9f3618.py", 0, "rows/copa.jsonl", as_they_are),
    ("openbookqa_fact", OBQA, 1, "rows/openbookqa_fact.jsonl", as_they_are),
    ("winogrande", WINOGRANDE, 0, "rows/winogrande.jsonl", winogrande_rows),
    ("boolq", BOOLQ, 0, "rows/boolq.jsonl", boolq_rows),
    ("hellaswag", HELLASWAG, 0, "rows/hellaswag.jsonl", hellaswag_rows),
    ("triviaqa", "triviaqa/triviaqa_gen_2121ce.py", 0, "rows/triviaqa.jsonl", as_they_are),
]


def load_rows(dataset, rows):
    """Returns the rows as the data set's own reader reads them."""
    split = {"natural_question": "test", "triviaqa": "dev"}.get(READERS[dataset["type"].__name__])
    with tempfile.TemporaryDirectory() as folder:
        if split:  # these readers take tables of questions and Python lists of answers
            for name in ("nq-dev", "nq-test", "trivia-dev", "trivia-test"):
                with open(os.path.join(folder, name + ".qa.csv"), "w", encoding="utf-8", newline="") as file:
                    csv.writer(file, delimiter="\t").writerows((row["question"], repr(row["answer"])) for row in rows)
            return dataset["type"].load(folder)[split]
        path = os.path.join(folder, "dev.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        reader = dataset["type"].load
        if "data_files" in dataset:
            return reader(path="json", data_files=path)
        whole = folder if READERS[dataset["type"].__name__] == "winogrande" else path
        names = {"name": dataset["name"]} if "name" in dataset else {}
        return reader(path=whole, **names)


def items_of(checkout, config, which, rows):
    from opencompass.models.base import LMTemplateParser
    configs = runpy.run_path(os.path.join(checkout, "opencompass/configs/datasets", config))
    dataset = next(value for key, value in configs.items() if key.endswith("_datasets"))[which]
    template = dict(dataset["infer_cfg"]["prompt_template"])
    template = template.pop("type")(**template)
    if "round" in template.template:  # a task with generated answers
        for row in load_rows(dataset, rows):
            yield "\x1d".join(row["answer"]), [LMTemplateParser().parse_template(template.generate_item(row), "gen")]
        return
    labels = [str(label) for label in template.template]
    for row in load_rows(dataset, rows):
        texts = [LMTemplateParser().parse_template(template.generate_label_prompt_item(row, "", label), "ppl")
                 for label in template.template]
        rest = "\x1f" + row["cont"] if "cont" in row else ""
        yield labels.index(str(row[dataset["reader_cfg"]["output_column"]])), [text + rest for text in texts]


def digest(items):
    """The number of items and a hash of all texts. tests/tasks/parity_test.cpp hashes the same form."""
    out, count = hashlib.sha256(), 0
    for gold, texts in items:
        out.update("".join(text + "\x1e" for text in texts).encode() + f"{gold}\n".encode())
        count += 1
    return {"items": count, "sha256": out.hexdigest()}


def main(checkout, data=None):
    import_opencompass(checkout)
    out = []
    for folder, files in ((HERE, ROWS), (data, FILES)):
        for task, config, which, file, form in files if folder else []:
            rows = form(read(os.path.join(folder, file)))
            out.append({"task": task, "file": file, **digest(items_of(checkout, config, which, rows))})
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
