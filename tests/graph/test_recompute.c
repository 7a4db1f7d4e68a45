/* SPDX-License-Identifier: MIT */
/* Recomputation: marked segments, and segments that are chosen for a budget, need less memory and
   change no bit. */
#include <stdio.h>

#include "copse/nn.h"
#include "copse/ops/recompute.h"
#include "core/train/trainer.h"
#include "tests/rig/found.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/one_context.h"

#define ROWS    96
#define WIDTH   48
#define DEEP    12
#define STEPS   2
#define NUMBERS 262144

/* Normalised, regularised, branched. The sixth and the last block have a batch norm, which
   exchanges sums and assigns averages. */
static const char first_text[] = "dense 48";
static const char block_text[] = "residual { layer_norm; dense 96 gelu; dropout 0.25; dense 48 }";
static const char exchanging_text[] = "residual { dense 96; batch_norm; relu; dense 48 }";
static const char out_text[] = "dense 10";

enum marks { NO_MARKS, EACH_BLOCK, TWO_SEGMENTS };

struct net {
    copse_layer *first, *blocks[DEEP], *out;
    enum marks marks;
};

struct result {
    float loss[STEPS], values[NUMBERS];
    size_t count;
    size_t bytes;     /* of the values of the largest recording */
    size_t others;    /* of all other memory on a device, recordings aside */
    size_t exchanges; /* of a step: sums inside the loss function, and buckets */
};

struct how {
    const char *devices[2];
    size_t count;
    enum marks marks;
    uint64_t budget;
    uint32_t accumulate;
    bool has_many_batches; /* of other sizes, and evaluations */
};

static float data_x[ROWS * WIDTH];
static int32_t data_y[ROWS];

static void mark(copse_graph *g, const struct net *n, int i)
{
    const bool begins = n->marks == EACH_BLOCK || (n->marks == TWO_SEGMENTS && i % (DEEP / 2) == 0);
    const bool ends =
        n->marks == EACH_BLOCK || (n->marks == TWO_SEGMENTS && i % (DEEP / 2) == 0 && i > 0);
    if (ends && i > 0)
        copse_recompute_end(g);
    if (begins && i < DEEP)
        copse_recompute_begin(g);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *x = rig_x(in), *y = rig_y(in), *size;
    x = copse_layer_apply(n->first, g, in, x);
    for (int i = 0; i <= DEEP; i++) {
        mark(g, n, i);
        if (i < DEEP)
            x = copse_layer_apply(n->blocks[i], g, in, x);
        if (i == DEEP / 2) { /* read outside, from within a segment */
            size = copse_square(g, x);
            size = copse_mean(g, size, NULL, 0, false);
            copse_report(g, "size", size);
        }
    }
    x = copse_layer_apply(n->out, g, in, x);
    return copse_sparse_cross_entropy(g, x, y, COPSE_MEAN);
}

static copse_layer *built(copse_strategy *st, const char *text, uint32_t width, const char *scope)
{
    copse_layer *l;
    OK(copse_nn_parse(ctx, text, &l));
    OK(copse_layer_build(
        l, st,
        &(struct copse_build_params){ .shape = COPSE_SHAPE(width), .scope = scope, .seed = 5 }));
    return l;
}

static void make_net(struct net *n, copse_strategy *st, enum marks marks)
{
    char scope[16];
    n->marks = marks;
    n->first = built(st, first_text, WIDTH, "first");
    for (int i = 0; i < DEEP; i++) {
        snprintf(scope, sizeof scope, "block%d", i);
        n->blocks[i] = built(st, i % 6 == 5 ? exchanging_text : block_text, WIDTH, scope);
    }
    n->out = built(st, out_text, WIDTH, "out");
}

static void drop_net(struct net *n)
{
    copse_layer_release(&n->first);
    for (int i = 0; i < DEEP; i++)
        copse_layer_release(&n->blocks[i]);
    copse_layer_release(&n->out);
}

static struct copse_host_batch batch_of(size_t count)
{
    return rig_kept((struct copse_host_batch){ RIG_XY(WIDTH, data_x, data_y), .count = count });
}

/* Bytes of the recordings of all replicas that share the device of replica `r`. */
static size_t recorded(const copse_trainer *t, uint32_t r, size_t *largest)
{
    size_t all = 0;
    for (uint32_t i = 0; i < t->strategy->replica_count; i++)
        for (size_t k = 0; k < t->recordings.of[i].count &&
                           t->strategy->replicas[i].dev == t->strategy->replicas[r].dev;
             k++) {
            const size_t bytes = copse__program_bytes(t->recordings.of[i].at[k]->program);
            *largest = COPSE_MAX(*largest, bytes);
            all += bytes;
        }
    return all;
}

static void measure(const copse_trainer *t, struct result *out)
{
    out->exchanges = t->recordings.layouts[1].events.count;
    out->bytes = out->others = 0;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_device *dev = t->strategy->replicas[r].dev;
        copse__buffers_purge(dev);
        const size_t others = atomic_load(&dev->bytes) - recorded(t, r, &out->bytes);
        out->others = COPSE_MAX(out->others, others);
    }
}

static copse_status train(const struct how *how, copse_strategy *st, struct net *n,
                          struct result *out)
{
    struct copse_step_result r;
    copse_trainer *t;
    copse_variable *const *list;
    size_t count;
    COPSE_TRY(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = loss,
                                        .user = n,
                                        .seed = 9,
                                        .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.01f },
                                        .accumulate = how->accumulate,
                                        .memory_budget = how->budget },
        &t));
    copse_status s = COPSE_OK;
    for (int i = 0; i < STEPS && !s; i++) {
        const struct copse_host_batch whole =
            batch_of(how->has_many_batches && i == 1 ? ROWS / 3 : ROWS);
        for (uint32_t k = 0; k < COPSE_MAX(how->accumulate, 1u) && !s; k++)
            s = copse_trainer_step(t, &whole);
        if (!s)
            s = copse_trainer_result(t, true, &r);
        out->loss[i] = (float)r.loss;
        if (!s && how->has_many_batches)
            s = copse_trainer_evaluate(t, &whole, &r);
    }
    if (!s)
        measure(t, out);
    copse_strategy_variables(st, &list, &count);
    out->count = 0;
    for (size_t i = 0; i < count && !s; i++) {
        assert_true(out->count + copse__elements(copse_variable_shape(list[i])) <= NUMBERS);
        s = copse_variable_read(list[i], 0, out->values + out->count);
        out->count += (size_t)copse__elements(copse_variable_shape(list[i]));
    }
    copse_trainer_release(&t);
    return s;
}

static copse_status run(const struct how *how, struct result *out)
{
    copse_strategy *st;
    struct net n;
    OK(copse_mirrored_create(ctx, how->devices, how->count, NULL, &st));
    make_net(&n, st, how->marks);
    const copse_status s = train(how, st, &n, out);
    drop_net(&n);
    copse_strategy_release(&st);
    return s;
}

static void same(const char *what, const struct result *a, const struct result *b)
{
    if (a->count != b->count || memcmp(a->values, b->values, a->count * sizeof *a->values) != 0)
        fail_msg("%s: other values", what);
    if (memcmp(a->loss, b->loss, sizeof a->loss) != 0)
        fail_msg("%s: other losses", what);
}

/* ---- tests ---- */

static void marked_segments_change_no_bit(void **state)
{
    static struct result plain, marked;
    (void)state;
    for (uint32_t d = 0; d < found_count; d++)
        for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
            if (!rig_takes(d + accumulate, 2))
                continue;
            struct how how = { .devices = { found[d] }, .count = 1, .accumulate = accumulate };
            OK(run(&how, &plain));
            how.marks = EACH_BLOCK;
            OK(run(&how, &marked));
            same(found[d], &marked, &plain);
            printf("  %s: %zu KiB, with a segment for each block %zu KiB", found[d],
                   plain.bytes >> 10, marked.bytes >> 10);
            assert_true(marked.bytes * 5 < plain.bytes * 2);
            how.marks = TWO_SEGMENTS;
            OK(run(&how, &marked));
            same(found[d], &marked, &plain);
            printf(", with two segments %zu KiB\n", marked.bytes >> 10);
            assert_true(marked.bytes * 5 < plain.bytes * 4);
        }
}

static void a_budget_is_kept(void **state)
{
    /* of the values without a budget, percent; the last one: parts of segments */
    static const size_t parts[] = { 90, 60, 30, 22 };
    static struct result plain, small;
    (void)state;
    for (uint32_t d = 0; d < found_count; d++)
        for (int many = 0; many < 2; many++) {
            if (!rig_takes(d + (size_t)many, 2))
                continue;
            struct how how = { .devices = { found[d] }, .count = 1, .has_many_batches = many };
            OK(run(&how, &plain));
            size_t before = plain.bytes + 1;
            for (size_t i = (size_t)many; i < COPSE_COUNT(parts) - (size_t)many; i++) {
                how.budget = plain.bytes * parts[i] / 100 + plain.others;
                OK(run(&how, &small));
                same(found[d], &small, &plain);
                if (small.bytes + small.others > how.budget || small.bytes > before)
                    fail_msg("%s: budget %zu: %zu and %zu bytes", found[d], (size_t)how.budget,
                             small.bytes, small.others);
                before = small.bytes;
            }
            printf("  %s: %zu KiB, least %zu KiB\n", found[d], plain.bytes >> 10,
                   small.bytes >> 10);
        }
}

/* Sums over the replicas are not recomputed: a step exchanges them once. */
static void replicas_recompute(void **state)
{
    static struct result plain, small;
    (void)state;
    for (uint32_t d = 0; d < found_count; d++) {
        struct how how = { .devices = { found[0], found[d] }, .count = 2 };
        OK(run(&how, &plain));
        how.marks = EACH_BLOCK;
        OK(run(&how, &small));
        same(found[d], &small, &plain);
        assert_int_equal(small.exchanges, plain.exchanges);
        how.marks = NO_MARKS;
        how.budget = plain.bytes / 2 + plain.others;
        OK(run(&how, &small));
        same(found[d], &small, &plain);
        assert_int_equal(small.exchanges, plain.exchanges);
        assert_true(small.bytes + small.others <= how.budget);
        printf("  %s and %s: %zu exchanges in a step, %zu and %zu KiB\n", found[0], found[d],
               plain.exchanges, plain.bytes >> 10, small.bytes >> 10);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    static struct result r;
    const struct how how = { .devices = { "host:0" }, .count = 1, .budget = 4096 };
    (void)state;
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY, run(&how, &r), "the memory budget leaves");
    printf("  %s\n", copse_last_error());
}

static void marks_are_checked(void **state)
{
    copse_graph *g;
    (void)state;
    OK(copse_graph_create(ctx, &g));
    copse_recompute_end(g);
    FAILS(COPSE_ERR_ARGUMENT, copse__graph_take_failure(g), "no segment is open");
    copse_recompute_begin(g);
    copse_recompute_begin(g);
    FAILS(COPSE_ERR_ARGUMENT, copse__graph_take_failure(g), "copse_recompute_end first");
    copse_recompute_end(g);
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_checked),
        cmocka_unit_test(marked_segments_change_no_bit),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(replicas_recompute),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    uint32_t seed = 1;
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        data_x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f;
    for (size_t i = 0; i < ROWS; i++)
        data_y[i] = (int32_t)(i * 7 % 10);
    void *unused = NULL;
    if (open_context(&unused) != 0)
        return 1;
    find_devices(ctx);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_context(&unused);
    return failed;
}
