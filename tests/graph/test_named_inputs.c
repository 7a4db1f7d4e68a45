/* SPDX-License-Identifier: MIT */
/* Batches of named inputs of several types: they train under every strategy, with the bits of the
   same numbers as f32; and the rules that names and columns have. */
#include "copse/loop/feed.h"

#include "tests/rig/graph_rig.h"
#include "tests/rig/train/step_rig.h"

#include "copse/device/function.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/value.h"
#include "core/base/base.h"
#include "tests/rig/train/named_model.h"

static struct named_data data;

struct way {
    const char *const *ids;
    size_t count;
    uint32_t prefetch, steps_per_run;
    bool is_served;
};

static copse_strategy *strategy_of(const struct way *p)
{
    copse_strategy *st = NULL;
    if (p->steps_per_run > 0)
        OK(copse_accelerator_create(
            ctx, p->ids, p->count,
            &(struct copse_accelerator_params){ .steps_per_run = p->steps_per_run }, &st));
    else if (p->is_served)
        OK(copse_parameter_server_create(ctx, NULL, p->ids, p->count, NULL, &st));
    else if (p->count == 1)
        OK(copse_one_device_create(ctx, p->ids[0], NULL, &st));
    else
        OK(copse_mirrored_create(ctx, p->ids, p->count, NULL, &st));
    return st;
}

static void step(copse_trainer *t, const struct way *p, const struct copse_host_batch *b,
                 uint32_t i)
{
    const bool is_fed = p->prefetch > 0 || p->steps_per_run > 0;
    if (is_fed)
        OK(copse_trainer_feed(t, b));
    if (p->steps_per_run == 0)
        OK(copse_trainer_step(t, is_fed ? NULL : b));
    else if ((i + 1) % p->steps_per_run == 0)
        OK(copse_trainer_run(t));
}

/* The weights after NAMED_STEPS steps. */
static void train(const struct way *p, enum named_form form, float out[NAMED_WEIGHTS])
{
    struct named_model m;
    copse_strategy *st = strategy_of(p);
    copse_trainer *t;
    copse_dataset *ds;
    copse_loader *batches;
    struct copse_step_result first = { .loss = 0 }, last = { .loss = 0 };
    copse_status s;
    OK(named_create(st, &m, p->prefetch, &t));
    OK(named_dataset(ctx, &data, form, &ds));
    OK(copse_loader_create(
        ds, &(struct copse_loader_params){ .batch = NAMED_BATCH, .seed = 1, .prefetch = 2 },
        &batches));
    for (uint32_t i = 0; i < NAMED_STEPS; i++) {
        struct copse_host_batch b;
        if (i % 4 == 0)
            OK(copse_loader_start(batches, i / 4, 0));
        OK(copse_loader_next(batches, &b));
        step(t, p, &b, i);
    }
    OK(copse_trainer_result(t, true, &first));
    while ((s = copse_trainer_result(t, true, &last)) == COPSE_OK)
        continue;
    assert_int_equal(s, COPSE_ERR_END);
    assert_true(last.loss < 0.8 * first.loss);
    OK(copse_variable_read(m.w, 0, out));
    copse_loader_release(&batches);
    copse_dataset_release(&ds);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void types_have_the_bits_of_f32(void **state)
{
    static const char *const cores[] = { "host:0", "host:0" };
    const struct way ways[] = {
        { .ids = rig_devices, .count = 1 },
        { .ids = rig_devices + 1, .count = 1 },
        { .ids = rig_devices + 2, .count = 1, .prefetch = 1 },
        { .ids = rig_devices + 1, .count = 2, .prefetch = 2 },
        { .ids = rig_devices, .count = 3 },
        { .ids = cores, .count = 2, .steps_per_run = 4 },
        { .ids = rig_devices, .count = 3, .steps_per_run = 2 },
        { .ids = rig_devices, .count = 3, .prefetch = 2, .is_served = true },
    };
    (void)state;
    named_fill(&data);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float typed[NAMED_WEIGHTS], plain[NAMED_WEIGHTS];
        train(&ways[i], NAMED_F32, plain);
        for (enum named_form form = NAMED_TYPED; form < NAMED_FORMS; form++) {
            train(&ways[i], form, typed);
            assert_memory_equal(typed, plain, sizeof typed);
        }
    }
}

/* ---- datasets ---- */

static void dataset_keeps_types_and_rows(void **state)
{
    copse_dataset *ds, *train_part, *test_part;
    struct copse_dataset_info info;
    struct copse_column c;
    uint8_t image[2][NAMED_PIXELS];
    int32_t tokens[2][NAMED_TOKENS];
    static const uint32_t rows[] = { 17, 3 };
    (void)state;
    named_fill(&data);
    OK(named_dataset(ctx, &data, NAMED_TYPED, &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rows, NAMED_ROWS);
    assert_int_equal(info.columns, 3);
    OK(copse_dataset_column(ds, 0, &c));
    assert_string_equal(c.name, "image");
    assert_true(c.type == COPSE_U8 && c.shape.rank == 2 && c.shape.dims[1] == NAMED_SIDE &&
                !c.data);
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_column(ds, 3, &c), "no column 3");
    OK(copse_dataset_gather(ds, "image", rows, 2, image));
    OK(copse_dataset_gather(ds, "tokens", rows, 2, tokens));
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(image[i], data.image[rows[i]], NAMED_PIXELS);
        assert_memory_equal(tokens[i], data.tokens[rows[i]], sizeof tokens[i]);
    }
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_gather(ds, "labels", rows, 2, image),
          "no column 'labels'");
    OK(copse_dataset_split(ds, NULL, &train_part, &test_part));
    copse_dataset_describe(test_part, &info);
    assert_int_equal(info.columns, 3);
    copse_dataset_release(&train_part);
    copse_dataset_release(&test_part);
    copse_dataset_release(&ds);
    const struct copse_column twice[] = { { "a", COPSE_U8, COPSE_SCALAR, image },
                                          { "a", COPSE_U8, COPSE_SCALAR, image } };
    const struct copse_column blank = { "", COPSE_U8, COPSE_SCALAR, image },
                              none = { "a", COPSE_U8, COPSE_SCALAR, NULL };
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_columns(ctx, twice, 2, 2, &ds), "both named 'a'");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_columns(ctx, &blank, 1, 2, &ds), "no name");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_columns(ctx, &none, 1, 2, &ds), "no data");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_columns(ctx, twice, COPSE_MAX_INPUTS + 1, 2, &ds),
          "1 to 64");
    FAILS(COPSE_ERR_SHAPE, copse_dataset_columns(ctx, twice, 1, 0, &ds), "1 to 2^32-1 rows");
}

/* ---- names ---- */

static const copse_batch *kept; /* after the call */

static copse_tensor *asks(copse_graph *g, const copse_batch *in, void *user)
{
    kept = in;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *again = copse_input(in, "x");
    CHECK_GRAPH(g, again == x);
    if (copse_tensor_shape(x).dims[0] == 1)
        x = copse_mul(g, x, copse_input(in, "mask"));
    x = copse_mul(g, x, copse_variable_tensor(user));
    return copse_mean(g, x, NULL, 0, false);
}

static void names_have_rules(void **state)
{
    static const float x[4] = { 1, 2, 3, 4 };
    static const uint8_t bytes[12] = { 0 };
    const struct copse_column good = { "x", COPSE_F32, COPSE_SHAPE(1), x },
                              image = { "image", COPSE_U8, COPSE_SHAPE(3), bytes };
    copse_strategy *st = rig_strategy(1, NULL);
    copse_variable *w = rig_scalar(st, "w", 1.0f);
    copse_trainer *t;
    (void)state;
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = asks, .user = w }, &t));
    struct copse_column c[COPSE_MAX_INPUTS + 1] = { good, image };
    struct copse_host_batch b = { .columns = c, .column_count = 2, .count = 4 };
    OK(copse_trainer_step(t, &b));
    c[1].data = NULL; /* the loss does not ask for it */
    OK(copse_trainer_step(t, &b));
    c[0].data = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "needs the input 'x'");
    c[0].data = x;
    b.count = 1;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b),
          "the batch has no 'mask', it has x f32[1, 1], image u8[1, 3]");
    b.count = 4;
    c[1].name = "x";
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "both named 'x'");
    c[1].name = "";
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "empty name");
    c[1].name = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "no name");
    c[1] = image;
    c[1].type = (copse_type)77;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "no element type 77");
    b.column_count = COPSE_MAX_INPUTS + 1;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "1 to 64 inputs");
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(NULL, copse_input(NULL, "x")), "NULL");
    const copse_batch own = { .is_training = true };
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(NULL, copse_input(&own, "x")),
          "builds no graph from the batch");
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(NULL, copse_input(kept, "x")),
          "builds no graph from the batch");
    assert_int_equal(copse_trainer_steps(t), 2);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- types of arrays alone ---- */

/* Each call names the type and those that it takes. */
static void types_of_arrays_are_refused(void **state)
{
    static const double x[2] = { 1, 2 };
    const struct copse_column column = { "x", COPSE_F64, COPSE_SCALAR, x };
    const struct copse_host_batch b = { .columns = &column, .column_count = 1, .count = 2 };
    const struct copse_variable_params double_variable = { .name = "d", .type = COPSE_F64 };
    copse_strategy *st = rig_strategy(1, NULL);
    copse_variable *w = rig_scalar(st, "w", 1.0f), *v;
    copse_dataset *ds;
    copse_value *value;
    copse_trainer *t;
    copse_graph *g;
    (void)state;
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = asks, .user = w }, &t));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b),
          "input 'x': f64 is a type of arrays alone; f32, i32, u8, f16, bf16 or i64 is needed");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_columns(ctx, &column, 1, 2, &ds),
          "column 'x': f64 is a type of arrays alone; f32, i32, u8, f16, bf16 or i64 is needed");
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(st, &double_variable, &v),
          "(f64): f32 or i32 is needed");
    FAILS(COPSE_ERR_ARGUMENT, copse_value_create(ctx, COPSE_U16, COPSE_SCALAR, x, &value),
          "(u16): f32, i32, u8, f16, bf16 or i64 is needed");
    static const copse_type types[] = { COPSE_BOOL, COPSE_I8,  COPSE_I16, COPSE_U16,
                                        COPSE_U32,  COPSE_U64, COPSE_F64 };
    for (size_t i = 0; i < COPSE_COUNT(types); i++) {
        char text[64];
        snprintf(text, sizeof text, "input 'x': %s is a type of arrays", copse_type_name(types[i]));
        OK(copse_graph_create(ctx, &g));
        FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_graph_input(g, "x", types[i], COPSE_SCALAR)),
              text);
        copse_graph_release(&g);
        OK(copse_graph_create(ctx, &g));
        copse_tensor *y = copse_graph_input(g, "y", COPSE_F32, COPSE_SCALAR);
        FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_cast(g, y, types[i])),
              "cast: to f32, i32, f16 or bf16");
        copse_graph_release(&g);
    }
    assert_int_equal(copse_type_size(COPSE_F64), 8);
    assert_int_equal(copse_type_size((copse_type)13), 0);
    assert_string_equal(copse_type_name((copse_type)13), "?");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- host types ---- */

static copse_tensor *sums(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    CHECK_GRAPH(g, copse_tensor_type(x) == COPSE_I32);
    x = copse_cast(g, x, COPSE_F32);
    x = copse_mul(g, x, copse_variable_tensor(user));
    return copse_sum(g, x, NULL, 0, false);
}

/* More elements than are converted at once; the ends of i32; what does not fit changes nothing. */
static void i64_inputs_are_i32_on_devices(void **state)
{
    enum { N = 2500 };
    static int64_t x[2][N];
    const struct copse_column column = { "x", COPSE_I64, COPSE_SHAPE(N), x };
    const struct copse_host_batch b = { .columns = &column, .column_count = 1, .count = 2 };
    copse_strategy *st = rig_strategy(2, NULL);
    copse_variable *w = rig_scalar(st, "w", 1.0f);
    copse_trainer *t;
    struct copse_step_result r;
    (void)state;
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = sums, .user = w, .optimizer = { .kind = COPSE_SGD } },
                            &t));
    for (int i = 0; i < N; i++)
        x[0][i] = i - 7, x[1][i] = 2 * i;
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += 3.0 * i - 7;
    OK(copse_trainer_evaluate(t, &b, &r));
    assert_float_equal(r.loss, sum / 2, 1e-6 * sum); /* the mean over two replicas' losses */
    x[0][N - 1] = INT32_MAX;
    x[1][0] = INT32_MIN;
    OK(copse_trainer_evaluate(t, &b, &r));
    x[1][3] = (int64_t)INT32_MAX + 1;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b), "'x' has 2147483648 in example 1");
    x[1][3] = INT64_MIN;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &b),
          "'x' has -9223372036854775808 in example 1");
    assert_int_equal(copse_trainer_steps(t), 0);
    x[1][3] = 0;
    OK(copse_trainer_step(t, &b));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    copse_graph *g;
    OK(copse_graph_create(ctx, &g));
    FAILS(COPSE_ERR_UNSUPPORTED,
          rig_failure(g, copse_graph_input(g, "x", COPSE_I64, COPSE_SHAPE(2))),
          "an input of a graph is i32");
    copse_graph_release(&g);
}

/* ---- bytes in graphs ---- */

static void bytes_are_converted_first(void **state)
{
    static const uint8_t bytes[] = { 0, 1, 127, 128, 200, 254, 255 };
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        copse_device *dev;
        copse_graph *g;
        copse_tensor *x, *outputs[2];
        copse_function *f;
        float floats[7];
        int32_t whole[7];
        OK(copse_device_open(ctx, rig_devices[k], NULL, &dev));
        OK(copse_graph_create(ctx, &g));
        x = copse_graph_input(g, "x", COPSE_U8, COPSE_SHAPE(7));
        FAILS(COPSE_ERR_UNSUPPORTED, rig_failure(g, copse_relu(g, x)), "copse_cast");
        FAILS(COPSE_ERR_UNSUPPORTED, rig_failure(g, copse_add(g, x, x)), "copse_cast");
        outputs[0] = copse_cast(g, x, COPSE_F32);
        outputs[1] = copse_cast(g, x, COPSE_I32);
        OK(copse_function_create(
            dev,
            &(struct copse_function_params){ .graph = g, .outputs = outputs, .output_count = 2 },
            &f));
        OK(copse_function_write(f, x, bytes));
        OK(copse_function_run(f));
        OK(copse_function_read(f, 0, floats));
        OK(copse_function_read(f, 1, whole));
        for (int i = 0; i < 7; i++)
            assert_true(floats[i] == (float)bytes[i] && whole[i] == bytes[i]);
        copse_function_release(&f);
        copse_graph_release(&g);
        copse_device_release(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_the_bits_of_f32),
        cmocka_unit_test(dataset_keeps_types_and_rows),
        cmocka_unit_test(names_have_rules),
        cmocka_unit_test(types_of_arrays_are_refused),
        cmocka_unit_test(i64_inputs_are_i32_on_devices),
        cmocka_unit_test(bytes_are_converted_first),
    };
    return cmocka_run_group_tests_name("named_inputs", tests, open_context, close_context);
}
