"""Plants breaches in a small copy of the tree and expects each to be found, and nothing else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "dev" / "check_layers.py"

CLEAN = {
    "src/base/error.h": "#pragma once\n#include <string>\n",
    "src/config/parse.cpp": '#include "base/error.h"\nauto v = std::getenv("SEED");\n',
    "src/config/environment.cpp": 'void f() { ::setenv("A", "1", 0); }\n',
    "src/data/shard.h": '#include "base/error.h"\n#include "config/settings.h"\n',
    "src/data/CMakeLists.txt": "train_gpt_layer(data LINK base config)\n",
    "src/data/feeder.h": "#include <ATen/ATen.h>\n",
    "src/ops/rope.h": "#include <ATen/ATen.h>\n// like getenv() or x.item(), but in a comment\n",
    "src/ops/rope.cpp": '#include "rope.h"\nauto s = "getenv(x).item()";\n',
    "src/eval/scores/score.cpp": "double f() { return loss.item<double>(); }\n",
    "src/main.cpp": '#include "train/trainer.h"\nint main(int, char**, char** envp) {}\n',
}


class CheckLayers(unittest.TestCase):
    def run_on(self, **planted):
        """Output and exit status for the clean tree with the planted files laid over it."""
        files = dict(CLEAN, **{f"src/{name}": text for name, text in planted.items()})
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run(
                [sys.executable, SCRIPT, root], stdout=subprocess.PIPE, text=True, check=False
            )
        return done.stdout.splitlines()[:-1], done.returncode

    def expect_breach(self, where, what, **planted):
        breaches, status = self.run_on(**planted)
        self.assertEqual(1, status)
        self.assertEqual(1, len(breaches), breaches)
        self.assertTrue(breaches[0].startswith(where), breaches[0])
        self.assertIn(what, breaches[0])

    def test_clean_tree_passes(self):
        self.assertEqual(([], 0), self.run_on())

    def test_include_to_the_right(self):
        self.expect_breach(
            "src/data/feed.cpp:2:",
            "model/ comes after data/",
            **{"data/feed.cpp": '\n#include "model/gpt.h"\n'},
        )

    def test_include_to_the_right_in_angle_brackets(self):
        self.expect_breach(
            "src/base/log.cpp:1:", "config/", **{"base/log.cpp": "#include <config/settings.h>\n"}
        )

    def test_include_to_the_right_by_a_relative_path(self):
        self.expect_breach(
            "src/ops/a.cpp:1:",
            "eval/ comes after ops/",
            **{"ops/a.cpp": '#include "../eval/b.h"\n', "eval/b.h": ""},
        )

    def test_include_of_a_program(self):
        self.expect_breach(
            "src/ops/a.cpp:1:", "programs", **{"ops/a.cpp": '#include "a.h"\n', "a.h": ""}
        )

    def test_torch_where_it_is_not_wanted(self):
        self.expect_breach(
            "src/data/a.cpp:1:", "LibTorch", **{"data/a.cpp": "#include <torch/types.h>\n"}
        )

    def test_link_of_libtorch_where_it_is_not_wanted(self):
        """Nothing there says its name: it comes with what the report links, and with what that links."""
        self.expect_breach(
            "src/report/CMakeLists.txt:",
            "report > weights > device > torch",
            **{
                "report/page.h": '#include "weights/zip.h"\n',
                "report/CMakeLists.txt": "train_gpt_layer(report LINK weights)\n",
                "weights/zip.h": "",
                "weights/CMakeLists.txt": "target_link_libraries(weights PRIVATE device)\n",
                "device/CMakeLists.txt": "train_gpt_layer(device TORCH ONLY a.cpp)\n",
            },
        )

    def test_link_of_libtorch_by_its_own_targets(self):
        for link in (
            "train_gpt_layer(data TORCH LINK base config)",
            "train_gpt_layer(data LINK base config torch::cpu)",
            "train_gpt_layer(data LINK base config)\ntarget_link_libraries(data\n  PUBLIC torch::cuda)",
            "train_gpt_layer(data LINK base config)\ntrain_gpt_use_torch(data torch_pch)",
        ):
            self.expect_breach(
                "src/data/CMakeLists.txt:", "data > torch", **{"data/CMakeLists.txt": link + "\n"}
            )

    def test_environment_read_elsewhere(self):
        self.expect_breach(
            "src/main.cpp:1:", "environment", **{"main.cpp": 'auto v = getenv("SEED");\n'}
        )
        self.expect_breach(
            "src/model/a.cpp:1:", "environment", **{"model/a.cpp": "extern char** environ;\n"}
        )

    def test_environment_changed_elsewhere(self):
        for call in ('::setenv("A", "1", 0)', "putenv(text)", 'unsetenv("A")', "clearenv()"):
            self.expect_breach(
                "src/comm/a.cpp:1:",
                "changes the environment",
                **{"comm/a.cpp": f"void f() {{ {call}; }}\n"},
            )

    def test_hidden_synchronisation(self):
        for call in ("x.item()", "x.item<float>()", "x->item()", "x.template item<T>()"):
            self.expect_breach(
                "src/train/trainer.cpp:1:",
                ".item()",
                **{"train/trainer.cpp": f"auto v = {call};\n"},
            )

    def test_torch_in_a_kernel(self):
        for name in ("norm/sum.cu", "gemm/hopper/tile.cuh", "norm/sum_kernel.h", "mlp/mlp_hopper.h"):
            self.expect_breach(
                f"src/ops/{name}:1:", "kernels", **{f"ops/{name}": "#include <ATen/ATen.h>\n"}
            )

    def test_link_of_what_is_not_included(self):
        self.expect_breach(
            "src/data/CMakeLists.txt:",
            "data links ops",
            **{"data/CMakeLists.txt": "train_gpt_layer(data LINK\n  base config ops)\n"},
        )

    def test_include_of_what_is_not_linked(self):
        self.expect_breach(
            "src/data/CMakeLists.txt:",
            "data does not link base, which src/data/shard.h includes",
            **{"data/CMakeLists.txt": "train_gpt_layer(data LINK config fmt)\n"},
        )

    def test_library_beside_its_layer(self):
        self.expect_breach(
            "src/eval/CMakeLists.txt:",
            "eval does not link feeder, which src/eval/scores/score.h includes",
            **{
                "eval/CMakeLists.txt": "train_gpt_layer(eval TORCH LINK data)\n",
                "eval/scores/score.h": '#include "data/feeder.h"\n#include "data/shard.h"\n',
            },
        )

    def test_circle_within_a_layer(self):
        norm = '#include "ops/rope.h"\n#include "ops/mlp/mlp.h"\n'
        breaches, status = self.run_on(
            **{"ops/norm/norm.h": norm, "ops/mlp/mlp.h": '#include "ops/norm/norm.h"\n'},
            **{"ops/norm/sum.h": '#include "ops/rope.h"\n', "model/block.h": '#include "ops/mlp/mlp.h"\n'},
        )
        self.assertEqual(1, status)
        self.assertEqual(2, len(breaches), breaches)
        for breach, file in zip(breaches, ("src/ops/mlp/mlp.h", "src/ops/norm/norm.h")):
            self.assertTrue(breach.startswith(file) and "circle" in breach, breach)

    def test_unknown_folder(self):
        self.expect_breach("src/utils/:", "no such layer", **{"utils/a.h": ""})


if __name__ == "__main__":
    unittest.main()
