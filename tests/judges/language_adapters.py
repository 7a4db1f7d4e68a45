# SPDX-License-Identifier: MIT
"""language_adapters.py: adapters of SmolLM2-135M-Instruct (see language_reference.py) beside PEFT on transformers.

1. The gradients of the first step of an adapter with random A and B: of each matrix the norm of the difference is at most 1e-3
   of the norm of PyTorch's gradient. The losses differ by at most 1e-5 of their size.
2. PEFT reads the folder that Copse writes, and gives the same loss.
3. Copse reads the folder that PEFT writes, with rank-stabilised scale and some of the weights, and gives the same loss.
4. The package gguf reads the GGUF file of the model that Copse has merged with the adapter of 1, with the keys of SmolLM2's file
   but general.file_type, and its weights give the same loss.
5. The same of small models with random weights, with and without DoRA, whatever SmolLM2 does; and transformers reads the folder of
   a model that Copse has merged with the adapter, and gives the same loss.

COPSE_JUDGE_DEVICE names the device [opencl:0]. Exit code 0; 1; 77: skipped."""
import os
import sys
import tempfile

from language_folders import CAPPED, SIGHTS, hf, save, smollm
from language_file import find_model
from language_reference import gguf, np, reference, torch

try:
    from peft import LoraConfig, PeftModel, get_peft_model
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with peft in COPSE_LANGUAGE_PYTHON")
    sys.exit(77)

from copse._library import check, ffi, lib, make
from copse.devices import context

RANK, WINDOW, BOUND = 8, 128, 1e-3
SMALL = [("Llama", {}), ("Gemma2", CAPPED), ("Gemma3", {"head_dim": 256, "sliding_window": 16, "layer_types": SIGHTS})]


def new_strategy():
    return make("strategy", lib.copse_one_device_create, context(), os.environ.get("COPSE_JUDGE_DEVICE", "opencl:0").encode(),
                ffi.NULL)


def matrices(strategy):
    """The variables of the adapter by PEFT's names."""
    variables, count = ffi.new("copse_variable *const **"), ffi.new("size_t *")
    lib.copse_strategy_variables(strategy, variables, count)
    all_of = {ffi.string(lib.copse_variable_name(v)).decode(): v for v in variables[0][0:count[0]]}
    return {name: v for name, v in all_of.items() if ".lora_" in name}


def read(variable):
    shape = lib.copse_variable_shape(variable)
    values = np.empty(list(shape.dims[0:shape.rank]), np.float32)
    check(lib.copse_variable_read(variable, 0, ffi.from_buffer(values)))
    return values


def windows(language, text):
    data = text.encode()
    return make("dataset", lib.copse_language_windows, language, ffi.from_buffer(data), len(data), WINDOW)


def gather(dataset, column, row):
    values, at = np.empty(WINDOW, np.int32), ffi.new("uint32_t *", row)
    check(lib.copse_dataset_gather(dataset, column, at, 1, ffi.from_buffer(values)))
    return values


def loss_of(language, dataset):
    result = ffi.new("struct copse_language_evaluation *")
    check(lib.copse_language_evaluate_windows(language, dataset, result))
    return result.loss


def torch_loss(model, x, y):
    outputs = model(torch.from_numpy(x)[None].long()).logits[0]
    return torch.nn.functional.cross_entropy(outputs, torch.from_numpy(y).long(), ignore_index=-1)


def step_gradients(strategy, language, x, y):
    """The loss of a step, and what it subtracts at rate 1."""
    before = {name: read(v) for name, v in matrices(strategy).items()}
    params = ffi.new("struct copse_trainer_params *", {"loss": ffi.addressof(lib, "copse_language_loss"), "user": language,
                                                       "optimizer": {"kind": lib.COPSE_SGD, "learning_rate": 1.0}})
    trainer = make("trainer", lib.copse_trainer_create, strategy, params)
    names = [ffi.new("char[]", b"x"), ffi.new("char[]", b"y")]
    columns = ffi.new("struct copse_column[2]", [
        {"name": n, "type": lib.COPSE_I32, "shape": {"rank": 1, "dims": [WINDOW]}, "data": ffi.from_buffer(v)}
        for n, v in zip(names, (x, y))])
    batch = ffi.new("struct copse_host_batch *", {"columns": columns, "column_count": 2, "count": 1})
    result = ffi.new("struct copse_step_result *")
    check(lib.copse_trainer_step(trainer, batch))
    check(lib.copse_trainer_result(trainer, True, result))
    return result.loss, {name: before[name].astype(np.float64) - read(v) for name, v in matrices(strategy).items()}


def gradients_differ(strategy, language, peft, x, y):
    failed, worst = 0, 0.0
    mine, gradients = step_gradients(strategy, language, x, y)
    loss = torch_loss(peft, x, y)
    loss.backward()
    theirs = {name.replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector"): p.grad.double().numpy()
              for name, p in peft.named_parameters() if p.requires_grad}
    assert sorted(theirs) == sorted(gradients), (sorted(theirs)[:3], sorted(gradients)[:3])
    for name, gradient in theirs.items():
        apart = np.linalg.norm(gradients[name] - gradient) / np.linalg.norm(gradient)
        worst = max(worst, apart)
        if not apart <= BOUND:
            print(f"gradient of {name}: {apart:.2g} apart")
            failed += 1
    apart = abs(mine / loss.item() - 1)
    print(f"gradients: {len(theirs)} matrices, at most {worst:.1e} apart; loss {mine:.7f}, PyTorch {loss.item():.7f}, "
          f"{apart:.1e} apart")
    return failed + (not apart <= 1e-5)


def losses_differ(what, mine, theirs):
    apart = abs(mine / theirs - 1)
    print(f"{what}: loss {mine:.7f}, PEFT {theirs:.7f}, {apart:.1e} apart")
    return not apart <= 1e-5


def keys_differ(first, second):
    """Of two GGUF files; all but the type of most tensors, which is f32 in the second."""
    before, after = ({name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()} for path in (first, second))
    others = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and name[:4] != "GGUF")
    print(f"keys of the merged file that differ: {', '.join(others) or 'none'}; general.file_type {after['general.file_type']}")
    return others != ["general.file_type"] or after["general.file_type"] != gguf.LlamaFileType.ALL_F32


def opened(path):
    strategy = new_strategy()
    return strategy, make("language", lib.copse_language_open, strategy, path.encode(), ffi.NULL)


def one_window(x, y):
    return make("dataset", lib.copse_dataset_columns, context(), ffi.new("struct copse_column[2]", [
        {"name": n, "type": lib.COPSE_I32, "shape": {"rank": 1, "dims": [WINDOW]}, "data": ffi.from_buffer(v)}
        for n, v in ((NAMES[0], x), (NAMES[1], y))]), 2, 1)


def small_differs(text, kind, settings, dora):
    """Of a small model with random weights that transformers saved."""
    what, failed, model_of = f"{kind}, {'DoRA' if dora else 'LoRA'}", 0, getattr(hf, kind + "ForCausalLM")
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryDirectory() as theirs, tempfile.TemporaryDirectory() as mine:
        model = save(base, kind, smollm(text), settings, {})
        peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=6, use_dora=dora, init_lora_weights=False, task_type="CAUSAL_LM",
                                                target_modules=["q_proj", "v_proj", "layers.1.mlp.down_proj"]))
        for name, p in peft.named_parameters():
            if "magnitude" in name:
                p.data *= 1 + 0.3 * torch.randn_like(p)
        peft.save_pretrained(theirs)
        strategy, language = opened(base)
        check(lib.copse_language_load_adapter(language, theirs.encode()))
        data = windows(language, text)
        x, y = gather(data, b"x", 0), gather(data, b"y", 0)
        first, merged = one_window(x, y), os.path.join(mine, "merged")
        with torch.no_grad():
            loss = torch_loss(peft, x, y).item()
        failed += losses_differ(f"{what} of PEFT, a small model", loss_of(language, first), loss)
        check(lib.copse_language_save_merged(language, merged.encode(), ffi.NULL, ffi.NULL))
        with torch.no_grad():
            again = torch_loss(model_of.from_pretrained(merged, attn_implementation="eager").float().eval(), x, y).item()
        failed += losses_differ(f"{what}, merged by Copse, in transformers", loss, again)
        adapter = os.path.join(mine, "adapter")
        check(lib.copse_language_save_adapter(language, adapter.encode()))
        other = model_of.from_pretrained(base, attn_implementation="eager").float().eval()
        with torch.no_grad():
            again = torch_loss(PeftModel.from_pretrained(other, adapter), x, y).item()
        failed += losses_differ(f"{what} of Copse, a small model", loss, again)
        failed += gradients_differ(strategy, language, peft, x, y)
    return failed


def main():
    with open(os.environ["COPSE_JUDGE_TEXT"], encoding="utf-8") as f:
        text = f.read()[:2000]
    torch.manual_seed(4)
    if sum(small_differs(text, kind, settings, dora) for kind, settings in SMALL for dora in (False, True)) > 0:
        return 1
    path, rng = find_model(), np.random.default_rng(5)
    model, _ = reference(path)
    strategy, language = opened(path)
    check(lib.copse_language_adapt(language, ffi.new("struct copse_adapter_params *", {"rank": RANK, "seed": 3})))
    for name, v in matrices(strategy).items():
        if ".lora_B." in name:
            values = (0.02 * rng.standard_normal(read(v).shape)).astype(np.float32)
            check(lib.copse_variable_assign(v, ffi.from_buffer(values)))
    data = windows(language, text)
    x, y = gather(data, b"x", 0), gather(data, b"y", 0)
    with tempfile.TemporaryDirectory() as folder:
        check(lib.copse_language_save_adapter(language, folder.encode()))
        peft = PeftModel.from_pretrained(model, folder, is_trainable=True)
        first = one_window(x, y)
        with torch.no_grad():
            failed = losses_differ("an adapter of Copse", loss_of(language, first), torch_loss(peft, x, y).item())
        failed += gradients_differ(strategy, language, peft, x, y)
        merged = os.path.join(folder, "merged.gguf")
        check(lib.copse_language_save_merged(language, merged.encode(), ffi.NULL, ffi.NULL))
        failed += keys_differ(path, merged)
        with torch.no_grad():
            loss = torch_loss(reference(merged)[0], x, y).item()
        failed += losses_differ("merged by Copse, read by gguf", loss_of(language, first), loss)
    with tempfile.TemporaryDirectory() as folder:
        model, _ = reference(path)
        torch.manual_seed(2)
        peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "layers.3.mlp.up_proj"],
                                                init_lora_weights=False, task_type="CAUSAL_LM"))
        peft.save_pretrained(folder)
        strategy, language = opened(path)
        check(lib.copse_language_load_adapter(language, folder.encode()))
        with torch.no_grad():
            failed += losses_differ("an adapter of PEFT", loss_of(language, first), torch_loss(peft.eval(), x, y).item())
    return failed > 0


NAMES = [ffi.new("char[]", b"x"), ffi.new("char[]", b"y")]
sys.exit(main())
