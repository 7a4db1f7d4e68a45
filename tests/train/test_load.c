/* SPDX-License-Identifier: MIT */
/* copse_trainer_load: weights by name from any safetensors file, converted or refused, all or
   nothing. */
#include "tests/rig/train/step_rig.h"

#include "copse/data/checkpoint.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/train/weights.h"
#include "core/base/half.h"
#include "tests/rig/data/temp_files.h"

enum { IN = 3, HIDDEN = 4, OUT = 2, W1 = IN * HIDDEN, W2 = HIDDEN * OUT };

/* dense1.weight [3, 4], dense1.bias [4], dense2.weight [4, 2], "mean" [4] (frozen), "count" i32
   [2] */
struct net {
    copse_strategy *st;
    copse_trainer *t;
    copse_variable *w1, *b1, *w2, *mean, *count;
};

static copse_tensor *net_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *h = rig_x(in);
    h = copse_dense(g, h, copse_variable_tensor(n->w1), copse_variable_tensor(n->b1), COPSE_RELU);
    h = copse_matmul(g, h, copse_variable_tensor(n->w2), false, false);
    return copse_mean_squared_error(g, h, rig_y(in));
}

static copse_variable *make(copse_strategy *st, const char *name, copse_shape shape,
                            copse_type type, bool is_frozen)
{
    copse_variable *v = NULL;
    OK(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = name,
                                         .shape = shape,
                                         .type = type,
                                         .initializer = COPSE_INIT_ONES,
                                         .is_frozen = is_frozen,
                                         .aggregation = COPSE_AGGREGATION_ONLY_FIRST_REPLICA },
        &v));
    return v;
}

static struct net net_on(copse_strategy *st)
{
    struct net n = { .st = st };
    n.w1 = make(st, "dense1.weight", COPSE_SHAPE(IN, HIDDEN), COPSE_F32, false);
    n.b1 = make(st, "dense1.bias", COPSE_SHAPE(HIDDEN), COPSE_F32, false);
    n.w2 = make(st, "dense2.weight", COPSE_SHAPE(HIDDEN, OUT), COPSE_F32, false);
    n.mean = make(st, "mean", COPSE_SHAPE(HIDDEN), COPSE_F32, true);
    n.count = make(st, "count", COPSE_SHAPE(2), COPSE_I32, true);
    return n;
}

static struct net kept; /* for the loss function; tests have one network at a time */

static void net_train(struct net *n)
{
    kept = *n;
    OK(copse_trainer_create(
        n->st,
        &(struct copse_trainer_params){ .loss = net_loss,
                                        .user = &kept,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        &n->t));
}

static struct net net_open(size_t replicas)
{
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, rig_devices, replicas, NULL, &st));
    struct net n = net_on(st);
    net_train(&n);
    return n;
}

static void net_close(struct net *n)
{
    copse_trainer_release(&n->t);
    copse_strategy_release(&n->st);
}

static void has(copse_variable *v, size_t count, const float *values)
{
    float got[64];
    for (uint32_t r = 0; r < 2; r++) {
        if (copse_variable_read(v, r, got) != COPSE_OK)
            return; /* no second replica */
        assert_memory_equal(got, values, count * sizeof *got);
    }
}

static const float ones[64] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* Nothing was loaded. */
static void is_untouched(const struct net *n)
{
    int32_t count[2];
    has(n->w1, W1, ones);
    has(n->b1, HIDDEN, ones);
    has(n->w2, W2, ones);
    has(n->mean, HIDDEN, ones);
    OK(copse_variable_read(n->count, 0, count));
    assert_true(count[0] == 1 && count[1] == 1);
}

/* ---- files ---- */

#define ARRAY(NAME, TYPE, DATA, RANK, ...)                                             \
    {                                                                                  \
        NAME,                                                                          \
        {                                                                              \
            .type = COPSE_##TYPE, .rank = RANK, .shape = { __VA_ARGS__ }, .data = DATA \
        }                                                                              \
    }

static const char *file_with(const struct copse_named_array *arrays, size_t count,
                             const struct copse_metadata *line)
{
    const char *path = temp_path("weights.safetensors");
    OK(copse_checkpoint_write(ctx, path,
                              &(struct copse_checkpoint_params){ .arrays = arrays,
                                                                 .array_count = count,
                                                                 .metadata = line,
                                                                 .metadata_count = line != NULL }));
    return path;
}
#define FILE_WITH(...)                                                    \
    file_with((const struct copse_named_array[]){ __VA_ARGS__ },          \
              sizeof((const struct copse_named_array[]){ __VA_ARGS__ }) / \
                  sizeof(struct copse_named_array),                       \
              NULL)

static float w1[W1], w2[W2], bias[HIDDEN] = { 0.5f, -0.25f, 3.0f, 1e-3f };

static int setup(void **state)
{
    for (int i = 0; i < W1; i++)
        w1[i] = (float)(i + 1) / 7.0f;
    for (int i = 0; i < W2; i++)
        w2[i] = -(float)(i + 1) / 9.0f;
    temp_begin();
    return open_context(state);
}

static int teardown(void **state)
{
    temp_end();
    return close_context(state);
}

/* ---- what is loaded ---- */

static void names_are_matched_and_reported(void **state)
{
    (void)state;
    const int32_t count[2] = { 7, -9 };
    struct net n = net_open(2);
    struct copse_load_report r;
    const char *path = FILE_WITH(
        ARRAY("other", F32, w1, 1, W1), ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN),
        ARRAY("dense1.weight/m", F32, w1, 2, IN, HIDDEN), ARRAY("count", I32, count, 1, 2),
        ARRAY("application/steps", F32, w1, 1, 3), ARRAY("mean", F32, bias, 1, HIDDEN));
    OK(copse_trainer_load(n.t, path, NULL, &r));
    assert_int_equal(r.matched_count, 3);
    assert_string_equal(r.matched[0], "dense1.weight");
    assert_string_equal(r.matched[1], "mean");
    assert_string_equal(r.matched[2], "count");
    assert_int_equal(r.missing_count, 2);
    assert_string_equal(r.missing[0], "dense1.bias");
    assert_string_equal(r.missing[1], "dense2.weight");
    assert_int_equal(r.unused_count, 1);
    assert_string_equal(r.unused[0], "other");
    assert_int_equal(r.converted, 0);
    has(n.w1, W1, w1);
    has(n.mean, HIDDEN, bias);
    has(n.b1, HIDDEN, ones);
    has(n.w2, W2, ones);
    int32_t got[2];
    OK(copse_variable_read(n.count, 1, got));
    assert_memory_equal(got, count, sizeof got);
    OK(copse_trainer_load(n.t, path, NULL, NULL)); /* the report is optional */
    net_close(&n);
}

struct choice {
    const char *left_out; /* NULL: all */
    size_t asked;
};

static bool choose(void *user, const copse_checkpoint *file, const char *name)
{
    struct choice *c = user;
    c->asked++;
    assert_non_null(copse_checkpoint_find(file, name));
    return c->left_out && strcmp(name, c->left_out) != 0;
}

/* A variable that is left out keeps its values, whatever shape the array of its name has. */
static void variables_are_left_out(void **state)
{
    (void)state;
    struct net n = net_open(2);
    struct choice c = { .left_out = "dense2.weight" };
    const struct copse_load_params params = { .choose = choose, .user = &c };
    struct copse_load_report r;
    const char *path = FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN),
                                 ARRAY("dense2.weight", F32, w1, 1, W1));
    FAILS(COPSE_ERR_SHAPE, copse_trainer_load(n.t, path, NULL, &r), "dense2.weight");
    OK(copse_trainer_load(n.t, path, &params, &r));
    assert_int_equal(c.asked, 2); /* not about variables that the file lacks */
    assert_int_equal(r.matched_count, 1);
    assert_int_equal(r.skipped_count, 1);
    assert_string_equal(r.skipped[0], "dense2.weight");
    assert_int_equal(r.unused_count, 0);
    has(n.w1, W1, w1);
    has(n.w2, W2, ones);
    c.left_out = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, path, &params, &r),
          "'dense1.weight' and others are left out");
    net_close(&n);
}

/* The next step starts from the loaded values, and its loss is theirs. */
static void training_goes_on_from_the_values(void **state)
{
    (void)state;
    struct net n = net_open(2);
    const float x[4 * IN] = { 1, 2, 3, -1, 0.5f, 2, 0, 0, 1, 2, -2, 0.25f }, y[4 * OUT] = { 0 };
    const struct copse_host_batch batch = { RIG_PAIR(IN, x, OUT, y), .count = 4 };
    struct copse_step_result before, after, trained;
    OK(copse_trainer_step(n.t, &batch));
    OK(copse_trainer_load(n.t,
                          FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN),
                                    ARRAY("dense2.weight", F32, w2, 2, HIDDEN, OUT)),
                          NULL, NULL));
    OK(copse_trainer_result(n.t, true, &before)); /* results stay */
    OK(copse_trainer_evaluate(n.t, &batch, &after));
    OK(copse_trainer_step(n.t, &batch));
    OK(copse_trainer_result(n.t, true, &trained));
    assert_true(trained.loss == after.loss && after.loss != before.loss);
    assert_int_equal(trained.step, 2);
    net_close(&n);
}

static void floats_are_converted_or_refused(void **state)
{
    (void)state;
    double f64[W1], too_large[HIDDEN] = { 0, 1e39, 0, 0 };
    uint16_t f16[HIDDEN], bf16[W2];
    float w1_rounded[W1], bias_f16[HIDDEN], w2_bf16[W2];
    struct copse_load_report r;
    for (int i = 0; i < W1; i++) {
        f64[i] = (double)(i + 1) / 7.0;
        w1_rounded[i] = (float)f64[i];
    }
    for (int i = 0; i < HIDDEN; i++) {
        f16[i] = copse__f32_to_f16(bias[i]);
        bias_f16[i] = copse__f16_to_f32(f16[i]);
    }
    for (int i = 0; i < W2; i++) {
        bf16[i] = copse__f32_to_bf16(w2[i]);
        w2_bf16[i] = copse__bf16_to_f32(bf16[i]);
    }
    struct net n = net_open(2);
    const char *path = FILE_WITH(ARRAY("dense1.weight", F64, f64, 2, IN, HIDDEN),
                                 ARRAY("dense1.bias", F16, f16, 1, HIDDEN),
                                 ARRAY("dense2.weight", BF16, bf16, 2, HIDDEN, OUT));
    FAILS(COPSE_ERR_SHAPE,
          copse_trainer_load(n.t, path, &(struct copse_load_params){ .is_exact = true }, &r),
          "f64");
    assert_int_equal(r.matched_count, 0);
    is_untouched(&n);
    OK(copse_trainer_load(n.t, path, NULL, &r));
    assert_int_equal(r.converted, 3);
    has(n.w1, W1, w1_rounded);
    has(n.b1, HIDDEN, bias_f16);
    has(n.w2, W2, w2_bf16);
    FAILS(COPSE_ERR_NONFINITE,
          copse_trainer_load(n.t, FILE_WITH(ARRAY("dense1.bias", F64, too_large, 1, HIDDEN)), NULL,
                             &r),
          "infinite at element 1 as an f32");
    has(n.b1, HIDDEN, bias_f16);
    net_close(&n);
}

/* The first array is right each time: it is not written either. */
static void what_does_not_fit_is_refused_and_nothing_changes(void **state)
{
    (void)state;
    const float nan_bias[HIDDEN] = { 0, 0, NAN, 0 };
    const int32_t ints[W1] = { 0 };
    const int64_t longs[2] = { 0 };
    const uint16_t halves[W1] = { 0 };
    struct net n = net_open(2);
#define REFUSED(code, word, ...)                                                               \
    do {                                                                                       \
        FAILS(code,                                                                            \
              copse_trainer_load(                                                              \
                  n.t, FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN), __VA_ARGS__), \
                  NULL, NULL),                                                                 \
              word);                                                                           \
        is_untouched(&n);                                                                      \
    } while (0)
    REFUSED(COPSE_ERR_SHAPE, "'dense1.bias' is f32 [5], the variable is f32 [4]",
            ARRAY("dense1.bias", F32, w1, 1, 5));
    REFUSED(COPSE_ERR_SHAPE, "f32 [2, 4]", ARRAY("dense2.weight", F32, w2, 2, OUT, HIDDEN));
    REFUSED(COPSE_ERR_SHAPE, "transposed it would fit",
            ARRAY("dense2.weight", F32, w2, 2, OUT, HIDDEN));
    REFUSED(COPSE_ERR_SHAPE, "f32 [8]", ARRAY("dense2.weight", F32, w2, 1, W2));
    REFUSED(COPSE_ERR_SHAPE, "'dense2.weight' is i32, the variable is f32",
            ARRAY("dense2.weight", I32, ints, 2, HIDDEN, OUT));
    REFUSED(COPSE_ERR_SHAPE, "u16", ARRAY("dense2.weight", U16, halves, 2, HIDDEN, OUT));
    REFUSED(COPSE_ERR_SHAPE, "'count' is i64, the variable is i32",
            ARRAY("count", I64, longs, 1, 2));
    REFUSED(COPSE_ERR_SHAPE, "'count' is f32, the variable is i32", ARRAY("count", F32, w1, 1, 2));
    REFUSED(COPSE_ERR_NONFINITE, "NaN at element 2",
            ARRAY("dense1.bias", F32, nan_bias, 1, HIDDEN));
#undef REFUSED
    const struct copse_load_params all = { .needs_all = true },
                                   wrong = { .layout = (copse_weight_layout)9 };
    const char *path = FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, path, &all, NULL),
          "lacks 'dense1.bias' and others");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, path, &wrong, NULL), "layout 9");
    path = FILE_WITH(ARRAY("linear.weight", F32, w1, 2, IN, HIDDEN));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, path, NULL, NULL),
          "it has 'linear.weight', the variables are 'dense1.weight'");
    FAILS(COPSE_ERR_IO, copse_trainer_load(n.t, temp_path("none"), NULL, NULL), "none");
    FAILS(COPSE_ERR_FORMAT, copse_trainer_load(n.t, temp_text("bad", "no safetensors"), NULL, NULL),
          "bad");
    is_untouched(&n);
    net_close(&n);
}

/* ---- the layout of PyTorch ---- */

static void transposed_matrices_are_loaded_when_asked_for(void **state)
{
    (void)state;
    float turned1[W1], turned2[W2];
    for (int i = 0; i < IN; i++)
        for (int o = 0; o < HIDDEN; o++)
            turned1[o * IN + i] = w1[i * HIDDEN + o];
    for (int i = 0; i < HIDDEN; i++)
        for (int o = 0; o < OUT; o++)
            turned2[o * HIDDEN + i] = w2[i * OUT + o];
    const struct copse_named_array arrays[] = { ARRAY("dense1.weight", F32, turned1, 2, HIDDEN, IN),
                                                ARRAY("dense1.bias", F32, bias, 1, HIDDEN),
                                                ARRAY("dense2.weight", F32, turned2, 2, OUT,
                                                      HIDDEN) };
    const struct copse_load_params torch = { .layout = COPSE_LAYOUT_TORCH };
    struct net n = net_open(2);
    const char *path = file_with(arrays, 3, NULL);
    FAILS(COPSE_ERR_SHAPE, copse_trainer_load(n.t, path, NULL, NULL), "PyTorch");
    is_untouched(&n);
    OK(copse_trainer_load(n.t, path, &torch, NULL));
    has(n.w1, W1, w1);
    has(n.b1, HIDDEN, bias);
    has(n.w2, W2, w2);
    FAILS(COPSE_ERR_SHAPE,
          copse_trainer_load(n.t, FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN)), &torch,
                             NULL),
          "without that it would fit");
    net_close(&n);
}

static void files_of_pytorch_need_a_layout(void **state)
{
    (void)state;
    const struct copse_metadata pt = { "format", "pt" };
    const struct copse_named_array matrix[] = { ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN) };
    const struct copse_named_array vector[] = { ARRAY("dense1.bias", F32, bias, 1, HIDDEN) };
    struct net n = net_open(1);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, file_with(matrix, 1, &pt), NULL, NULL),
          "\"pt\"");
    is_untouched(&n);
    OK(copse_trainer_load(n.t, file_with(vector, 1, &pt), NULL, NULL));
    OK(copse_trainer_load(n.t, file_with(matrix, 1, &pt),
                          &(struct copse_load_params){ .layout = COPSE_LAYOUT_COPSE }, NULL));
    has(n.w1, W1, w1);
    net_close(&n);
}

/* torch.nn.Embedding has [rows, width], as here. */
static void embeddings_are_not_transposed(void **state)
{
    (void)state;
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, rig_devices, 1, NULL, &st));
    struct net n = net_on(st);
    copse_variable *embedding =
        make(st, "net/embedding1.weight", COPSE_SHAPE(3, 3), COPSE_F32, false);
    copse_variable *square = make(st, "dense3.weight", COPSE_SHAPE(3, 3), COPSE_F32, false);
    float turned[9], nine[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    for (int i = 0; i < 9; i++)
        turned[i] = nine[i % 3 * 3 + i / 3];
    net_train(&n);
    OK(copse_trainer_load(n.t,
                          FILE_WITH(ARRAY("net/embedding1.weight", F32, nine, 2, 3, 3),
                                    ARRAY("dense3.weight", F32, nine, 2, 3, 3)),
                          &(struct copse_load_params){ .layout = COPSE_LAYOUT_TORCH }, NULL));
    has(embedding, 9, nine);
    has(square, 9, turned);
    net_close(&n);
}

/* ---- strategies ---- */

static void every_strategy_loads(void **state)
{
    (void)state;
    const char *const twice[2] = { "host:0", "host:0" };
    copse_strategy *list[4] = { NULL };
    OK(copse_one_device_create(ctx, rig_devices[1], NULL, &list[0]));
    OK(copse_accelerator_create(
        ctx, twice, 2, &(struct copse_accelerator_params){ .steps_per_run = 2 }, &list[1]));
    OK(copse_parameter_server_create(ctx, NULL, twice, 2, NULL, &list[2]));
    OK(copse_collective_create(ctx, NULL, twice, 2, NULL, &list[3]));
    for (int i = 0; i < 4; i++) {
        struct net n = net_on(list[i]);
        net_train(&n);
        OK(copse_trainer_load(n.t, FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN)), NULL,
                              NULL));
        has(n.w1, W1, w1);
        has(n.b1, HIDDEN, ones);
        net_close(&n);
    }
}

static copse_tensor *part_loss(copse_graph *g, const copse_batch *in, void *user)
{
    (void)in;
    return copse_mean(g, user, NULL, 0, false);
}

/* A variable that is partitioned is one array of the file; in PyTorch's layout too. */
static void parts_are_loaded_from_one_array(void **state)
{
    (void)state;
    copse_strategy *st = NULL;
    copse_partitioned *parts = NULL;
    copse_trainer *t = NULL;
    copse_variable *const *list = NULL;
    size_t count = 0;
    float turned[W1], got[W1];
    OK(copse_mirrored_create(ctx, rig_devices, 1, NULL, &st));
    OK(copse_partitioned_create(
        st, &(struct copse_variable_params){ .name = "big", .shape = COPSE_SHAPE(HIDDEN, IN) }, 2,
        &parts));
    copse_partitioned_parts(parts, &list, &count);
    assert_int_equal(count, 2);
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = part_loss, .user = copse_variable_tensor(list[0]) },
        &t));
    for (int torch = 0; torch < 2; torch++) {
        for (int i = 0; i < W1; i++)
            turned[i] = torch ? w1[i % IN * HIDDEN + i / IN] : w1[i];
        OK(copse_trainer_load(
            t,
            torch ? FILE_WITH(ARRAY("big", F32, w1, 2, IN, HIDDEN))
                  : FILE_WITH(ARRAY("big", F32, w1, 2, HIDDEN, IN)),
            &(struct copse_load_params){ .layout = torch ? COPSE_LAYOUT_TORCH : COPSE_LAYOUT_AUTO },
            NULL));
        OK(copse_variable_read(list[0], 0, got));
        OK(copse_variable_read(list[1], 0, got + W1 / 2));
        assert_memory_equal(got, turned, sizeof got);
    }
    copse_trainer_release(&t);
    copse_partitioned_release(&parts);
    copse_strategy_release(&st);
}

static void accumulated_micro_batches_are_refused(void **state)
{
    (void)state;
    const float x[2 * IN] = { 1, 2, 3, 4, 5, 6 }, y[2 * OUT] = { 0 };
    const struct copse_host_batch batch = { RIG_PAIR(IN, x, OUT, y), .count = 2 };
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, rig_devices, 1, NULL, &st));
    struct net n = net_on(st);
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = net_loss, .user = &n, .accumulate = 2 }, &n.t));
    OK(copse_trainer_step(n.t, &batch));
    const char *path = FILE_WITH(ARRAY("dense1.weight", F32, w1, 2, IN, HIDDEN));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_load(n.t, path, NULL, NULL), "accumulated");
    is_untouched(&n);
    OK(copse_trainer_flush(n.t));
    OK(copse_trainer_load(n.t, path, NULL, NULL));
    net_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_matched_and_reported),
        cmocka_unit_test(variables_are_left_out),
        cmocka_unit_test(training_goes_on_from_the_values),
        cmocka_unit_test(floats_are_converted_or_refused),
        cmocka_unit_test(what_does_not_fit_is_refused_and_nothing_changes),
        cmocka_unit_test(transposed_matrices_are_loaded_when_asked_for),
        cmocka_unit_test(files_of_pytorch_need_a_layout),
        cmocka_unit_test(embeddings_are_not_transposed),
        cmocka_unit_test(every_strategy_loads),
        cmocka_unit_test(parts_are_loaded_from_one_array),
        cmocka_unit_test(accumulated_micro_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
