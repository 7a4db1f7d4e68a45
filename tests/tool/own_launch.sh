#!/bin/sh
# SPDX-License-Identifier: MIT
# User kernels with their own grid, signature, reference and tolerance: own_launch.sh COPSE [DEVICE]
# DEVICE (opencl:0) has all cases, another one the first ones; with COPSE_TEST_ALL every one has all.
set -u
copse=$1 whole=${2-opencl:0}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" # broken kernels stay out of the user's cache
cd "$work" || exit 1

# kernel BODY [PARAMS [SPEC... [X]]]: y of 450 elements, 5 x 3 groups of 32. GRID_X and GRID_Y are the grid.
kernel() {
    cat > k.cl <<END
#ifdef __OPENCL_VERSION__
#define GRID_X TO_U32(get_num_groups(0))
#define GRID_Y TO_U32(get_num_groups(1))
#else
#define GRID_X gl_NumWorkGroups.x
#define GRID_Y gl_NumWorkGroups.y
#endif
GROUP(32, 1)
${3-}
PARAMS(${2:-uint n;})
KERNEL2(my_add, ${4:-IN(real, x)}, OUT(real, y))
{
    const uint i = INDEX();
    $1
}
END
}

describe() {
    cat > k.launch <<END
kernel my_add        # y += x
group 32
groups 5 3
buffer in f32 450
buffer inout f32 450
param u32 450
END
    cat >> k.launch
}

# verdict NAME CODE TEXT: the exit code of a run, and a text that it prints.
verdict() {
    timeout 120 "$copse" conformance --device "$device" --kernel k.cl --op @k.launch > out.txt 2>&1
    code=$?
    if [ $code -ne "$2" ] || ! grep -q -e "$3" out.txt; then
        echo "$1: exit code $code, not $2, or no '$3':"
        cat out.txt
        exit 1
    fi
}

check_device() {
right='if (i < p.n) STORE(y, i, LOAD(y, i) + LOAD(x, i));'

# accumulate has the buffers x and acc, one parameter and two constants.
kernel "$right"
describe <<END
values usual zeros infinities NaN
reference accumulate 0 1
reference_spec 0 0
limit ulp 1
END
verdict "a right kernel" 0 "5 pass"
timeout 120 "$copse" conformance --device "$device" --kernel k.cl --op @k.launch --json 2> err.txt | grep -c '"mode":"launch","op":"my_add"' > count.txt
[ "$(cat count.txt)" -eq 5 ] || { echo "cases: $(cat count.txt)"; cat err.txt; exit 1; }
sed -i 's/limit ulp 1/limit exact/' k.launch
verdict "a right kernel, the same bits" 0 "5 pass"
sed -i '/limit/d' k.launch
verdict "the tolerance of the reference" 0 "5 pass"

kernel 'if (i < p.n - 1u) STORE(y, i, LOAD(y, i) + LOAD(x, i));'
verdict "the last element" 1 "at element 449"
kernel 'if (i < p.n) STORE(y, i, LOAD(y, i) + LOAD(x, i) * 1.00001f);'
verdict "wrong numbers" 1 "outside the tolerance"
sed -i '$a limit ratio 1000' k.launch
verdict "a wider tolerance" 0 "5 pass"

[ "${COPSE_TEST_ALL-}" ] || [ $device = "$whole" ] || return 0
# The launch is that of the file: grid, group, parameters, constants.
reference='reference accumulate 0 1
reference_spec 0 0
limit exact'
kernel 'if (i < p.n) STORE(y, i, SELECT(GRID_X == 5u && GRID_Y == 3u && GROUP_SIZE == 32u, LOAD(y, i) + LOAD(x, i), -1e9f));'
describe <<END
$reference
END
verdict "the grid" 0 "2 pass"
sed -i 's/groups 5 3/groups 3 5/' k.launch
verdict "another grid of as many groups" 1 "got -1e+09"
kernel 'if (i < p.n) STORE(y, i, SELECT(p.f == 0.5f && p.k == -3, LOAD(y, i) + LOAD(x, i), -1e9f));' 'uint n; float f; int k;'
describe <<END
param f32 0.5
param i32 -3
reference_param u32 450
$reference
END
verdict "parameters" 0 "2 pass"
sed -i 's/i32 -3/i32 3/' k.launch
verdict "another parameter" 1 "got -1e+09"
kernel 'if (i < p.n) STORE(y, i, LOAD(y, i) + TO_F32(FACTOR) * LOAD(x, i));' '' 'SPEC(0, FACTOR)'
describe <<END
spec 1
$reference
END
verdict "a constant" 0 "2 pass"
sed -i 's/^spec 1/spec -1/' k.launch
verdict "another constant" 1 "expected"

# The tolerance and the values are those of the file.
kernel 'if (i < p.n) STORE(y, i, AS_FLOAT(AS_UINT(LOAD(y, i) + LOAD(x, i)) + 1u));'
describe <<END
reference accumulate 0 1
reference_spec 0 0
limit ulp 1
END
verdict "one ULP of one" 0 "2 pass"
sed -i 's/limit ulp 1/limit ulp 0.5/' k.launch
verdict "one ULP of a half" 1 "1 ulp of 0.5 at"
sed -i 's/limit ulp 0.5/limit exact/' k.launch
verdict "one ULP where bits are promised" 1 "FAIL"
kernel 'if (i < p.n) STORE(y, i, SELECT(IS_NAN(LOAD(x, i)), 0.0f, LOAD(y, i) + LOAD(x, i)));'
describe <<END
values usual infinities
$reference
END
verdict "without NaN" 0 "3 pass"
sed -i 's/values.*/values NaN/' k.launch
verdict "NaN" 1 "5x3 groups, NaN"

# The buffers of the reference in another order, and indices.
kernel "$right"
sed -i 's/my_add, IN(real, x), OUT(real, y)/my_add, OUT(real, y), IN(real, x)/' k.cl
describe <<END
reference accumulate 1 0
reference_spec 0 0
limit exact
END
sed -i 's/buffer in /buffer first /; s/buffer inout/buffer in/; s/buffer first/buffer inout/' k.launch
verdict "another order" 0 "2 pass"
kernel 'if (i < p.n) STORE(y, i, SELECT(TO_U32(x[i]) < 7u, TO_F32(x[i]), -1e9f));' '' '' 'IN(int, x)'
describe <<END
reference to_f32 0 1
limit exact
END
sed -i 's/buffer in f32 450/buffer in i32 450 below 7/; s/buffer inout/buffer out/' k.launch
verdict "indices" 0 "2 pass"
sed -i 's/ below 7//' k.launch
verdict "any numbers" 1 "got -1e+09"

# Without a reference: guards, buffers that are only read, and repeated runs.
kernel "$right"
describe < /dev/null
verdict "without a reference" 0 "2 pass"
case $device in
opencl*) # Vulkan drivers may drop such a write, and lavapipe ends such a loop
    kernel 'if (i < p.n + 2u) STORE(y, i, LOAD(x, i % p.n));'
    verdict "a word past the end" 1 "FAIL\|CRASH"
    kernel 'for (;;) if (i == 0xffffffffu) STORE(y, 0u, LOAD(x, 0u));'
    timeout 120 "$copse" conformance --device "$device" --kernel k.cl --op @k.launch --deadline 3 > out.txt 2>&1
    [ $? -eq 1 ] && grep -q "TIMEOUT" out.txt || { echo "a kernel that hangs:"; cat out.txt; exit 1; } ;;
esac
kernel 'if (i < p.n) { STORE(y, i, LOAD(x, i)); if (i == 7u) STORE(x, i, 1e9f); }' '' '' 'OUT(real, x)'
verdict "an operand changes" 1 "wrote word 7 of buffer 0, which has 450 words and is only read"
kernel "$right"
echo "runs 3" >> k.launch
verdict "three runs" 0 "2 pass"
timeout 120 "$copse" conformance --device "$device" --kernel k.cl --op @k.launch --json 2> err.txt | grep -q '"3 runs, the same bits"' ||
    { echo "no case of three runs:"; cat err.txt; exit 1; }
kernel 'if (i > p.n + 100u) STORE(y, i, LOAD(x, 0u));'
verdict "nothing is written" 1 "changed no word of buffer 1"
}

checked=0
for device in vulkan:0 opencl:0; do
    if ! "$copse" devices 2> /dev/null | grep -q "^ *$device "; then
        echo "$device is skipped: there is no such device"
    elif [ $device = vulkan:0 ] && ! command -v glslangValidator > /dev/null; then
        echo "$device is skipped: there is no glslangValidator"
    else
        check_device
        checked=$((checked + 1))
    fi
done
if [ $checked -eq 0 ]; then
    echo "no device for user kernels"
    exit 77
fi

# bad NAME TEXT: exit code 2 and a line with the text.
kernel "$right"
bad() { verdict "$1" 2 "$2"; }
describe <<END
bufer in f32 4
END
bad "a keyword" "k.launch, line 7: 'bufer' is no keyword; there are kernel, group"
describe <<END
buffer in f16 4
END
bad "a type" "line 7: buffer: 'f16' is not f32 or i32"
describe <<END
buffer in f32 0
END
bad "a size" "line 7: buffer: '0' is no whole number from 1 to"
describe <<END
buffer in f32
END
bad "a word that is missing" "line 7: expected: buffer in|out|inout f32|i32 WORDS"
describe <<END
group 48
END
bad "a group" "line 7: group: a group of 48x1: both are powers of two"
describe <<END
reference accumulat 0 1
END
bad "a reference" "line 7: reference: the library has no kernel 'accumulat'"
describe <<END
reference accumulate 1 0
reference_spec 0 0
END
bad "results" "reference: buffer 0 of accumulate is only read, buffer 1 is not"
describe <<END
reference accumulate 0 1
END
bad "constants" "reference: accumulate has 2 constants, 0 are given: use reference_spec"
describe <<END
reference accumulate 0
END
bad "buffers" "reference: accumulate has 2 buffers, 1 are named"
describe <<END
param u32 4
reference accumulate 0 1
reference_spec 0 0
END
bad "parameters" "reference: accumulate has 1 words of parameters, 2 are given: use reference_param"
describe <<END
limit ulp 3
END
bad "a limit" "limit without a reference"
grep -v groups k.launch > n.launch
mv n.launch k.launch
bad "no grid" "the line 'groups X \[Y\]' is missing"
rm k.launch
bad "no file" "cannot open k.launch: .*; it describes the launch of a kernel"
describe < /dev/null
sed -i 's/my_add/your_add/' k.launch
bad "another name" "has no kernel named 'your_add'\|your_add"
describe < /dev/null
timeout 60 "$copse" conformance run --device "$device" --kernel k.cl --op @k.launch > out.txt 2>&1
[ $? -eq 2 ] && grep -q "mode launch only" out.txt || { echo "mode run:"; cat out.txt; exit 1; }
echo "passed"
