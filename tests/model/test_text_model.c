/* SPDX-License-Identifier: MIT */
/* Models of texts: the shape of their outputs decides which tokens they predict; losses,
   probabilities and accuracies agree with a computation by hand from the file. */
#include "tests/rig/train/model_rig.h"

#include "copse/data/source.h"
#include "copse/data/text.h"

static int setup(void **state)
{
    temp_begin();
    return open_context(state);
}

static int teardown(void **state)
{
    temp_end();
    return close_context(state);
}

static const char rhyme[] =
    "the rain in spain stays mainly in the plain, and the same again in maine: "
    "the rain in spain stays mainly in the plain.\n";

static copse_dataset *make_text(copse_context *in, copse_text_rows rows, const copse_schema *schema)
{
    copse_dataset *data = NULL;
    const struct copse_text_params text = { .context = 6, .stride = 2, .rows = rows };
    const struct copse_source_params source = { .text = &text };
    OK(copse_text_create(in, rhyme, strlen(rhyme),
                         &(struct copse_dataset_params){ .schema = schema, .source = &source },
                         &data));
    return data;
}

/* The outputs [positions, tokens] of "embedding in 4; [flatten;] dense out" for the window at
   `start`, in double. */
static void text_by_hand(const copse_checkpoint *file, const copse_schema *schema, size_t start,
                         bool is_every, double *out)
{
    struct copse_text_info info;
    OK(copse_text_describe(schema, &info));
    const uint32_t v = info.vocabulary, in = is_every ? 4 : 24;
    const float *e = array_of(file, "embedding1.weight", v, 4),
                *w = array_of(file, "dense1.weight", in, v);
    const float *b = array_of(file, "dense1.bias", v, 0);
    for (uint32_t p = 0; p < (is_every ? 6u : 1u); p++)
        for (uint32_t o = 0; o < v; o++) {
            double sum = (double)b[o];
            for (uint32_t k = 0; k < in; k++) {
                uint32_t token = 0;
                while (copse_schema_class(schema, token)[0] != rhyme[start + p + k / 4])
                    token++;
                sum += (double)e[4 * token + k % 4] * (double)w[k * v + o];
            }
            out[p * v + o] = sum;
        }
}

static uint32_t token_of(const copse_schema *schema, char c)
{
    for (uint32_t i = 0; copse_schema_class(schema, i); i++)
        if (copse_schema_class(schema, i)[0] == c)
            return i;
    fail_msg("no token '%c'", c);
    return 0;
}

/* Probabilities of the token after a window; loss and accuracy of the tokens that are predicted:
   all positions of a window, or the last. In a file, and on another replica. */
static void the_shape_of_the_outputs_decides_what_a_text_model_learns(void **state)
{
    (void)state;
    for (int is_every = 0; is_every < 2; is_every++) {
        copse_strategy *st = strategy_of(ctx, 2), *one = strategy_of(ctx, 1);
        copse_dataset *data = make_text(ctx, COPSE_TEXT_WINDOWS, NULL);
        copse_model *m = make_model(
            st, data, is_every ? "embedding in 4; dense out" : "embedding in 4; flatten; dense out",
            NULL);
        copse_model *loaded = NULL;
        copse_trainer *t = train(m, data, 4);
        copse_checkpoint *file = NULL;
        struct copse_evaluation found;
        struct copse_dataset_info info;
        struct copse_step_result result;
        uint32_t worst = 0;
        double outputs[6 * 64], loss = 0.0, right = 0.0, largest = 0.0;
        OK(copse_model_save(m, temp_path("text.safetensors"), NULL));
        OK(copse_checkpoint_read(ctx, temp_path("text.safetensors"), &file));
        OK(copse_model_load(one, temp_path("text.safetensors"), NULL, &loaded));
        const copse_schema *schema = copse_model_schema(loaded);
        copse_dataset_describe(data, &info);
        const uint32_t v = info.classes;
        const uint32_t positions = is_every ? 6 : 1;
        float *values = malloc(info.rows * v * sizeof *values);
        OK(copse_model_predict(loaded, data, values));
        for (size_t r = 0; r < info.rows; r++) {
            double row_loss = 0.0;
            text_by_hand(file, schema, 2 * r, is_every, outputs);
            for (uint32_t p = 0; p < positions; p++) {
                const uint32_t next = token_of(schema, rhyme[2 * r + (is_every ? p + 1 : 6)]);
                double sum = 0.0, *row = outputs + p * v;
                uint32_t best = 0;
                for (uint32_t o = 0; o < v; o++) {
                    sum += exp(row[o]);
                    best = row[o] > row[best] ? o : best;
                }
                right += best == next;
                row_loss += (log(sum) - row[next]) / positions;
                for (uint32_t o = 0; p + 1 == positions && o < v; o++)
                    rig_near((double)values[r * v + o], exp(row[o]) / sum, 1e-5);
            }
            loss += row_loss;
            worst = row_loss > largest ? (uint32_t)r : worst;
            largest = fmax(largest, row_loss);
        }
        uint32_t worst_found = 0;
        OK(copse_model_evaluate(
            loaded, data,
            &(struct copse_evaluation_params){ .worst = &worst_found, .worst_count = 1 }, &found));
        rig_near(found.loss, loss / (double)info.rows, 1e-5);
        rig_near(found.accuracy, right / (double)(info.rows * positions), 1e-9);
        rig_near(found.bits_per_byte, found.loss / log(2.0), 1e-9); /* ASCII */
        assert_int_equal(worst_found, worst);
        /* what training reports, on two replicas */
        copse_loader *batches = NULL;
        struct copse_host_batch batch;
        OK(copse_loader_create(
            data, &(struct copse_loader_params){ .batch = info.rows, .no_shuffle = true },
            &batches));
        OK(copse_loader_next(batches, &batch));
        OK(copse_trainer_evaluate(t, &batch, &result));
        rig_near(result.loss, found.loss, 1e-5);
        rig_near(result.reports[0], found.accuracy, 1e-6);
        copse_loader_release(&batches);
        /* the end of the text, without labels */
        copse_dataset *end = make_text(ctx, COPSE_TEXT_END, schema);
        float *last = malloc(v * sizeof *last);
        OK(copse_model_predict(loaded, end, last));
        text_by_hand(file, schema, strlen(rhyme) - 6, is_every, outputs);
        double sum = 0.0;
        for (uint32_t o = 0; o < v; o++)
            sum += exp(outputs[(positions - 1) * v + o]);
        for (uint32_t o = 0; o < v; o++)
            rig_near((double)last[o], exp(outputs[(positions - 1) * v + o]) / sum, 1e-5);
        FAILS(COPSE_ERR_ARGUMENT, copse_model_evaluate(loaded, end, NULL, &found), "no labels");
        free(last);
        free(values);
        copse_dataset_release(&end);
        copse_checkpoint_release(&file);
        copse_trainer_release(&t);
        copse_model_release(&loaded);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_strategy_release(&one);
        copse_strategy_release(&st);
    }
}

/* Networks that do not fit a text. */
static void wrong_networks_for_a_text_are_refused(void **state)
{
    static const struct {
        const char *network;
        copse_status code;
        const char *error;
    } cases[] = {
        { "flatten; dense out", COPSE_ERR_SHAPE,
          "it takes f32, the input is i32[6]; put an embedding in front" },
        { "embedding in 4; flatten; dense 5", COPSE_ERR_SHAPE,
          "tokens need [19], for the token after the window, or [6, 19]" },
        { "embedding in 4; dense 5", COPSE_ERR_SHAPE, "the last layer gives [6, 5]" },
    };
    (void)state;
    copse_dataset *data = make_text(ctx, COPSE_TEXT_WINDOWS, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        copse_strategy *st = strategy_of(ctx, 1);
        copse_model *m = NULL;
        FAILS(cases[i].code,
              copse_model_create(st, copse_dataset_schema(data),
                                 &(struct copse_model_params){ .network = cases[i].network }, &m),
              cases[i].error);
        assert_null(m);
        copse_strategy_release(&st);
    }
    copse_dataset_release(&data);
}

/* The logits of a large vocabulary are computed in chunks: loss and accuracy are those of all
   logits, which copse_model_evaluate computes; training makes the loss smaller. */
static void a_large_vocabulary_has_the_same_loss(void **state)
{
    enum { CHARACTERS = 16400, ROWS = 40 };
    static const char *const networks[] = {
        "embedding in 6; dense out init=normal scale=0.3",
        "embedding in 6; flatten; dense out bias=no init=normal scale=0.3"
    };
    char *text = malloc(3 * CHARACTERS + 1);
    (void)state;
    for (uint32_t i = 0; i < CHARACTERS; i++)
        snprintf(text + 3 * i, 4, "%c%c%c", 0xe0 + ((0x4e00 + i) >> 12),
                 0x80 + ((0x4e00 + i) >> 6 & 63), 0x80 + (i & 63));
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
        const struct copse_text_params all = { .context = 4, .stride = 1000 },
                                       few = { .stride = 3 };
        const struct copse_source_params of_all = { .text = &all }, of_few = { .text = &few };
        copse_strategy *st = strategy_of(ctx, 1 + n);
        copse_dataset *whole = NULL, *data = NULL;
        copse_loader *batches = NULL;
        struct copse_host_batch batch;
        struct copse_evaluation found;
        struct copse_step_result result, first;
        OK(copse_text_create(ctx, text, 3 * CHARACTERS,
                             &(struct copse_dataset_params){ .source = &of_all }, &whole));
        OK(copse_text_create(ctx, text + 3 * 16270, 3 * (size_t)(3 * ROWS + 2),
                             &(struct copse_dataset_params){ .schema = copse_dataset_schema(whole),
                                                             .source = &of_few },
                             &data));
        copse_model *m = make_model(st, whole, networks[n], NULL);
        OK(copse_loader_create(
            data, &(struct copse_loader_params){ .batch = ROWS, .no_shuffle = true }, &batches));
        OK(copse_loader_next(batches, &batch));
        assert_int_equal(batch.count, ROWS);
        copse_trainer *t = train(m, data, 0);
        OK(copse_trainer_evaluate(t, &batch, &first));
        copse_trainer_release(&t);
        t = train(m, data, 30);
        OK(copse_trainer_evaluate(t, &batch, &result));
        OK(copse_model_evaluate(m, data, NULL, &found));
        rig_near(result.loss, found.loss, 1e-5);
        rig_near(result.reports[0], found.accuracy, 1e-6);
        assert_true(first.loss > 5.0 && result.loss < first.loss / 2 && found.accuracy > 0.5);
        rig_near(found.bits_per_byte, found.loss / log(2.0) / 3, 1e-9); /* of three bytes each */
        copse_trainer_release(&t);
        copse_loader_release(&batches);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_dataset_release(&whole);
        copse_strategy_release(&st);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shape_of_the_outputs_decides_what_a_text_model_learns),
        cmocka_unit_test(a_large_vocabulary_has_the_same_loss),
        cmocka_unit_test(wrong_networks_for_a_text_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
