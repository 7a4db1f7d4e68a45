/* SPDX-License-Identifier: MIT */
/* See op_harness.h. */
#include "tests/rig/conformance/op_harness.h"
#include "prover/cases/tables.h"

#include <stdlib.h>

#include "prover/conformance/runner.h"

#define MAX_DEVICES 8

static copse_context *ctx;
static copse_device *devices[MAX_DEVICES];
static size_t device_count;

int harness_open(void **state)
{
    (void)state;
    const char *only = getenv("COPSE_TEST_DEVICES");
    const struct copse_device_info *list;
    size_t count;
    if (copse_context_create(NULL, &ctx) != COPSE_OK)
        return -1;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count && device_count < MAX_DEVICES; i++) {
        if (!list[i].is_usable || (only && !strstr(only, list[i].id)))
            continue;
        if (copse_device_open(ctx, list[i].id, NULL, &devices[device_count]) != COPSE_OK) {
            print_error("%s: %s\n", list[i].id, copse_last_error());
            return -1;
        }
        print_message("device %s: %s\n", list[i].id, list[i].name);
        device_count++;
    }
    return device_count ? 0 : -1;
}

int harness_close(void **state)
{
    (void)state;
    while (device_count > 0)
        copse_device_release(&devices[--device_count]);
    copse_context_release(&ctx);
    return 0;
}

size_t harness_device_count(void)
{
    return device_count;
}

copse_device *harness_device(size_t i)
{
    return devices[i];
}

copse_context *harness_context(void)
{
    return ctx;
}

void harness_fails(copse_status got, copse_status code, const char *word)
{
    if (got != code || !strstr(copse_last_error(), word))
        fail_msg("got %s '%s', expected %s about '%s'", copse_status_name(got), copse_last_error(),
                 copse_status_name(code), word);
}

static void *block(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        fail_msg("no memory for the test");
    return p;
}

static size_t elements(const copse_tensor *t)
{
    return (size_t)copse__elements(t->shape);
}

/* ---- evaluation ---- */

struct feed {
    copse_tensor *const *in;
    double *const *values;
    size_t count;
};

static copse_status feed(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const struct feed *f = user;
    for (size_t i = 0; i < f->count; i++) {
        if (f->in[i] != leaf)
            continue;
        for (size_t k = 0; k < count; k++)
            if (leaf->type == COPSE_I32)
                ((int32_t *)values)[k] = (int32_t)f->values[i][k];
            else
                ((double *)values)[k] = f->values[i][k];
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "harness: no such input");
}

void harness_in_double(copse_graph *g, copse_tensor *const *in, double *const *values,
                       size_t in_count, copse_tensor *const *out, size_t out_count,
                       const uint32_t *step, double *const *results)
{
    struct feed f = { in, values, in_count };
    const struct copse_reference_params p = { g, feed, &f, step };
    OK(copse__reference_run(&p, out, out_count, results));
}

static void convert(const copse_tensor *t, const double *from, void *to)
{
    for (size_t k = 0; k < elements(t); k++)
        if (t->type == COPSE_I32)
            ((int32_t *)to)[k] = (int32_t)from[k];
        else
            ((float *)to)[k] = (float)from[k];
}

void harness_on_device(copse_device *dev, copse_graph *g, copse_tensor *const *in,
                       double *const *values, size_t in_count, copse_tensor *const *out,
                       size_t out_count, const uint32_t *step, double *const *results)
{
    enum { ROOM = 16 };
    assert_true(out_count <= ROOM);
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    copse_queue *q = NULL;
    copse_buffer *step_buffer = NULL, *buffers[ROOM] = { NULL };
    struct copse_placement places[ROOM];
    copse_program *program = NULL;

    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = 0x3f800000u;
    OK(copse_queue_create(dev, &q));
    OK(copse__buffer_acquire(dev, sizeof words, &step_buffer));
    OK(copse_queue_write(q, step_buffer, 0, step ? step : words, sizeof words));
    for (size_t i = 0; i < out_count; i++) {
        const size_t bytes = copse__round_up(4 * COPSE_MAX(elements(out[i]), 1), 16);
        OK(copse__buffer_acquire(dev, bytes, &buffers[i]));
        /* a NaN that must be overwritten */
        OK(copse_queue_fill(q, buffers[i], 0, bytes, 0xffffdeadu));
        places[i] = (struct copse_placement){ out[i], { buffers[i], 0, bytes }, 0 };
    }
    const struct copse_program_params params = {
        .graph = g,
        .queue = q,
        .placements = places,
        .placement_count = out_count,
        .step = { step_buffer, 0, sizeof words },
    };
    OK(copse__program_create(&params, &program));
    for (size_t i = 0; i < in_count; i++) {
        struct copse_binding at;
        if (elements(in[i]) == 0 || !copse__program_input(program, in[i], &at))
            continue;
        uint32_t *data = block(elements(in[i]), 4);
        convert(in[i], values[i], data);
        OK(copse_queue_write(q, at.buffer, at.offset, data, 4 * elements(in[i])));
        free(data);
    }
    OK(copse__program_replay(program, 0));
    for (size_t i = 0; i < out_count; i++) {
        const size_t n = elements(out[i]);
        uint32_t *data = block(n, 4);
        if (n > 0)
            OK(copse_queue_read(q, buffers[i], 0, data, 4 * n));
        OK(copse_queue_finish(q));
        for (size_t k = 0; k < n; k++)
            results[i][k] = out[i]->type == COPSE_I32 ? (double)((int32_t *)data)[k]
                                                      : (double)((float *)data)[k];
        free(data);
    }
    copse__program_release(&program);
    for (size_t i = 0; i < out_count; i++)
        copse_buffer_release(&buffers[i]);
    copse_buffer_release(&step_buffer);
    copse_queue_release(&q);
}

/* ---- tables ---- */

struct tally {
    uint64_t passed, wrong;
};

static void count(void *user, const struct copse_case_result *r)
{
    struct tally *t = user;
    const bool is_fine = r->verdict == COPSE_VERDICT_PASS || r->verdict == COPSE_VERDICT_SKIP ||
                         r->verdict == COPSE_VERDICT_UNSUPPORTED ||
                         r->verdict == COPSE_VERDICT_XFAIL;
    t->passed += r->verdict == COPSE_VERDICT_PASS;
    t->wrong += !is_fine;
    if (!is_fine)
        print_error("%s: %s %s '%s' %s on %s, seed %llu: %s: element %llu is %.9g, expected "
                    "%.17g: %.3g %s of %.3g\n",
                    copse_verdict_name(r->verdict), r->mode, r->op, r->name, r->variant, r->device,
                    (unsigned long long)r->seed, r->text, (unsigned long long)r->index, r->got,
                    r->expected, r->worst, r->metric, r->limit);
}

/* The tier that COPSE_TEST_TIER names; standard without it. */
static enum copse_conformance_tier tier_of_environment(void)
{
    const char *name = getenv("COPSE_TEST_TIER");
    if (!name || strcmp(name, "standard") == 0)
        return COPSE_CONFORM_STANDARD;
    if (strcmp(name, "quick") == 0)
        return COPSE_CONFORM_QUICK;
    if (strcmp(name, "full") != 0)
        fail_msg("COPSE_TEST_TIER is '%s', not quick, standard or full", name);
    return COPSE_CONFORM_FULL;
}

static void run_table(const struct copse_case_table *table, bool is_in_turn)
{
    struct copse_case *cases = block(table->count, sizeof *cases);
    struct tally t = { 0, 0 };
    struct copse_conformance_params params = {
        .tier = tier_of_environment(),
        .result = count,
        .user = &t,
    };
    for (size_t d = 0; d < device_count; d++) {
        struct copse_conformance_summary summary;
        struct copse_case_table taken = *table;
        const struct copse_case_table *const tables[] = { &taken, NULL };
        params.device = copse_device_describe(devices[d])->id;
        taken.cases = cases;
        taken.count = 0;
        for (size_t i = 0; i < table->count; i++)
            if (!is_in_turn || rig_takes_on(i, params.device))
                cases[taken.count++] = table->cases[i];
        OK(copse__conformance_run_with(ctx, &params, tables, copse_known, &summary));
    }
    free(cases);
    print_message("%s: %llu passed\n", table->family, (unsigned long long)t.passed);
    if (t.wrong || !t.passed)
        fail_msg("%s: %llu cases did not pass", table->family, (unsigned long long)t.wrong);
}

void harness_run(const struct copse_case_table *table)
{
    run_table(table, false);
}

void harness_run_in_turn(const struct copse_case_table *table)
{
    run_table(table, true);
}

void harness_run_named(const char *family)
{
    for (size_t t = 0; copse_case_tables[t]; t++)
        if (strcmp(copse_case_tables[t]->family, family) == 0) {
            harness_run(copse_case_tables[t]);
            return;
        }
    fail_msg("there is no table of cases '%s'", family);
}
