#!/bin/sh
# SPDX-License-Identifier: MIT
# A kernel that the driver's compiler has a warning for: nothing of it reaches standard error, which belongs to the command.
# usage: quiet_driver.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
mkdir "$work/cache"
cd "$work" || exit 1
"$copse" devices 2>/dev/null | grep -q 'opencl:0' || { echo 'skipped: there is no OpenCL device'; exit 77; }
cat >k.cl <<'END'
GROUP(32, 1)
PARAMS(uint n;)
KERNEL2(my_add, IN(real, x), OUT(real, y))
{
    const uint i = INDEX();
    const uint other = 1.5f; /* clang warns: the value changes */
    if (i < p.n + other - 1u)
        STORE(y, i, LOAD(y, i) + LOAD(x, i));
}
END
cat >k.launch <<'END'
kernel my_add
group 32
groups 5 3
buffer in f32 450
buffer inout f32 450
param u32 450
values usual
reference accumulate 0 1
reference_spec 0 0
limit ulp 1
END
timeout 120 "$copse" conformance --device opencl:0 --kernel k.cl --op @k.launch >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
grep -i 'warning' err.txt && { echo 'FAILED: the compiler printed'; exit 1; }
echo 'the compiler is quiet'
