/* SPDX-License-Identifier: MIT */
/* Predictions for a text: the most likely token after it, or after each line. */
#include "tools/predict/predict_text.h"

#include "tools/common/json.h"

static uint32_t predict_text_largest(const float *row, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* Characters and numbers are names; a byte pair has its bytes. */
static const char *name_of(const struct use *u, uint32_t i, char text[TOKEN_TEXT])
{
    struct copse_text_info info;
    if (copse_text_describe(u->schema, &info) != COPSE_OK || info.tokens != COPSE_TOKENS_BPE)
        return use_name(u, i);
    token_text(u->schema, i, text);
    return text;
}

static copse_status write_object(FILE *to, const struct use *u, size_t r, const float *values,
                                 uint64_t line, uint64_t column)
{
    char text[TOKEN_TEXT];
    const uint32_t best = predict_text_largest(values, u->info.outputs);
    cJSON *o = cJSON_CreateObject();
    json_add_count(o, "row", r + 1);
    json_add_count(o, "line", line);
    json_add_count(o, "column", column);
    json_add_text(o, "token", name_of(u, best, text));
    json_add_number(o, "probability", (double)values[best]);
    cJSON *list = cJSON_AddObjectToObject(o, "probabilities");
    for (uint32_t i = 0; list && i < u->info.outputs; i++)
        json_add_number(list, name_of(u, i, text), (double)values[i]);
    return json_write(to, o);
}

copse_status predict_text_write(FILE *to, const struct use *u, bool is_json, const float *values)
{
    char token[TOKEN_TEXT];
    uint64_t line, column;
    if (!is_json)
        fprintf(to, "line,column,token,probability\n");
    for (size_t r = 0; r < u->rows.rows; r++, values += u->info.outputs) {
        COPSE_TRY(copse_text_place(u->data, r, &line, &column));
        if (is_json) {
            COPSE_TRY(write_object(to, u, r, values, line, column));
            continue;
        }
        const uint32_t best = predict_text_largest(values, u->info.outputs);
        fprintf(to, "%llu,%llu,", (unsigned long long)line, (unsigned long long)column);
        token_text(u->schema, best, token);
        use_cell(to, token, ',');
        fprintf(to, ",%.9g\n", (double)values[best]);
    }
    return COPSE_OK;
}
