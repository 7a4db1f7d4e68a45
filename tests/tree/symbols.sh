#!/bin/sh
# SPDX-License-Identifier: MIT
# symbols.sh LIBRARY ARCHIVE: the shared library exports copse_* only and links no driver loader;
# nothing in it ends the process or prints.
set -u
failed=0

foreign=$(nm -D --defined-only "$1" | awk '{ print $3 }' | grep -v '^copse_[a-z]' )
[ -z "$foreign" ] || { echo "exported beside copse_*:" $foreign; failed=1; }
private=$(nm -D --defined-only "$1" | awk '{ print $3 }' | grep '^copse__')
[ -z "$private" ] || { echo "private but exported:" $private; failed=1; }
[ -n "$(nm -D --defined-only "$1" | grep ' T copse_context_create$')" ] ||
    { echo "copse_context_create is not exported"; failed=1; }

loaders=$(objdump -p "$1" | grep NEEDED | grep -i -E 'opencl|vulkan|mpi|gloo')
[ -z "$loaders" ] || { echo "linked against a loader:" $loaders; failed=1; }

banned='abort|exit|_exit|_Exit|quick_exit|__assert_fail|printf|vprintf|puts|putchar|perror|psignal'
banned="$banned|__printf_chk|__vprintf_chk|stdout|stderr|signal|sigaction|fork|system"
used=$(nm -A --undefined-only "$2" | grep -E " U ($banned)(@.*)?\$")
[ -z "$used" ] || { echo "the library must not end the process, print or install handlers:"
    echo "$used"; failed=1; }
exit $failed
