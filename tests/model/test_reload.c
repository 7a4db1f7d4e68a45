/* SPDX-License-Identifier: MIT */
/* Models that are replaced in a running program: the variables of a released model go with it, and
   no memory grows; they stay where something else may use them. */
#include "copse/distribute/replica.h"
#include "copse/train/model_file.h"

#include "tests/rig/train/model_rig.h"

#include <stdlib.h>

enum { ROWS = 40, IN = 3, RELOADS = 1000 };

static float x[ROWS * IN];
static int32_t y[ROWS];
static copse_dataset *data;
static size_t live; /* bytes of the context */

/* Counts bytes: the size is in front of a block. */
static void *count_bytes(void *user, void *block, size_t size)
{
    (void)user;
    max_align_t *at = block ? (max_align_t *)block - 1 : NULL;
    const size_t before = at ? *(size_t *)at : 0;
    if (size == 0) {
        live -= before;
        free(at);
        return NULL;
    }
    at = realloc(at, sizeof *at + size);
    if (!at)
        return NULL;
    live += size - before;
    *(size_t *)at = size;
    return at + 1;
}

static int setup(void **state)
{
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < ROWS; i++)
        y[i] = x[i * IN] > 0.0f;
    temp_begin();
    if (open_context(state))
        return 1;
    const struct copse_array_view features = { COPSE_F32, 2, { ROWS, IN }, x },
                                  labels = { COPSE_I32, 1, { ROWS }, y };
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &data));
    return 0;
}

static int teardown(void **state)
{
    copse_dataset_release(&data);
    temp_end();
    return close_context(state);
}

static const char network[] = "dense 6 relu; batch_norm; dense out";

static size_t count_of(copse_strategy *st)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    return count;
}

static copse_model *load(copse_strategy *st, const char *path, const char *scope)
{
    copse_model *m = NULL;
    OK(copse_model_load(st, path, &(struct copse_model_load_params){ .scope = scope }, &m));
    return m;
}

static void save(const char *path, const char *scope, float *values)
{
    copse_strategy *st = strategy_of(ctx, 1);
    copse_model *m = make_model(st, data, network, scope);
    copse_trainer *t = train(m, data, 2);
    OK(copse_model_predict(m, data, values));
    OK(copse_model_save(m, path, NULL));
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_strategy_release(&st);
}

static void assert_close(const float *a, const float *b)
{
    for (int i = 0; i < 2 * ROWS; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f))
            fail_msg("number %d is %g instead of %g", i, (double)a[i], (double)b[i]);
}

/* The newer file is there before the older model goes. */
static void a_model_is_replaced_again_and_again(void **state)
{
    float wanted[2][2 * ROWS], values[2 * ROWS];
    copse_context *own = NULL;
    copse_strategy *st = NULL;
    copse_model *m[2] = { NULL, NULL };
    size_t after = 0;
    (void)state;
    save(temp_path("0.safetensors"), NULL, wanted[0]);
    save(temp_path("1.safetensors"), "net", wanted[1]);
    OK(copse_context_create(&(struct copse_context_params){ .resize = count_bytes }, &own));
    OK(copse_one_device_create(own, "host:0", NULL, &st));
    copse_dataset *rows = NULL;
    const struct copse_array_view features = { COPSE_F32, 2, { ROWS, IN }, x };
    OK(copse_dataset_create(own, &features, NULL, NULL, &rows));
    for (int i = 0; i < RELOADS; i++) {
        const int at = i % 2;
        copse_model *next =
            load(st, temp_path(at ? "1.safetensors" : "0.safetensors"), at ? "odd" : "even");
        OK(copse_model_predict(next, rows, values));
        assert_close(values, wanted[at]);
        copse_model_release(&m[0]);
        m[0] = next;
        assert_int_equal(count_of(st), 8);
        if (i == 20)
            after = live;
        else if (i > 20 && i % 2 == 0 && live != after)
            fail_msg("%zu bytes after %d reloads, %zu after 20", live, i, after);
    }
    copse_model_release(&m[0]);
    assert_int_equal(count_of(st), 0);
    copse_dataset_release(&rows);
    copse_strategy_release(&st);
    copse_context_release(&own);
    assert_int_equal(live, 0);
}

/* With the same name, one after the other, on three replicas; the pieces of both are one if both are
   there before the first prediction. */
static void names_are_free_again(void **state)
{
    float wanted[2 * ROWS], values[2 * ROWS];
    copse_strategy *st = strategy_of(ctx, 3);
    copse_model *again = NULL;
    (void)state;
    save(temp_path("m.safetensors"), "net", wanted);
    for (int i = 0; i < 5; i++) {
        copse_model *m = load(st, temp_path("m.safetensors"), NULL);
        FAILS(COPSE_ERR_ARGUMENT, copse_model_load(st, temp_path("m.safetensors"), NULL, &again),
              "the strategy has a variable 'net/dense1.weight'");
        assert_int_equal(count_of(st), 8); /* the failed one left nothing */
        copse_model *other = load(st, temp_path("m.safetensors"), "");
        OK(copse_model_predict(m, data, values));
        assert_close(values, wanted);
        copse_model_release(i % 2 ? &m : &other);
        OK(copse_model_predict(m ? m : other, data, values));
        assert_close(values, wanted);
        copse_model_release(i % 2 ? &other : &m);
        assert_int_equal(count_of(st), 0);
    }
    copse_strategy_release(&st);
}

/* Variables after the released ones keep their values, and are trained. */
static void other_variables_stay(void **state)
{
    float wanted[2 * ROWS], values[2 * ROWS], bias[12], after;
    copse_strategy *st = strategy_of(ctx, 2);
    copse_variable *v = NULL, *const * list;
    size_t count;
    const float start = 0.5f;
    (void)state;
    save(temp_path("m.safetensors"), NULL, wanted);
    copse_model *first = load(st, temp_path("m.safetensors"), "first");
    OK(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "own", .shape = COPSE_SHAPE(1), .values = &start },
        &v));
    copse_model *m = make_model(st, data, network, "second");
    OK(copse_model_predict(first, data, values)); /* all have places now */
    assert_close(values, wanted);
    copse_strategy_variables(st, &list, &count);
    copse_variable *const gone = list[0];
    copse_model_release(&first);
    assert_int_equal(count_of(st), 9);
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_read(gone, 0, bias),
          "was released with its strategy or model");
    OK(copse_variable_read(v, 0, &after));
    assert_true(after == start);
    copse_strategy_variables(st, &list, &count); /* the weight of "second" is 1, its bias 2 */
    OK(copse_variable_read(list[1], 1, values));
    OK(copse_variable_read(list[2], 1, bias));
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    struct copse_host_batch batch;
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = copse_model_loss,
                                        .user = m,
                                        .variables = (copse_variable *const[]){ list[1] },
                                        .variable_count = 1 },
        &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = ROWS }, &batches));
    OK(copse_loader_next(batches, &batch));
    OK(copse_trainer_step(t, &batch));
    copse_loader_release(&batches);
    OK(copse_variable_read(list[1], 1, values + IN * 6));
    assert_true(values[0] != values[IN * 6]);
    OK(copse_variable_read(list[2], 1, bias + 6));
    assert_memory_equal(bias, bias + 6, 6 * sizeof *bias);
    OK(copse_variable_read(v, 0, &after));
    assert_true(after == start);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_strategy_variables(st, &list, &count);
    assert_true(count == 1 && list[0] == v);
    copse_strategy_release(&st);
}

/* A trainer, a value or a layer may still use them. */
static void variables_in_use_stay(void **state)
{
    copse_strategy *st = strategy_of(ctx, 1);
    copse_variable *const *list;
    copse_value *value = NULL;
    float number[IN * 6];
    size_t count;
    (void)state;
    copse_model *m = make_model(st, data, network, "trained");
    copse_trainer *t = train(m, data, 1);
    copse_model_release(&m);
    assert_int_equal(count_of(st), 8);
    copse_trainer_release(&t);
    m = make_model(st, data, network, "layers");
    copse_layer *kept = copse_layer_retain(copse_model_layer(m));
    copse_model_release(&m);
    assert_int_equal(count_of(st), 16);
    copse_layer_release(&kept);
    m = make_model(st, data, network, "values");
    copse_strategy_variables(st, &list, &count);
    copse_variable *const v = list[16];
    OK(copse_variable_value(v, &value));
    copse_model_release(&m);
    assert_int_equal(count_of(st), 24);
    OK(copse_variable_read(v, 0, number));
    copse_value_release(&value);
    /* with nothing in use, the next one goes */
    m = make_model(st, data, network, "last");
    copse_model_release(&m);
    assert_int_equal(count_of(st), 24);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_replaced_again_and_again),
        cmocka_unit_test(names_are_free_again),
        cmocka_unit_test(other_variables_stay),
        cmocka_unit_test(variables_in_use_stay),
    };
    return cmocka_run_group_tests_name("reload", tests, setup, teardown);
}
