/* SPDX-License-Identifier: MIT */
/* Checkpoints that are damaged or of another trainer: they change nothing. */
#include "core/data/array.h"
#include "core/state/state.h"
#include "tests/rig/train/state_rig.h"

/* The trainer, compared by its checkpoint, is as it was. */
static void expect_refused(struct life *l, const char *path, copse_status wanted, const char *text)
{
    struct copse_position at = { 77, 77 };
    copse_checkpoint *file = NULL;
    save(l, temp_path("before"));
    const copse_status s = copse_trainer_restore(l->t, path, &at, &file);
    if (s != wanted)
        fail_msg("%s instead of %s: %s", copse_status_name(s), copse_status_name(wanted),
                 s ? copse_last_error() : "");
    if (!strstr(copse_last_error(), text))
        fail_msg("'%s' is not in: %s", text, copse_last_error());
    assert_null(file);
    assert_true(at.epoch == 77 && at.batch == 77);
    save(l, temp_path("after"));
    temp_check_same(temp_path("before"), temp_path("after"));
}

/* Write the checkpoint `from` again without the array `drop`, or with it called `rename`, or with
   another shape. */
static void rewrite(const char *from, const char *to, const char *drop, const char *rename,
                    bool is_flat)
{
    copse_checkpoint *c;
    struct copse_named_array list[64];
    size_t count, metadata_count, n = 0;
    OK(copse_checkpoint_read(ctx, from, &c));
    const struct copse_named_array *all = copse_checkpoint_arrays(c, &count);
    const struct copse_metadata *metadata = copse_checkpoint_metadata(c, &metadata_count);
    struct copse_metadata copy[64];
    for (size_t i = 0; i < count; i++) {
        const bool is_it = drop && strcmp(all[i].name, drop) == 0;
        if (is_it && !rename && !is_flat)
            continue;
        list[n] = all[i];
        if (is_it && rename)
            list[n].name = rename;
        if (is_it && is_flat) {
            list[n].array.rank = 1;
            list[n].array.shape[0] = all[i].array.shape[0] * all[i].array.shape[1];
        }
        n++;
    }
    memcpy(copy, metadata, metadata_count * sizeof *copy);
    /* The checksum over what is written now, so that the rule behind it is met. */
    char sum[16];
    struct copse_checkpoint_params p = {
        .arrays = list, .array_count = n, .metadata = copy, .metadata_count = metadata_count
    };
    OK(copse__checksum(&copse__base(ctx)->mem, &p, sum));
    for (size_t i = 0; i < metadata_count; i++)
        if (strcmp(copy[i].key, "checksum") == 0)
            copy[i].value = sum;
    OK(copse_checkpoint_write(ctx, to, &p));
    copse_checkpoint_release(&c);
}

static void foreign_checkpoints_change_nothing(void **state)
{
    (void)state;
    struct life l, other;
    struct job j = { 0 };
    job_devices(ctx, &j, 2);
    begin(&l, &j);
    steps(&l, 2);
    save(&l, temp_path("good"));
    steps(&l, 1);

    rewrite(temp_path("good"), temp_path("same"), NULL, NULL, false);
    OK(copse_trainer_restore(l.t, temp_path("same"), NULL, NULL));
    rewrite(temp_path("good"), temp_path("bad"), "w1", NULL, false);
    expect_refused(&l, temp_path("bad"), COPSE_ERR_ARGUMENT, "has no 'w1'");
    rewrite(temp_path("good"), temp_path("bad"), "w1/v", NULL, false);
    expect_refused(&l, temp_path("bad"), COPSE_ERR_ARGUMENT, "has no 'w1/v'");
    rewrite(temp_path("good"), temp_path("bad"), "b2/m", "b2/x", false);
    expect_refused(&l, temp_path("bad"), COPSE_ERR_ARGUMENT, "'b2/m'");
    rewrite(temp_path("good"), temp_path("bad"), "w0", NULL, true);
    expect_refused(&l, temp_path("bad"), COPSE_ERR_SHAPE, "'w0' is f32 [640]");

    OK(copse_trainer_save(l.t, temp_path("bad")));
    expect_refused(&l, temp_path("bad"), COPSE_ERR_FORMAT, "no training state");
    expect_refused(&l, temp_path("absent"), COPSE_ERR_IO, "absent");
    expect_refused(&l, temp_folder, COPSE_ERR_IO, "not a regular file");

    j.optimizer = (struct copse_optimizer_params){ .kind = COPSE_MOMENTUM, .learning_rate = 0.02f };
    begin(&other, &j);
    steps(&other, 1);
    save(&other, temp_path("bad"));
    expect_refused(&l, temp_path("bad"), COPSE_ERR_ARGUMENT, "optimizer momentum");
    end(&other);

    /* One variable more. */
    j.optimizer = (struct copse_optimizer_params){ .kind = COPSE_ADAM };
    begin(&other, &j);
    copse_variable *v;
    copse_trainer *more;
    OK(copse_variable_create(
        copse_trainer_strategy(other.t),
        &(struct copse_variable_params){ .name = "extra", .shape = COPSE_SHAPE(3) }, &v));
    OK(copse_trainer_create(
        copse_trainer_strategy(other.t),
        &(struct copse_trainer_params){ .loss = model_loss, .user = &other.j.m }, &more));
    OK(copse_trainer_checkpoint(more, temp_path("bad"), NULL));
    expect_refused(&l, temp_path("bad"), COPSE_ERR_ARGUMENT,
                   "has 'extra', which the trainer has not");
    copse_trainer_release(&more);
    end(&other);
    end(&l);
}

/* Every byte of the header, and many of the elements; every tenth of the lengths. */
static void damaged_checkpoints_change_nothing(void **state)
{
    (void)state;
    struct life l;
    struct job j = { .optimizer = { .kind = COPSE_SGD } };
    size_t size, header = 0;
    struct copse_position at;
    begin(&l, &j);
    steps(&l, 2);
    save(&l, temp_path("good"));
    unsigned char *bytes = temp_bytes(temp_path("good"), &size);
    for (int i = 8; i-- > 0;)
        header = header << 8 | bytes[i];
    float *before = job_values(&l.j, 0);
    assert_non_null(before);
    unsigned refused = 0;
    for (size_t i = 0; i < size; i += i < header + 8 ? 1 : 61) {
        bytes[i] ^= 1;
        temp_write("bad", bytes, size);
        if (copse_trainer_restore(l.t, temp_path("bad"), &at, NULL) != COPSE_ERR_FORMAT)
            fail_msg("a changed byte at %zu of %zu was not seen", i, size);
        bytes[i] ^= 1;
        refused++;
    }
    for (size_t n = 0; n < size; n += n < 64 ? 1 : 97) {
        temp_write("bad", bytes, n);
        if (copse_trainer_restore(l.t, temp_path("bad"), &at, NULL) != COPSE_ERR_FORMAT)
            fail_msg("a file cut to %zu of %zu bytes was not seen", n, size);
        refused++;
    }
    printf("  %u damaged files of %zu bytes refused\n", refused, size);
    float *after = job_values(&l.j, 0);
    assert_non_null(after);
    assert_memory_equal(before, after, model_parameters() * sizeof *before);
    OK(copse_trainer_restore(l.t, temp_path("good"), &at, NULL));
    free(before);
    free(after);
    free(bytes);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_checkpoints_change_nothing),
        cmocka_unit_test(damaged_checkpoints_change_nothing),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
