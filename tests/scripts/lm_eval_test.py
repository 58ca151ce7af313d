"""The lm_eval line of an exported model's card, with the real lm-evaluation-harness on small task files: its scores are
`train_gpt eval`'s. Needs an environment with lm_eval: scripts/dev/package_check.sh lm_eval."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from gpt2_vocabulary_test import TEXT, Gpt2VocabularyTest  # noqa: E402

HELLASWAG = """
task: own_hellaswag
dataset_path: json
dataset_kwargs: {data_files: {validation: %s}}
output_type: multiple_choice
validation_split: validation
doc_to_text: "{{ctx}}"
doc_to_target: label
doc_to_choice: endings
metric_list: [{metric: acc}, {metric: acc_norm}]
"""
LAMBADA = """
task: own_lambada
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
output_type: loglikelihood
test_split: test
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
metric_list: [{metric: perplexity}, {metric: acc}]
"""


class LmEvalTest(Gpt2VocabularyTest):
    def test_the_cards_line_has_the_scores_of_eval(self):
        out, _ = self.trained()
        words = re.findall(r"[a-z]+", (TEXT / "GPL-3").read_text().lower())
        rows = [words[40 * i : 40 * i + 40] for i in range(60)]
        tasks = self.folder / "tasks"
        tasks.mkdir()
        endings = [[" ".join(row[20 + 5 * k : 25 + 5 * k]) for k in range(4)] for row in rows]
        self.write_lines(tasks / "hellaswag.jsonl", ({"ctx": " ".join(row[:20]), "endings": ends, "label": i % 4}
                                                     for i, (row, ends) in enumerate(zip(rows, endings))))
        self.write_lines(tasks / "lambada.jsonl", ({"text": " ".join(row[:15])} for row in rows))
        (tasks / "hellaswag.yaml").write_text(HELLASWAG % (tasks / "hellaswag.jsonl"))
        (tasks / "lambada.yaml").write_text(LAMBADA % (tasks / "lambada.jsonl"))
        ours = self.prints("eval", "--init-from", out, "--hellaswag", tasks / "hellaswag.jsonl", "--lambada",
                           tasks / "lambada.jsonl")
        theirs = self.lm_eval(out, tasks)
        for task, name, key in (("hellaswag", "acc", "acc,none"), ("hellaswag", "acc_norm", "acc_norm,none"),
                                ("lambada", "acc", "acc,none"), ("lambada", "perplexity", "perplexity,none")):
            found = float(re.search(rf"^{task} .*\b{name}:([\d.]+)", ours, re.M)[1])
            print(f"{task} {name}: eval {found}, lm_eval {theirs[f'own_{task}'][key]:.4f}")
            self.assertTrue(math.isclose(found, theirs[f"own_{task}"][key], rel_tol=1e-4, abs_tol=1e-4))

    def write_lines(self, path, objects):
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))

    def lm_eval(self, model, tasks):
        """Runs the command of the model card, with other tasks; returns its results by task."""
        exported = self.folder / "exported"
        self.prints("export", "--hf", exported, "--init-from", model)
        line = re.search(r"^lm_eval .*$", (exported / "README.md").read_text(), re.M)[0]
        words = line.replace("DIR", str(exported)).split()
        words[words.index("--tasks") + 1] = "own_hellaswag,own_lambada"
        results = self.folder / "results"
        environment = dict(os.environ, HF_HOME=str(self.folder / "cache"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                           OMP_NUM_THREADS="1", PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
        done = subprocess.run([*words, "--include_path", tasks, "--device", "cpu", "--output_path", results], env=environment,
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        file, = results.rglob("results_*.json")
        return json.loads(file.read_text())["results"]


def load_tests(loader, *_):
    return loader.loadTestsFromName("test_the_cards_line_has_the_scores_of_eval", LmEvalTest)


if __name__ == "__main__":
    unittest.main()
