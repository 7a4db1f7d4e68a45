# SPDX-License-Identifier: MIT
"""Language models and their adapters: the small model of tests/language."""
import os
import subprocess
import unittest

import numpy as np

import copse
from rig import SOME_DEVICES, InFolder

TEXT = "the hen sings.\nthe owl sleeps.\nhello fox, hello cat!\n" * 30


@unittest.skipUnless(os.path.exists(os.environ.get("COPSE_MAKE_LANGUAGE", "")), "no program make_language in this build")
class Languages(InFolder):
    def model(self, device="host:0"):
        subprocess.run([os.environ["COPSE_MAKE_LANGUAGE"], "model.gguf"], check=True)
        return copse.LanguageModel(copse.Strategy(device), "model.gguf")

    def test_an_adapter_is_trained_saved_and_loaded(self):
        for device in SOME_DEVICES + ["host:0,host:0"]:
            model = self.model(device)
            before = model.evaluate(TEXT, 16)
            model.adapt(3, dropout=0.1, targets=["q_proj", "*.mlp.*"], seed=2)
            self.assertEqual(model.evaluate(TEXT, 16), before)
            windows = model.windows(TEXT, 16)
            trainer = copse.Trainer(model.strategy, model, learning_rate=0.02)
            trainer.fit(windows, 2, verbose=0)
            after = model.evaluate(windows)
            self.assertLess(after.loss, before.loss - 1)
            self.assertAlmostEqual(after.perplexity, np.exp(after.loss))
            for path in "adapter", "adapter.safetensors", "adapter.gguf":
                model.save_adapter(path)
                other = self.model(device)
                other.load_adapter(path)
                self.assertAlmostEqual(other.evaluate(windows).loss, after.loss, 5)
            model.save_merged("merged.gguf", "float32")
            merged = copse.LanguageModel(copse.Strategy(device), "merged.gguf")
            self.assertAlmostEqual(merged.evaluate(windows).loss, after.loss, 5)
            other = self.model(device)
            other.load_adapters({"adapter": 0.25, "adapter.gguf": 0.75})
            self.assertAlmostEqual(other.evaluate(windows).loss, after.loss, 5)

    def test_dora(self):
        model = self.model()
        before = model.evaluate(TEXT, 16).loss
        model.adapt(2, dora=True)
        windows = model.windows(TEXT, 16)
        copse.Trainer(model.strategy, model, learning_rate=0.02).fit(windows, 1, verbose=0)
        after = model.evaluate(TEXT, 16).loss
        self.assertLess(after, before - 0.5)
        model.save_adapter("dora")
        model.save_merged("merged.gguf")
        merged = copse.LanguageModel(copse.Strategy("host:0"), "merged.gguf")
        self.assertAlmostEqual(merged.evaluate(TEXT, 16).loss, after, 5)
        with self.assertRaisesRegex(copse.errors.UnsupportedError, "cannot hold DoRA"):
            model.save_adapter("dora.gguf")

    def test_texts(self):
        model = self.model()
        self.assertEqual((model.architecture, model.chat_form, model.vocabulary), ("llama", "chatml", 260))
        self.assertEqual(model.tokens("hello"), [259, ord("l"), ord("o")])
        self.assertIn("<|im_start|>user\nWhy?<|im_end|>\n", model.chat("Why?", "Be brief."))
        self.assertEqual(model.generate("the", 5, temperature=0), model.generate("the", 5, temperature=0, seed=9))
        self.assertIsInstance(model.generate(b"the", 3), bytes)

    def test_conversations(self):
        model = self.model()
        lines = [{"prompt": "Who?", "answer": "hello"}, {"messages": [{"role": "user", "content": "a"},
                                                                      {"role": "assistant", "content": "b"}]}]
        self.assertEqual(model.evaluate(model.conversations(lines)).tokens, 4 + 2)  # hel l o, b, and the marks
        with self.assertRaisesRegex(copse.errors.FormatError, "line 1: neither a list"):
            model.conversations('{"prompt": "a"}')

    def test_errors(self):
        model = self.model()
        with self.assertRaisesRegex(copse.errors.ArgumentError, "a rank of 0"):
            model.adapt(0)
        with self.assertRaisesRegex(copse.errors.ArgumentError, '"lm_head" fits no weight'):
            model.adapt(2, targets="lm_head")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "has none to save"):
            model.save_adapter("adapter")
        with self.assertRaisesRegex(copse.errors.ArgumentError, "has no adapter"):
            model.save_merged("merged.gguf")
        with self.assertRaisesRegex(ValueError, "dtype 'int8'"):
            model.save_merged("merged.gguf", "int8")
        with self.assertRaises(copse.errors.Error):
            model.load_adapter("missing")


if __name__ == "__main__":
    unittest.main()
