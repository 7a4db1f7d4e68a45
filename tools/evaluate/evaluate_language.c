/* SPDX-License-Identifier: MIT */
/* copse evaluate of a language model: how well it predicts a text, or the answers of conversations.
   */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "copse/data/readers.h"
#include "copse/train/adapt.h"

#include "tools/common/json.h"
#include "tools/common/language_data.h"
#include "tools/evaluate/evaluate_model.h"

/* What was measured. */
struct measured {
    struct copse_language_evaluation e;
    struct copse_conversations_info chat; /* of conversations */
    bool is_chat;
};

static copse_status evaluate_language_json(const struct use *u, const struct measured *m)
{
    const struct copse_language_evaluation *e = &m->e;
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "model", u->model_path);
    json_add_text(o, "data", u->data_path);
    if (m->is_chat)
        json_add_count(o, "conversations", m->chat.conversations);
    json_add_count(o, "tokens", e->tokens);
    json_add_number(o, "loss", e->loss);
    json_add_number(o, "perplexity", exp(e->loss));
    json_add_number(o, "bits_per_byte", e->bits_per_byte);
    return json_print(o);
}

/* Windows as long as those that `copse train --lora` makes. */
static copse_status measure_conversations(const struct use *u, const char *lines, size_t size,
                                          struct measured *m)
{
    copse_dataset *windows = NULL;
    COPSE_TRY(copse_language_conversations(u->language, lines, size, 0, &m->chat, &windows));
    if (m->chat.cut + m->chat.dropped > 0)
        fprintf(stderr,
                "copse evaluate: conversations longer than a window of %u tokens: %llu cut, %llu "
                "left out, because no answer begins in the window\n",
                m->chat.window, (unsigned long long)m->chat.cut,
                (unsigned long long)m->chat.dropped);
    const copse_status s = copse_language_evaluate_windows(u->language, windows, &m->e);
    copse_dataset_release(&windows);
    return s;
}

static copse_status measure_language(const struct use *u, const char *text, size_t size,
                                     struct measured *m)
{
    COPSE_TRY(conversations_tell(u->data_path, text, size, &m->is_chat));
    return m->is_chat ? measure_conversations(u, text, size, m)
                      : copse_language_evaluate(u->language, text, size, 0, &m->e);
}

static copse_status evaluate_language_text(struct use *u, bool is_json)
{
    copse_array *bytes = NULL;
    struct measured m = { .is_chat = false };
    COPSE_TRY(use_load(u));
    if (strcmp(u->data_path, "-") == 0) {
        COPSE_TRY(standard_input_take(&u->input));
        u->data_path = u->input.path;
    }
    COPSE_TRY(copse_read_text(u->ctx, u->data_path, NULL, &bytes));
    const struct copse_array_view *view = copse_array_view(bytes);
    const copse_status s = measure_language(u, view->data, view->shape[0], &m);
    copse_array_release(&bytes);
    if (s != COPSE_OK)
        return s;
    if (is_json)
        return evaluate_language_json(u, &m);
    printf("%llu tokens%s: loss %.6f, perplexity %.4f, %.4f bits per byte\n",
           (unsigned long long)m.e.tokens, m.is_chat ? " of answers" : "", m.e.loss, exp(m.e.loss),
           m.e.bits_per_byte);
    return COPSE_OK;
}

int evaluate_language(const struct use *use, const struct evaluate_outputs *out)
{
    struct use u = *use;
    copse_status s =
        out->plot || out->logdir || u.labels
            ? session_set_error(COPSE_ERR_ARGUMENT,
                                "--plot, --logdir and --labels are not for language models")
            : evaluate_language_text(&u, out->is_json);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    use_close(&u);
    return code;
}
