#!/bin/sh
# SPDX-License-Identifier: MIT
# two_libraries.sh BUILD C-COMPILER: copse-conformance refuses a libcopse of another build, in one line with both versions, at
# each of its entries; what needs libcopse alone goes on. libcopse contains nothing of the prover.
set -u
build=$1 cc=$2
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
no() {
    echo "FAILED: $*"
    failed=1
}

# libcopse of another build, as far as the prover asks
echo 'const char *copse__build(void); const char *copse__build(void) { return "0.0.9 (layout 0123456789ab)"; }' >"$work/other.c"
$cc -std=c11 -Wall -shared -fPIC "$work/other.c" -o "$work/other.so" || exit 1
cat >"$work/entries.c" <<'END'
#include <copse/device/conformance_job.h>
#include <stdio.h>

static void cell(void *user, const struct copse_coverage_cell *c)
{
    (void)user, (void)c;
}

int main(void)
{
    char text[65536];
    size_t needed;
    copse_context *ctx = NULL;
    copse_conformance_job *job = NULL;
    copse_conformance_results *results = NULL;
    struct copse_conformance_summary summary;
    const struct copse_conformance_params params = { .device = "host:0", .modes = COPSE_CONFORM_RUN, .ops = "softmax" };
    const struct copse_conformance_job_params job_params = { .devices = "host:0" };
    if (copse_context_create(NULL, &ctx))
        return 2;
    const copse_status got[] = {
        copse_conformance_run(ctx, &params, &summary),   copse_conformance_list(ctx, &params),
        copse_conformance_coverage(cell, NULL),          copse_kernel_contract("copy", text, sizeof text),
        copse_device_json(ctx, "host:0", text, sizeof text, &needed),
        copse_conformance_start(ctx, &job_params, &job), copse_conformance_results_read(ctx, "none.json", &results),
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        printf("%s\n", copse_status_name(got[i]));
    if (job)
        copse_conformance_cancel(job);
    copse_conformance_job_release(&job);
    copse_context_release(&ctx);
    return 0;
}
END
$cc -std=c11 -Wall -Wextra -Werror -I"$(dirname "$0")/../../include" "$work/entries.c" -o "$work/entries" -L"$build" \
    -lcopse-conformance -lcopse -Wl,-rpath,"$build" || exit 1

(cd "$work" && LD_PRELOAD="$work/other.so" ./entries) >"$work/said" 2>&1 || no "entries: $(cat "$work/said")"
[ "$(sort "$work/said" | uniq -c | tr -s ' ')" = ' 7 ERR_UNSUPPORTED' ] || no "entries over another libcopse: $(tr '\n' ' ' <"$work/said")"
(cd "$work" && ./entries) >"$work/said" 2>&1 || no "entries: $(cat "$work/said")"
grep -q ERR_UNSUPPORTED "$work/said" && no "entries over their own libcopse: $(tr '\n' ' ' <"$work/said")"
[ "$(grep -c '^OK$' "$work/said")" -ge 5 ] || no "entries over their own libcopse: $(tr '\n' ' ' <"$work/said")"

LD_PRELOAD="$work/other.so" "$build/copse" conformance run --device host:0 --ops softmax >"$work/out" 2>"$work/err"
code=$?
[ $code = 2 ] || no "the command over another libcopse: exit code $code"
[ "$(wc -l <"$work/err")" = 1 ] || no "the command over another libcopse: not one line: $(cat "$work/err")"
grep -qE 'libcopse-conformance [0-9.]+ \(layout [0-9a-f]{12}\) .* libcopse 0\.0\.9 \(layout 0123456789ab\): install both' "$work/err" ||
    no "the command over another libcopse: $(cat "$work/err")"
LD_PRELOAD="$work/other.so" "$build/copse" devices >"$work/out" 2>&1 && grep -q 'host:0' "$work/out" ||
    no "copse devices needs the prover: $(cat "$work/out")"

# Names of cases and the text of cards
for text in 'row longer than a group' 'dispatches in order' '<table>'; do
    grep -qF "$text" "$build/libcopse-conformance.so" || no "not in libcopse-conformance: $text"
    grep -qF "$text" "$build/libcopse.so" && no "in libcopse: $text"
done
[ $failed = 1 ] || echo "libcopse $(wc -c <"$build/libcopse.so") bytes, libcopse-conformance $(wc -c <"$build/libcopse-conformance.so")"
exit $failed
