#!/bin/sh
# SPDX-License-Identifier: MIT
# judge.sh BUILD SOURCE COMPILER JUDGE [--install]: runs a judge on the library of a build. JUDGE: `onnx` for the node tests of
# ONNX, `torch` for the samples of PyTorch's operators, `optimizers` for its optimizers and schedules,
# `training` for steps of the CNN and ResNet-20, `texts` for steps of networks for texts, `amplifier` for the model of
# examples/apps/amplifier in Neural Amp Modeler, `language` for SmolLM2 in transformers, `adapters` for adapters of it in PEFT, `blocks` for the types of GGUF files,
# `rules` for the tests of the judges' own rules. With --install the packages that it needs are installed in a virtual environment under BUILD. Exit code 77: skipped.
set -eu
build=$1 source=$2 compiler=$3 judge=$4
case $judge in
onnx) script=onnx_nodes.py packages='onnx numpy>=1.22 cffi>=1.15' modules='onnx, numpy, cffi' given=${COPSE_ONNX_PYTHON-} ;;
torch) script=torch_opinfo.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
optimizers) script=torch_optimizers.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
training) script=torch_training.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
texts) script=torch_texts.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
amplifier) script=nam_amplifier.py packages= modules='torch, nam.models' given=${COPSE_NAM_PYTHON-} ;;
language) script=language_models.py packages= modules='torch, transformers, tokenizers, gguf, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
adapters) script=language_adapters.py packages= modules='torch, transformers, tokenizers, gguf, peft, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
blocks) script=gguf_blocks.py packages='gguf numpy' modules='gguf, numpy' given=${COPSE_LANGUAGE_PYTHON-} ;;
rules) script=test_judge.py packages= modules='numpy, cffi' given= ;;
*) echo "unknown judge: $judge" >&2; exit 2 ;;
esac
work=$build/tests/judge_$judge
if [ "${5-}" = --install ] && [ -n "$packages" ]; then
    log=$build/tests/judge_$judge.log
    { python3 -m venv "$work.venv" && "$work.venv/bin/pip" install -q $packages; } >"$log" 2>&1 || {
        echo "skipped: $packages cannot be installed: $(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-200)"
        exit 77
    }
    given=$work.venv/bin/python
fi
python=
for each in ${given:-python3 /usr/bin/python3}; do
    "$each" -c "import $modules" 2>/dev/null && python=$each && break
done
[ -n "$python" ] || {
    echo "skipped: no Python (${given:-python3, /usr/bin/python3}) with the modules $modules; ./check --full installs them"
    exit 77
}
[ "$judge" != amplifier ] || exec "$python" "$source/tests/judges/$script" "$build/examples/apps/amplifier"
[ "$judge" != blocks ] || exec "$python" "$source/tests/judges/$script" "$source/tests/state/test_gguf.c"
export COPSE_JUDGE_TEXT="${COPSE_JUDGE_TEXT-$source/docs/text.md}"
export COPSE_DIGITS="$source/examples/data/digits/digits.csv.gz"
. "$source/tests/tree/stage_python.sh"
stage_python "$build" "$source" "$compiler" "$work" "$python"
exec "$python" "$source/tests/judges/$script"
