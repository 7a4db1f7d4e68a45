/* SPDX-License-Identifier: MIT */
/* Files of results, written completely or not at all. */
#include "core/base/platform.h"
#include "prover/report/report.h"

copse_status copse_conformance_results_write(const copse_conformance_results *results,
                                             copse_conformance_format format, const char *path)
{
    typedef copse_status write_fn(FILE * f, const copse_conformance_results *r);
    static write_fn *const writers[] = {
        [COPSE_CONFORM_HTML] = copse__card_html,    [COPSE_CONFORM_MARKDOWN] = copse__card_markdown,
        [COPSE_CONFORM_JUNIT] = copse__table_junit, [COPSE_CONFORM_CSV] = copse__table_csv,
        [COPSE_CONFORM_JSON] = copse__table_json,
    };
    struct copse_atomic_file file;
    COPSE_TRY(copse_need("conformance results", results, path));
    if ((size_t)format >= COPSE_COUNT(writers))
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance results: no such format");
    COPSE_TRY(copse__atomic_open(&file, &results->ctx->base.mem, path));
    const copse_status s = writers[format](file.stream, results);
    if (s == COPSE_OK)
        return copse__atomic_commit(&file);
    copse__atomic_abort(&file);
    return s;
}
