/* SPDX-License-Identifier: MIT */
/* copse predict: what a model says about each row of data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"

#include "tools/common/json.h"
#include "tools/predict/predict_text.h"

static uint32_t predict_rows_largest(const float *row, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* ---- CSV ---- */

static void write_csv(FILE *to, const struct use *u, const float *values)
{
    const bool has_classes = u->info.task != COPSE_TASK_REGRESSION;
    const uint32_t outputs = u->info.outputs;
    const bool has_files = copse_dataset_file(u->data, 0) != NULL;
    fputs(has_files ? "file," : "", to);
    fputs(has_classes ? "class," : "", to);
    for (uint32_t i = 0; i < outputs; i++) {
        use_cell(to, use_name(u, i));
        fputc(i + 1 < outputs ? ',' : '\n', to);
    }
    for (size_t r = 0; r < u->rows.rows; r++, values += outputs) {
        if (has_files) {
            use_cell(to, copse_dataset_file(u->data, r));
            fputc(',', to);
        }
        if (has_classes) {
            use_cell(to, use_name(u, predict_rows_largest(values, outputs)));
            fputc(',', to);
        }
        for (uint32_t i = 0; i < outputs; i++)
            fprintf(to, "%.9g%c", (double)values[i], i + 1 < outputs ? ',' : '\n');
    }
}

/* ---- JSON: an object for each row ---- */

static copse_status write_row(FILE *to, const struct use *u, size_t r, const float *values)
{
    const bool has_classes = u->info.task != COPSE_TASK_REGRESSION;
    cJSON *o = cJSON_CreateObject();
    json_add_count(o, "row", r + 1);
    if (copse_dataset_file(u->data, r))
        json_add_text(o, "file", copse_dataset_file(u->data, r));
    if (has_classes)
        json_add_text(o, "class", use_name(u, predict_rows_largest(values, u->info.outputs)));
    cJSON *list = cJSON_AddObjectToObject(o, has_classes ? "probabilities" : "values");
    for (uint32_t i = 0; list && i < u->info.outputs; i++)
        json_add_number(list, use_name(u, i), (double)values[i]);
    return json_write(to, o);
}

static copse_status write_json(FILE *to, const struct use *u, const float *values)
{
    for (size_t r = 0; r < u->rows.rows; r++)
        COPSE_TRY(write_row(to, u, r, values + r * u->info.outputs));
    return COPSE_OK;
}

/* ---- the command ---- */

static copse_status write_all(FILE *to, const struct use *u, bool is_json, const float *values)
{
    if (u->info.kind == COPSE_DATA_TEXT)
        return predict_text_write(to, u, is_json, values);
    if (is_json)
        return write_json(to, u, values);
    write_csv(to, u, values);
    return COPSE_OK;
}

static copse_status predict_rows_predict(struct use *u, bool is_json, const char *path)
{
    struct output o;
    COPSE_TRY(use_open(u));
    float *values = malloc(u->rows.rows * u->info.outputs * sizeof *values);
    copse_status s =
        values ? copse_model_predict(u->model, u->data, values)
               : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu rows", u->rows.rows);
    if (s == COPSE_OK && path) {
        s = output_open(&o, path);
        if (s == COPSE_OK)
            s = output_end(&o, write_all(o.stream, u, is_json, values));
        if (s == COPSE_OK)
            printf("%zu rows: %s\n", u->rows.rows, path);
    } else if (s == COPSE_OK) {
        s = write_all(stdout, u, is_json, values);
    }
    free(values);
    return s;
}

int cmd_predict(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct use u = { .devices = "auto", .ignores_labels = true };
    struct option_choice missing = { .names = use_missings, .at = use_missings };
    struct option_choice unknown = { .names = use_unknowns, .at = use_unknowns };
    const char *path = NULL;
    bool is_json = false, is_csv = false, is_by_line = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "MODEL DATA",
          "what `copse train --save` wrote; rows of the same kind of data" },
        { "csv", OPTION_FLAG, &is_csv, NULL,
          "a line for each row: class and probabilities, or values [default]" },
        { "json", OPTION_FLAG, &is_json, NULL, "one JSON object per row" },
        { "lines", OPTION_FLAG, &is_by_line, NULL,
          "texts: the token behind each line [behind the whole text]" },
        { "missing", OPTION_CHOICE, &missing, "NAME", USE_MISSING_HELP },
        { "unknown", OPTION_CHOICE, &unknown, "NAME", USE_UNKNOWN_HELP },
        { "output", OPTION_TEXT, &path, "FILE", "write to this file [standard output]" },
        { "devices", OPTION_TEXT, &u.devices, "WHICH",
          "the first of these devices is used [auto]" },
        { "no-cache", OPTION_FLAG, &u.how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &u.how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &u.how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "verbose", OPTION_FLAG, &u.how.is_verbose, NULL, "log what the library does" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse predict model.safetensors new.csv --output predictions.csv" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse predict model.safetensors photo.jpg" },
        { 0 },
    };
    int code = options_parse(
        argc, argv, rows,
        "Prints the class and the probability of each class for each row of the data, or "
        "the values of a\nregression in the unit of the target. The data needs no "
        "labels; columns are found by name.\nDATA may be a picture or a folder of them. "
        "For a text: the most likely next character or byte.");
    if (code >= 0)
        return code;
    const char *wrong = words.count != 2    ? "give MODEL and DATA"
                        : is_csv && is_json ? "--csv or --json, not both"
                                            : NULL;
    if (wrong) {
        fprintf(stderr, "copse predict: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    u.model_path = words.at[0];
    u.data_path = words.at[1];
    u.missing = (copse_missing)missing.at->value;
    u.unknown = (copse_unknown)unknown.at->value;
    u.text_rows = is_by_line ? COPSE_TEXT_LINES : COPSE_TEXT_END;
    copse_status s = path ? output_check(path) : COPSE_OK;
    if (s == COPSE_OK && path &&
        (output_overwrites(path, u.model_path) || output_overwrites(path, u.data_path)))
        s = session_set_error(
            COPSE_ERR_ARGUMENT,
            "--output would replace '%s', which this command reads; name another file", path);
    if (s == COPSE_OK)
        s = predict_rows_predict(&u, is_json, path);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    use_close(&u);
    return code;
}
