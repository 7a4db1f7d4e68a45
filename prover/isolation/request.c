/* SPDX-License-Identifier: MIT */
/* A request as the arguments of a helper process. */
#include <stdio.h>
#include <stdlib.h>

#include "prover/isolation/isolation.h"

static const char word[] = "copse-conformance-helper"; /* argv[1] */

/* ---- writing ---- */

static void request_add(struct copse_request_text *t, const char *option, const char *value)
{
    if (!value)
        return;
    t->at[t->count++] = option;
    t->at[t->count++] = value;
}

void copse__request_write(const struct copse_request *q, const char *program,
                          struct copse_request_text *out)
{
    out->count = 0;
    out->at[out->count++] = program;
    out->at[out->count++] = word;
    snprintf(out->numbers[0], sizeof *out->numbers, "%u", (unsigned)q->kind);
    snprintf(out->numbers[1], sizeof *out->numbers, "%u", q->modes);
    snprintf(out->numbers[2], sizeof *out->numbers, "%u", (unsigned)q->tier);
    snprintf(out->numbers[3], sizeof *out->numbers, "%.0f", q->seconds * 1e6);
    snprintf(out->numbers[4], sizeof *out->numbers, "%u", (unsigned)q->verdict);
    snprintf(out->numbers[5], sizeof *out->numbers, "%ld", q->parent);
    snprintf(out->numbers[6], sizeof *out->numbers, "%llu", (unsigned long long)q->seed);
    request_add(out, "--kind", out->numbers[0]);
    request_add(out, "--modes", out->numbers[1]);
    request_add(out, "--tier", out->numbers[2]);
    request_add(out, "--microseconds", out->numbers[3]);
    request_add(out, "--verdict", out->numbers[4]);
    request_add(out, "--parent", out->numbers[5]);
    request_add(out, "--seed", q->seed ? out->numbers[6] : NULL);
    request_add(out, "--device", q->device);
    request_add(out, "--ops", q->ops);
    request_add(out, "--case", q->case_name);
    request_add(out, "--variant", q->variant);
    request_add(out, "--after", q->after);
    request_add(out, "--kernel", q->kernel);
    request_add(out, "--reason", q->reason);
    request_add(out, "--own", q->own_path);
    request_add(out, "--cache", q->cache_folder);
    request_add(out, "--known", q->known);
    request_add(out, "--verbose", q->is_verbose ? "1" : NULL);
    out->at[out->count] = NULL;
}

/* ---- reading ---- */

bool copse__request_is(int argc, char **argv)
{
    return argc > 1 && argv && strcmp(argv[1], word) == 0;
}

static bool read_number(const char *text, long *out)
{
    char *end;
    *out = strtol(text, &end, 10);
    return end != text && *end == '\0' && *out >= 0;
}

bool copse__request_read(int argc, char **argv, struct copse_request *out)
{
    const char *seed = "0";
    long kind = -1, modes = 0, tier = 0, microseconds = 0, verdict = 0, parent = 0, verbose = 0;
    *out = (struct copse_request){ .device = NULL };
    const struct {
        const char *name;
        const char **text;
        long *number;
    } options[] = {
        { "--kind", NULL, &kind },
        { "--modes", NULL, &modes },
        { "--tier", NULL, &tier },
        { "--microseconds", NULL, &microseconds },
        { "--verdict", NULL, &verdict },
        { "--parent", NULL, &parent },
        { "--verbose", NULL, &verbose },
        { "--device", &out->device, NULL },
        { "--ops", &out->ops, NULL },
        { "--case", &out->case_name, NULL },
        { "--variant", &out->variant, NULL },
        { "--after", &out->after, NULL },
        { "--kernel", &out->kernel, NULL },
        { "--reason", &out->reason, NULL },
        { "--own", &out->own_path, NULL },
        { "--cache", &out->cache_folder, NULL },
        { "--known", &out->known, NULL },
        { "--seed", &seed, NULL },
    };
    for (int i = 2; i < argc; i += 2) {
        size_t k = 0;
        while (k < COPSE_COUNT(options) && strcmp(options[k].name, argv[i]) != 0)
            k++;
        if (k == COPSE_COUNT(options) || i + 1 == argc)
            return false;
        if (options[k].text)
            *options[k].text = argv[i + 1];
        else if (!read_number(argv[i + 1], options[k].number))
            return false;
    }
    out->kind = (enum copse_request_kind)kind;
    out->modes = (unsigned)modes;
    out->tier = (copse_conformance_tier)tier;
    out->seconds = (double)microseconds * 1e-6;
    out->seed = strtoull(seed, NULL, 10);
    out->verdict = (copse_verdict)verdict;
    out->parent = parent;
    out->is_verbose = verbose != 0;
    return kind >= 0 && kind <= COPSE_REQUEST_BLOCK && out->device &&
           tier <= COPSE_CONFORM_EXHAUSTIVE && verdict < COPSE_VERDICT_COUNT &&
           (kind != COPSE_REQUEST_BLOCK ||
            (out->ops && out->case_name && out->kernel && out->reason));
}
