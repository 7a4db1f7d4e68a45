#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles every kernel as OpenCL C, down to assembly, for a GPU that is not in the machine: NVIDIA's
# (sm_*) and AMD's (gfx*) with clang and libclc, Intel's with ocloc. Fails when one does not compile,
# calls what no library has, or keeps registers in memory. Without the compiler it skips.
# Without COPSE_TEST_ALL every fourth kernel is compiled, from another one on for each target.
# usage: offline_opencl.sh TARGET FOLDER-OF-GENERATED-KERNELS
set -u
target=$1
gen=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
options='-x cl -cl-std=CL1.2 -O3 -S -Xclang -finclude-default-header'

skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

# Sets `compiler`: a clang and a libclc that it can read, since bitcode is tied to versions.
find_clang() {
    case $target in
    sm_*) triple=nvptx64--nvidiacl cpu="-Xclang -target-cpu -Xclang $target" ;;
    *) triple=amdgcn--amdhsa cpu="-mcpu=$target -nogpulib" ;;
    esac
    printf 'kernel void f(global float *x) { x[get_global_id(0)] = sqrt(x[0]); }\n' >"$work/f.cl"
    for library in /usr/lib/clc/$triple.bc /usr/share/clc/$triple.bc \
        /usr/lib/llvm-*/lib/clc/$triple.bc /usr/lib/llvm-*/share/clc/$triple.bc; do
        [ -f "$library" ] || continue
        for clang in clang clang-22 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
            compiler="$clang -target $triple $cpu $options -Xclang -mlink-builtin-bitcode"
            compiler="$compiler -Xclang $library"
            $compiler -o "$work/f.s" "$work/f.cl" 2>/dev/null && return
        done
    done
    skip "no clang here makes $target with a libclc it can read: install the Debian packages" \
        "clang-15 and libclc-15, or a newer pair for sm_90, gfx1150 and gfx1201"
}

# The values of a kernel's constants: what a GPU is given where it costs most.
constants() {
    sed -n 's/^SPEC(\([0-5]\), *\([A-Z_]*\)).*/\1 \2/p' "$1" | while read -r i name; do
        case $name in
        PER) value=32 ;;
        RUNS) value=0 ;;
        RANKS) value=8 ;;
        RANK) value=6 ;;
        ?_MODE) value=2 ;;
        *) value=1 ;;
        esac
        printf ' -DSPEC_%s=%s' "$i" "$value"
    done
    sed -n 's/^GROUP(\([0-9]*\), *\([0-9]*\)).*/ -DGROUP_X=\1 -DGROUP_Y=\2/p' "$1"
}

# figure NAME FILE: the last number that follows NAME: in a file of the compiler's
figure() {
    tr -c '[:print:]\n' '\n' <"$2" | sed -n "s/^[; ]*$1: *\([0-9][0-9]*\).*/\1/p" | tail -1
}

# one KERNEL.cl: its line of the table
one() {
    path=$1
    name=${path##*/}
    name=${name%.cl}
    out=$work/$name.out
    given=$(constants "$path")
    figures= unresolved= kept=0 allowed=0
    if [ "$compiler" = ocloc ]; then
        ocloc compile -file "$path" -device "$target" --format zebin -out_dir "$work/$name" \
            -options "-cl-std=CL1.2$given" >"$work/$name.log" 2>&1
        code=$?
        cat "$work/$name"/*.bin >"$out" 2>/dev/null
    else
        $compiler $given -o "$out" "$path" 2>"$work/$name.log"
        code=$?
    fi
    # Intel's compiler aborts where an invocation has more memory than its GPUs give
    if [ $code -ge 128 ] && [ "$compiler" = ocloc ] && grep -q '^/\* only: opencl \*/' "$path"; then
        printf '%-20s left out: it is for CPUs, and ocloc ends with code %d\n' "$name" $code
        return
    fi
    if [ $code -ne 0 ]; then
        printf '%-20s FAILED: does not compile (%s)\n' "$name" \
            "$(grep -m 1 -i error "$work/$name.log")"
        return
    fi

    case $target in
    sm_*)
        grep -q "\.entry $name(" "$out" || unresolved='no entry point'
        unresolved=$unresolved$(grep '^\.extern \.func' "$out")
        kept=$(sed -n 's/.*__local_depot[0-9]*\[\([0-9]*\)\].*/\1/p' "$out" | sort -n | tail -1)
        case $name in
        matmul | matmul_half) allowed=64 ;; # the results, once and after all sums, for the last loop, which stays a loop
        row_join) allowed=28 ;; # seven sums that wait, by their level in the tree
        esac
        ;;
    gfx*)
        unresolved=$(grep 's_swappc_b64' "$out")
        kept=$(figure ScratchSize "$out")
        case $target-$name in
        # five registers of 256 with a mask and lengths and heads of 64; none without them, or of heads of 32 and 128
        gfx[89]*-attention_grad_key_tile) allowed=20 ;;
        esac
        figures=$(printf '  SGPRs %3d  VGPRs %3d  group memory %5d  occupancy %2d' \
            "$(figure NumSgprs "$out")" "$(figure NumVgprs "$out")" \
            "$(figure LDSByteSize "$out")" "$(figure Occupancy "$out")")
        ;;
    *)
        lanes=$(figure simd_size "$out")
        [ -n "$lanes" ] || unresolved='no kernel in what ocloc wrote'
        kept=$(tr -c '[:print:]\n' '\n' <"$out" | grep -A 9 per_thread_memory_buffers |
            awk '$1 == "size:" { sum += $2 } END { print sum + 0 }')
        figures=$(printf '  lanes %2d  group memory %5d' "$lanes" "$(figure slm_size "$out")")
        ;;
    esac
    fault=
    if [ -n "$unresolved" ]; then
        fault="calls what is not there: $unresolved"
    elif grep -q '^/\* only: opencl \*/' "$path"; then
        figures="$figures  for CPUs: only compiled"
    elif [ "${kept:-0}" -gt $allowed ]; then
        fault='keeps registers in memory'
    fi
    printf '%-20s in memory %4d%s%s\n' "$name" "${kept:-0}" "$figures" "${fault:+  FAILED: $fault}"
}

case $target in
sm_* | gfx*) find_clang ;;
*)
    command -v ocloc >/dev/null ||
        skip "no ocloc: install the Debian package intel-opencl-icd"
    compiler=ocloc
    printf 'kernel void f(global float *x) { x[get_global_id(0)] = sqrt(x[0]); }\n' >"$work/f.cl"
    ocloc compile -file "$work/f.cl" -device "$target" -out_dir "$work/f" >"$work/f.log" 2>&1 ||
        skip "this ocloc does not know $target; a newer intel-opencl-icd may"
    ;;
esac
printf '%s: %s\n' "$target" "$compiler"

set -- "$gen"/*.cl
[ -f "$1" ] || { printf 'FAILED: no kernels in %s\n' "$gen"; exit 1; }
if [ -z "${COPSE_TEST_ALL-}" ]; then
    # shellcheck disable=SC2046
    set -- $(printf '%s\n' "$@" | awk -v first="$(printf '%s' "$target" | cksum | cut -d ' ' -f 1)" 'NR % 4 == first % 4')
fi
mkdir "$work/table"
at_once=0
for path; do
    one "$path" >"$work/table/${path##*/}" &
    at_once=$((at_once + 1))
    [ $at_once -lt 2 ] || { wait; at_once=0; }
done
wait
cat "$work/table"/*
failed=$(cat "$work/table"/* | grep -c 'FAILED: ')
printf '%d kernels, %d failed\n' $# "$failed"
[ "$failed" -eq 0 ] && [ "$(cat "$work/table"/* | wc -l)" -eq $# ]
