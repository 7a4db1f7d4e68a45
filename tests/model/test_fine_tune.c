/* SPDX-License-Identifier: MIT */
/* Fine-tuning: a model takes the body of a file, and of other classes no head; frozen layers keep
   their bits and cost no backward pass. */
#include "copse/train/fine_tune.h"
#include "core/train/trainer.h"
#include "tests/rig/train/model_rig.h"

enum { ROWS = 96, IN = 5, WIDTH = 8, DEEP = 4 };

static float x[ROWS * IN];
static int32_t y[ROWS];

static int setup(void **state)
{
    uint32_t r = 99;
    for (int i = 0; i < ROWS * IN; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = (float)(r >> 8) / 16777216.0f;
    }
    temp_begin();
    return open_context(state);
}

static int teardown(void **state)
{
    temp_end();
    return close_context(state);
}

static copse_dataset *data_of(int classes)
{
    copse_dataset *data = NULL;
    const struct copse_array_view features = { COPSE_F32, 2, { ROWS, IN }, x },
                                  labels = { COPSE_I32, 1, { ROWS }, y };
    for (int i = 0; i < ROWS; i++)
        y[i] = i % classes;
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &data));
    return data;
}

static void values_of(const copse_model *m, size_t i, float to[WIDTH * WIDTH])
{
    size_t count;
    copse_variable *const *list = copse_model_variables(m, &count);
    assert_true(i < count);
    memset(to, 0, WIDTH * WIDTH * sizeof *to);
    OK(copse_variable_read(list[i], 0, to));
}

/* Whether variable i has the same bits in both. */
static bool is_same(const copse_model *a, const copse_model *b, size_t i)
{
    float p[WIDTH * WIDTH], q[WIDTH * WIDTH];
    values_of(a, i, p);
    values_of(b, i, q);
    return memcmp(p, q, sizeof p) == 0;
}

static const char *const network = "dense 8 relu; dense out";

static void save_trained(int classes)
{
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = data_of(classes);
    copse_model *m = make_model(st, data, network, NULL);
    copse_trainer *t = train(m, data, 2);
    OK(copse_model_save(m, temp_path("m.safetensors"), NULL));
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

static bool leaves_bias(void *user, const copse_checkpoint *file, const char *name)
{
    (void)user, (void)file;
    return strcmp(name, "dense1.bias") != 0;
}

/* With a trainer and without; on several replicas. */
static void a_head_of_other_classes_stays_new(void **state)
{
    copse_model *source = NULL;
    (void)state;
    save_trained(3);
    copse_strategy *first = strategy_of(ctx, 1);
    OK(copse_model_load(first, temp_path("m.safetensors"), NULL, &source));
    for (int way = 0; way < 2; way++) {
        copse_strategy *st = strategy_of(ctx, 2), *other = strategy_of(ctx, 2);
        copse_dataset *data = data_of(2);
        copse_model *m = make_model(st, data, network, NULL),
                    *fresh = make_model(other, data, network, NULL);
        copse_trainer *t = NULL;
        struct copse_model_weights w;
        size_t head;
        if (way == 1)
            OK(copse_trainer_create(
                st, &(struct copse_trainer_params){ .loss = copse_model_loss, .user = m }, &t));
        OK(copse_model_load_weights(m, t, temp_path("m.safetensors"), NULL, &w));
        assert_int_equal(w.load.matched_count, 2);
        assert_string_equal(w.load.matched[1], "dense1.bias");
        assert_int_equal(w.load.skipped_count, 2);
        assert_string_equal(w.head, "the file has 3 classes, the data 2");
        assert_string_equal(w.input, "");
        assert_true(w.has_schema);
        assert_ptr_equal(copse_model_head(m, &head), copse_model_variables(m, NULL) + 2);
        assert_int_equal(head, 2);
        for (size_t i = 0; i < 2; i++)
            assert_true(is_same(m, source, i) && !is_same(fresh, source, i));
        for (size_t i = 2; i < 4; i++)
            assert_true(is_same(m, fresh, i));

        /* the caller's choice counts, too; the report of an error says nothing */
        const struct copse_load_params mine = { .choose = leaves_bias };
        OK(copse_model_load_weights(m, t, temp_path("m.safetensors"), &mine, &w));
        assert_int_equal(w.load.matched_count, 1);
        assert_int_equal(w.load.skipped_count, 3);
        FAILS(COPSE_ERR_IO, copse_model_load_weights(m, t, temp_path("none"), NULL, &w), "none");
        assert_int_equal(w.load.matched_count, 0);
        copse_trainer_release(&t);
        copse_model_release(&fresh);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_strategy_release(&other);
        copse_strategy_release(&st);
    }
    copse_model_release(&source);
    copse_strategy_release(&first);
}

/* Memory that is given back has other bytes at once, as it may have later. */
static void *resize_and_spoil(void *user, void *block, size_t size)
{
    size_t *old = block ? (size_t *)block - 2 : NULL;
    (void)user;
    if (old)
        memset(block, 0xdd, size == 0 ? *old : 0);
    if (size == 0) {
        free(old);
        return NULL;
    }
    size_t *new = realloc(old, size + 2 * sizeof *new);
    if (!new)
        return NULL;
    *new = size;
    return new + 2;
}

/* Until the next call, or the release of the model. */
static void a_report_outlives_the_trainer(void **state)
{
    const struct copse_context_params p = { .resize = resize_and_spoil };
    copse_context *mine = NULL, *usual = ctx;
    (void)state;
    save_trained(3);
    OK(copse_context_create(&p, &mine));
    ctx = mine;
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = data_of(3);
    copse_model *m = make_model(st, data, network, NULL);
    for (int time = 0; time < 2; time++) {
        copse_trainer *t = NULL;
        struct copse_model_weights w;
        OK(copse_trainer_create(
            st, &(struct copse_trainer_params){ .loss = copse_model_loss, .user = m }, &t));
        OK(copse_model_load_weights(m, t, temp_path("m.safetensors"), NULL, &w));
        copse_trainer_release(&t);
        assert_int_equal(w.load.matched_count, 4);
        assert_string_equal(w.load.matched[1], "dense1.bias");
    }
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    copse_context_release(&mine);
    ctx = usual;
}

static void equal_classes_take_all(void **state)
{
    struct copse_model_weights w;
    (void)state;
    save_trained(3);
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = data_of(3), *other = data_of(2);
    copse_model *m = make_model(st, data, network, NULL),
                *head = make_model(st, other, "dense out", "head");
    OK(copse_model_load_weights(m, NULL, temp_path("m.safetensors"), NULL, &w));
    assert_int_equal(w.load.matched_count, 4);
    assert_string_equal(w.head, "");
    OK(copse_model_save(head, temp_path("head.safetensors"), NULL));
    copse_model_release(&head);
    head = make_model(st, data, "dense out", "head");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_model_load_weights(head, NULL, temp_path("head.safetensors"), NULL, NULL),
          "fits: the file has 2 classes, the data 3");
    copse_model_release(&head);
    copse_model_release(&m);
    copse_dataset_release(&other);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* ---- frozen layers ---- */

/* The commands that a step, or an evaluation, queues. */
static size_t commands_of(const copse_trainer *t, enum copse_pass pass)
{
    size_t count = 0;
    const struct copse_recordings *all = &t->recordings.of[0];
    for (size_t i = 0; i < all->count; i++) {
        const struct copse_step_recording *r = (const struct copse_step_recording *)all->at[i];
        for (uint32_t k = 0; r->pass == pass && k < copse__program_segments(all->at[i]->program);
             k++)
            count += copse__program_list(all->at[i]->program)[k]->count;
    }
    assert_true(count > 0);
    return count;
}

static void count_commands(int layers, const char *groups, size_t *step, size_t *evaluation)
{
    char text[200] = "";
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = data_of(3);
    copse_loader *batches;
    struct copse_host_batch batch;
    struct copse_step_result result;
    copse_trainer *t;
    for (int i = 0; i < layers; i++)
        strcat(text, "dense 8 tanh; ");
    copse_model *m = make_model(st, data, strcat(text, "dense out"), NULL);
    float before[WIDTH * WIDTH], after[WIDTH * WIDTH];
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = copse_model_loss, .user = m, .optimizer.groups = groups },
                            &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 32 }, &batches));
    OK(copse_loader_next(batches, &batch));
    values_of(m, 0, before);
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_evaluate(t, &batch, &result));
    values_of(m, 0, after);
    assert_int_equal(memcmp(before, after, sizeof before) == 0, groups != NULL);
    *step = commands_of(t, COPSE_PASS_TRAIN);
    *evaluation = commands_of(t, COPSE_PASS_EVALUATE);
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* A frozen layer below the trained ones adds to a step what it adds to an evaluation. */
static void frozen_layers_have_no_backward_pass(void **state)
{
    size_t shallow[2], deep[2], trained[2];
    (void)state;
    count_commands(1, "dense1.*: frozen", &shallow[0], &shallow[1]);
    count_commands(DEEP, "dense1.*, dense2.*, dense3.*, dense4.*: frozen", &deep[0], &deep[1]);
    count_commands(DEEP, NULL, &trained[0], &trained[1]);
    assert_int_equal(deep[0] - shallow[0], deep[1] - shallow[1]);
    assert_int_equal(deep[1], trained[1]);
    assert_true(trained[0] >= deep[0] + 2 * DEEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_of_other_classes_stays_new),
        cmocka_unit_test(a_report_outlives_the_trainer),
        cmocka_unit_test(equal_classes_take_all),
        cmocka_unit_test(frozen_layers_have_no_backward_pass),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
