/* SPDX-License-Identifier: MIT */
/* copse evaluate of a language model: how well it predicts a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "copse/data/readers.h"

#include "tools/common/json.h"
#include "tools/evaluate/evaluate_model.h"

static copse_status evaluate_language_json(const struct use *u,
                                           const struct copse_language_evaluation *e)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "model", u->model_path);
    json_add_text(o, "data", u->data_path);
    json_add_count(o, "tokens", e->tokens);
    json_add_number(o, "loss", e->loss);
    json_add_number(o, "perplexity", exp(e->loss));
    json_add_number(o, "bits_per_byte", e->bits_per_byte);
    return json_print(o);
}

static copse_status evaluate_language_text(struct use *u, bool is_json)
{
    copse_array *bytes = NULL;
    struct copse_language_evaluation e;
    COPSE_TRY(use_load(u));
    if (strcmp(u->data_path, "-") == 0) {
        COPSE_TRY(standard_input_take(&u->input));
        u->data_path = u->input.path;
    }
    COPSE_TRY(copse_read_text(u->ctx, u->data_path, NULL, &bytes));
    const struct copse_array_view *view = copse_array_view(bytes);
    const copse_status s = copse_language_evaluate(u->language, view->data, view->shape[0], 0, &e);
    copse_array_release(&bytes);
    if (s != COPSE_OK)
        return s;
    if (is_json)
        return evaluate_language_json(u, &e);
    printf("%llu tokens: loss %.6f, perplexity %.4f, %.4f bits per byte\n",
           (unsigned long long)e.tokens, e.loss, exp(e.loss), e.bits_per_byte);
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
