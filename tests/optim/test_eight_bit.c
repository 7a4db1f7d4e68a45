/* SPDX-License-Identifier: MIT */
/* Adam with 8-bit slots: what codes stand for; the same bits under every strategy; checkpoints with
   codes, which go to other numbers of replicas; the memory of slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/data/checkpoint.h"
#include "copse/train/slots.h"
#include "core/rule/eight_bit.h"
#include "core/rule/rule.h"
#include "core/train/trainer.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/gradient_rig.h"

#define EIGHT                                                               \
    {                                                                       \
        .kind = COPSE_ADAM8, .learning_rate = 0.01f, .weight_decay = 0.125f \
    }

/* ---- codes ---- */

static void codes_are_the_nearest(void **state)
{
    (void)state;
    assert_true(copse__code_value(0, 7) == 0.0f && copse__code_value(127, 7) == 1.0f &&
                copse__code_value(255, 8) == 1.0f);
    assert_true(fabs((double)copse__code_value(64, 7) - (0.1 + 0.9 / 64)) < 1e-7);
    assert_true(fabs((double)copse__code_value(1, 7) / 1e-6 - 1) < 1e-6 &&
                fabs((double)copse__code_value(1, 8) / 1e-7 - 1) < 1e-6);
    for (uint32_t bits = 7; bits <= 8; bits++)
        for (uint32_t c = 1; c < 1u << bits; c++) {
            const float below = copse__code_value(c - 1, bits), at = copse__code_value(c, bits);
            const float x[3] = { 5.0f, 5.0f * at, 5.0f * (at - 0.3f * (at - below)) };
            uint32_t word;
            assert_true(at > below);
            const float scale =
                bits == 7 ? copse__code_means(x, 3, &word) : copse__code_squares(x, 3, &word);
            assert_true(scale == 5.0f);
            assert_int_equal(copse__code_at(&word, 0), (1u << bits) - 1);
            assert_int_equal(copse__code_at(&word, 1), c);
            assert_int_equal(copse__code_at(&word, 2), c);
            assert_int_equal(copse__code_at(&word, 3), 0);
        }
}

static void codes_keep_what_is_special(void **state)
{
    const float means[] = { -2.0f, INFINITY, NAN, 1e-20f, 0.0f },
                squares[] = { 3.4e38f, 1e-30f, 0.0f };
    uint32_t words[2];
    (void)state;
    assert_true(copse__code_means(means, 5, words) == 2.0f);
    assert_true(copse__code_mean(copse__code_at(words, 0), 2.0f) == -2.0f);
    assert_true(isnan(copse__code_mean(copse__code_at(words, 1), 2.0f)) &&
                isnan(copse__code_mean(copse__code_at(words, 2), 2.0f)));
    assert_int_equal(copse__code_at(words, 3), 0);
    assert_true(copse__code_squares(squares, 3, words) == 3.4e38f);
    assert_int_equal(words[0], 255 | 1 << 8); /* what is not 0 does not become 0 */
    assert_true(copse__code_means((float[]){ 0.0f, -0.0f }, 2, words) == 0.0f && words[0] == 0);
}

/* ---- runs ---- */

static copse_status train(copse_trainer *t, int from, int to)
{
    for (int i = from; i < to; i++)
        COPSE_TRY(step(t, data_x[i % SETS], ROWS));
    return copse_trainer_fed(t) > 0 ? copse_trainer_run(t) : COPSE_OK;
}

static copse_status run(copse_strategy *st, const struct job *job, struct result *out)
{
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, job, &m, &t));
    copse_status s = train(t, 0, job->steps);
    if (!s)
        s = read_all(&m, out);
    copse_trainer_release(&t);
    return s;
}

static void run_on(const struct setup *s, const struct job *job, struct result *out)
{
    copse_strategy *st = make_strategy(s);
    OK(run(st, job, out));
    copse_strategy_release(&st);
}

/* Gradients are whole numbers: their sums are exact. Roots and quotients are rounded by each
   device. */
static void every_strategy_has_the_same_bits(void **state)
{
    static const struct job job = { EIGHT, 1, 10 };
    static struct result want, is;
    (void)state;
    run_on(&setups[0], &job, &want);
    for (int i = 1; i < SETUPS; i++) {
        if (setups[i].is_mixed)
            continue;
        run_on(&setups[i], &job, &is);
        same(setups[i].name, &is, &want);
    }
}

static struct result of_worker[4];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run(st, w->job, &of_worker[w->rank]);
}

static void workers_have_the_same_bits(void **state)
{
    static const struct job job = { EIGHT, 1, 10 };
    static struct result want;
    struct worker w[3];
    (void)state;
    run_on(&setups[0], &job, &want);
    for (uint32_t workers = 2; workers <= 3; workers++) {
        run_workers_over(&copse__transport_local, w, workers, 2, &job, run_in_worker);
        assert_all_ok(w, workers);
        for (uint32_t v = 0; v < workers; v++)
            same("workers", &of_worker[v], &want);
    }
}

/* Values follow those of Adam. The codes of m have steps of 1.4 % of the largest m of the block, in
   its highest decade. */
static void values_are_near_those_of_adam(void **state)
{
    struct job job = { EIGHT, 1, 40 };
    static struct result eight, full;
    double difference = 0, size = 0;
    (void)state;
    run_on(&setups[0], &job, &eight);
    job.optimizer.kind = COPSE_ADAM;
    run_on(&setups[0], &job, &full);
    for (int i = 0; i < ALL; i++) {
        const double change = (double)full.value[i] - (double)first_value(i);
        difference += ((double)eight.value[i] - (double)full.value[i]) *
                      ((double)eight.value[i] - (double)full.value[i]);
        size += change * change;
    }
    print_message("40 steps: %.2g of the changes of Adam\n", sqrt(difference / size));
    assert_true(difference > 0 && sqrt(difference / size) < 0.05);
}

/* ---- checkpoints ---- */

static void check_file(const char *path, bool has_average)
{
    copse_checkpoint *file;
    OK(copse_checkpoint_read(ctx, path, &file));
    const struct copse_array_view *m = copse_checkpoint_find(file, "large/m");
    const struct copse_array_view *scale = copse_checkpoint_find(file, "large/v_scale");
    const struct copse_array_view *average = copse_checkpoint_find(file, "large/average");
    assert_true(m && m->type == COPSE_U8 && m->rank == 1 && m->shape[0] == 5000);
    assert_true(scale && scale->type == COPSE_F32 && scale->rank == 1 && scale->shape[0] == 40);
    assert_true(has_average ? average && average->type == COPSE_F32 && average->shape[0] == 5000
                            : !average);
    assert_true(copse_checkpoint_find(file, "small/v")->shape[0] == 7 &&
                copse_checkpoint_find(file, "small/v_scale")->shape[0] == 1);
    copse_checkpoint_release(&file);
}

static void checkpoints_have_codes_and_go_to_other_strategies(void **state)
{
    static struct result want, is;
    static float slot[5000], again[5000];
    (void)state;
    temp_begin();
    for (int with = 0; with < 2; with++) {
        struct job job = { EIGHT, 1, 8 };
        job.optimizer.average = with ? 0.9f : 0.0f;
        run_on(&setups[0], &job, &want);
        for (int i = 0; i < SETUPS; i++) {
            struct model m;
            copse_trainer *t;
            if (setups[i].is_mixed)
                continue;
            copse_strategy *st = make_strategy(&setups[i]);
            OK(create(st, &job, &m, &t));
            OK(train(t, 0, 3));
            OK(copse_trainer_checkpoint(t, temp_path("eight"), NULL));
            OK(copse_trainer_slot(t, m.v[0], "v", slot));
            copse_trainer_release(&t);
            copse_strategy_release(&st);
            check_file(temp_path("eight"), with);

            st = make_strategy(&setups[(i + 4) % SETUPS]);
            OK(create(st, &job, &m, &t));
            OK(copse_trainer_restore(t, temp_path("eight"), NULL, NULL));
            OK(copse_trainer_slot(t, m.v[0], "v", again));
            assert_memory_equal(slot, again, sizeof slot);
            assert_true(slot[17] > 0.0f);
            OK(train(t, 3, 8));
            OK(read_all(&m, &is));
            if (!setups[(i + 4) % SETUPS].is_mixed)
                same(setups[i].name, &is, &want);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
    }
    temp_end();
}

static void another_optimizer_refuses_the_file(void **state)
{
    struct job job = { EIGHT, 1, 1 };
    struct model m;
    copse_trainer *t;
    (void)state;
    temp_begin();
    copse_strategy *st = make_strategy(&setups[1]);
    OK(create(st, &job, &m, &t));
    OK(train(t, 0, 1));
    OK(copse_trainer_checkpoint(t, temp_path("eight"), NULL));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    job.optimizer.kind = COPSE_ADAM;
    st = make_strategy(&setups[1]);
    OK(create(st, &job, &m, &t));
    assert_true(copse_trainer_restore(t, temp_path("eight"), NULL, NULL) != COPSE_OK);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    temp_end();
}

/* ---- memory ---- */

static size_t slot_bytes(const struct setup *s, copse_optimizer_kind kind)
{
    struct job job = { EIGHT, 1, 1 };
    struct model m;
    copse_trainer *t;
    size_t bytes = 0;
    job.optimizer.kind = kind;
    copse_strategy *st = make_strategy(s);
    OK(create(st, &job, &m, &t));
    OK(train(t, 0, 1));
    for (uint32_t r = 0; r < s->replicas; r++)
        bytes += copse__exchange_slot_bytes(st->store->exchange, r);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return bytes;
}

/* Of each block of 128: 256 codes and 2 scales, where Adam has 256 floats. */
static void slots_take_a_quarter(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const size_t full = slot_bytes(&setups[i], COPSE_ADAM),
                     eight = slot_bytes(&setups[i], COPSE_ADAM8);
        print_message("%s: %zu bytes, of Adam %zu\n", setups[i].name, eight, full);
        assert_true(full > 0 && eight * 1024 == full * 264);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(codes_keep_what_is_special),
        cmocka_unit_test(every_strategy_has_the_same_bits),
        cmocka_unit_test(workers_have_the_same_bits),
        cmocka_unit_test(values_are_near_those_of_adam),
        cmocka_unit_test(checkpoints_have_codes_and_go_to_other_strategies),
        cmocka_unit_test(another_optimizer_refuses_the_file),
        cmocka_unit_test(slots_take_a_quarter),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
