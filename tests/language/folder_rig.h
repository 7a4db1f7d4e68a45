/* SPDX-License-Identifier: MIT */
/* What tests of language models in folders share. */
#ifndef FOLDER_RIG_H
#define FOLDER_RIG_H

#include "tests/language/language_rig.h"
#include "tests/rig/data/language_folder.h"

static inline int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) != COPSE_OK;
}

static inline int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

static struct folder_made made;

static inline void make_folder(const struct kind *k, copse_type type)
{
    fill_all();
    if (type != COPSE_F32)
        round_all();
    folder_free(&made);
    made = (struct folder_made){ .type = type };
    folder_model(&made, k);
}

static inline copse_status open_as(const char *path, const struct copse_language_params *how)
{
    OK(copse_strategy_open(ctx, on, NULL, &st));
    return copse_language_open(st, path, how, &language);
}

static inline copse_status open_path(const char *path)
{
    return open_as(path, NULL);
}

static const char text[] = "the hen 12 hello\nowl fox ?";

static inline double folder_loss(uint64_t *tokens)
{
    struct copse_language_evaluation e;
    OK(copse_language_evaluate(language, text, sizeof text - 1, 10, &e));
    *tokens = e.tokens;
    return e.loss;
}

/* A file with a part of its text changed, and what follows. */
struct folder_change {
    copse_status status; /* COPSE_OK: the model is read, with the right losses */
    const char *from, *to, *says;
};

static inline void assert_right(const struct kind *k, const char *what)
{
    int32_t tokens[MOST];
    double outputs[TOKENS], sum = 0;
    size_t count, windows = 0;
    uint64_t predicted;
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
    assert_true(count > 20 && count < MOST);
    for (size_t t = 0; t < count; t++) {
        windows += t % 10 == 0;
        if (t % 10 > 0)
            sum += loss_of(outputs, tokens[t]);
        predict(k, tokens[t], (int)(t % 10), outputs);
    }
    const double loss = folder_loss(&predicted);
    assert_int_equal(predicted, count - windows);
    if (!(fabs(loss - sum / (double)predicted) < 2e-5))
        fail_msg("%s, %s: loss %.9g, not %.9g", k->name, what, loss, sum / (double)predicted);
}

/* Try changes of a file of the folder, each alone. */
static inline void try_changes(const char *name, const struct kind *k,
                               const struct folder_change *cases, size_t count)
{
    char path[100];
    size_t size;
    snprintf(path, sizeof path, "model/%s", name);
    char *content = (char *)temp_bytes(temp_path(path), &size), *changed = malloc(size + 200);
    assert_non_null(changed);
    content[size] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct folder_change *c = &cases[i];
        const char *at = strstr(content, c->from);
        assert_non_null(at);
        assert_true(strlen(c->to) < 200);
        sprintf(changed, "%.*s%s%s", (int)(at - content), content, c->to, at + strlen(c->from));
        folder_text(name, changed);
        const copse_status s = open_path(temp_path("model"));
        if (s != c->status || (s != COPSE_OK && !strstr(copse_last_error(), c->says)))
            fail_msg("%s: %s: %s", c->to, copse_status_name(s), copse_last_error());
        if (s == COPSE_OK)
            assert_right(k, c->to);
        close_file();
    }
    free(content);
    free(changed);
}

#endif
