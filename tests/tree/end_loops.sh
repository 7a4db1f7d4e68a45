#!/bin/sh
# SPDX-License-Identifier: MIT
# end_loops.sh SOURCE-FOLDER: a loop that a call ends with COPSE_ERR_END keeps the status and compares it: any other error
# is no end of the data. In C code and in pages.
# Reads: while (copse_loader_next(...) == COPSE_OK)  - refused, whatever comes after it
#        while ((s = copse_loader_next(...)) == COPSE_OK)  - COPSE_ERR_END must follow within 30 lines
set -u
cd "$1" || exit 1
failed=0

# the functions whose description has COPSE_ERR_END
functions=$(awk '/COPSE_ERR_END/ { is_found = 1 }
                 /^COPSE_API/ { head = 1 }
                 head && match($0, /copse_[a-z_]+\(/) { if (is_found) print substr($0, RSTART, RLENGTH - 1); is_found = head = 0 }' \
    $(find include/copse -name '*.h') | sort -u)
for name in copse_loader_next copse_trainer_result copse_distributed_next copse_distributed_next_value copse_step_run; do
    printf '%s\n' "$functions" | grep -qx "$name" || { echo "$name is not found in the headers"; failed=1; }
done

check() {
    awk -v names="$(printf '%s' "$functions" | tr '\n' '|')" '
        function fail(text) { print FILENAME ":" at ": " text; failed = 1 }
        function settle() { if (left > 0) fail("nothing compares the status with COPSE_ERR_END: " loop); left = 0 }
        BEGIN { sub(/\|$/, "", names)
                call = "(while|for) *\\(.*(" names ")\\(.*[=!]= *COPSE_OK"
                kept = "\\( *[a-z_>.-]+ *= *(" names ")\\(" }
        FNR == 1 { settle() }
        /COPSE_ERR_END/ { left = 0 }
        left > 0 && --left == 0 { left = 1; settle() }
        $0 ~ call { settle(); loop = $0; at = FNR; count++
                    if ($0 ~ kept) left = 30; else fail("every error ends this loop as COPSE_ERR_END does: " loop) }
        END { settle(); print count + 0 " loops" > "/dev/stderr"; exit failed }' "$@"
}

check README.md $(find docs examples include bindings tests tools core -name '*.md' -o -name '*.[ch]' -o -name '*.py') || failed=1
exit $failed
