#!/usr/bin/python3
"""Judges generated answers with the harnesses' own code. tests/tasks/answers_test.cpp compares with its output.

    answer_rules.py LM_EVAL_CHECKOUT OPENCOMPASS_CHECKOUT > answer_rules.json

The answers are made up. The harnesses decide which answers are right.
"""

import json
import sys

from lm_eval_requests import import_harness
from opencompass_requests import import_opencompass

KNOWN = [["Penguin", "The penguin"], ["14 December 1972 UTC", "December 1972"], ["a Scottish surname"],
         ["\u00c9mile Zola"], ["Dr. No"], ["the"], ["St. John's, Newfoundland"], ["A-ha"], ["x_1 y"]]
SAID = ["penguin", " The Penguin ", "the answer is the penguin.", "A penguin, or two", "December 1972",
        "The answer is: 14 December  1972 UTC\nno", "\n a scottish surname", "Scottish surname", "a the penguin",
        "\u00e9mile zola", "Answer: Dr. No", "dr no", "", "the", "banana", "st johns", "St. John's, Newfoundland",
        "A: aha", "a-ha!", "another penguin", "the  penguin", "X_1 y", "an a the penguin", "Data: penguin a: fox"]


def main(lm_eval, opencompass):
    import_harness(lm_eval, None)
    from lm_eval.api.metrics import exact_match_hf_evaluate
    from lm_eval.tasks._yaml_loader import load_yaml
    import_opencompass(opencompass)
    from opencompass.datasets import NQEvaluator, TriviaQAEvaluator

    def exact(task):
        metric, = load_yaml(f"{lm_eval}/lm_eval/tasks/{task}.yaml")["metric_list"]
        ignored = {key: value for key, value in metric.items() if "ignore" in key}

        def judge(said, known):  # the harness strips the answer; one match is enough
            said = said.strip()
            return bool(exact_match_hf_evaluate([said] * len(known), known, **ignored)["exact_match"] > 0)
        return judge

    def contains(evaluator):
        return lambda said, known: evaluator().score([said], [known])["score"] > 0

    rules = {"exact": exact("triviaqa/default"), "exact-no-articles": exact("nq_open/nq_open"),
             "contains-nq": contains(NQEvaluator), "contains-triviaqa": contains(TriviaQAEvaluator)}
    # For each rule and list of known answers: a string with a digit for each answer of SAID, 1 if it is right.
    right = {rule: ["".join("01"[judge(said, known)] for said in SAID) for known in KNOWN]
             for rule, judge in rules.items()}
    print(json.dumps({"known": KNOWN, "said": SAID, "right": right}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
