/* SPDX-License-Identifier: MIT */
/* copse predict: what a model says about each row of data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"
#include "tools/predict/keep_columns.h"
#include "tools/predict/predict_onnx.h"
#include "tools/predict/predict_text.h"

static uint32_t predict_rows_largest(const float *row, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* ---- CSV ---- */

/* `prefix`: of all names, which the columns of the data may have, too. */
static void write_header(FILE *to, const struct use *u, const char *prefix, char delimiter)
{
    char name[1200];
    if (copse_dataset_file(u->data, 0))
        fprintf(to, "file%c", delimiter);
    if (u->info.task != COPSE_TASK_REGRESSION)
        fprintf(to, "%sclass%c", prefix, delimiter);
    for (uint32_t i = 0; i < u->info.outputs; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, use_name(u, i));
        use_cell(to, name, delimiter);
        fputc(i + 1 < u->info.outputs ? delimiter : '\n', to);
    }
}

static void write_csv_row(FILE *to, const struct use *u, size_t r, const float *values,
                          char delimiter)
{
    const uint32_t outputs = u->info.outputs;
    if (copse_dataset_file(u->data, r)) {
        use_cell(to, copse_dataset_file(u->data, r), delimiter);
        fputc(delimiter, to);
    }
    if (u->info.task != COPSE_TASK_REGRESSION) {
        use_cell(to, use_name(u, predict_rows_largest(values, outputs)), delimiter);
        fputc(delimiter, to);
    }
    for (uint32_t i = 0; i < outputs; i++)
        fprintf(to, "%.9g%c", (double)values[i], i + 1 < outputs ? delimiter : '\n');
}

/* `kept`: the lines of the data; NULL: predictions alone. A table without a header gets none. */
static void write_csv(FILE *to, const struct use *u, struct kept_columns *kept, const float *values)
{
    const char delimiter = kept ? kept->delimiter : ',';
    if (kept && kept->has_header)
        keep_columns_write(to, kept);
    if (!kept || kept->has_header)
        write_header(to, u, kept ? keep_columns_prefix(kept) : "", delimiter);
    for (size_t r = 0; r < u->rows.rows; r++, values += u->info.outputs) {
        if (kept)
            keep_columns_write(to, kept);
        write_csv_row(to, u, r, values, delimiter);
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

/* What is written. */
struct form {
    bool is_json, keeps_columns;
    struct kept_columns kept;
};

static copse_status write_all(FILE *to, const struct use *u, struct form *f, const float *values)
{
    if (u->info.kind == COPSE_DATA_TEXT)
        return predict_text_write(to, u, f->is_json, values);
    if (f->is_json)
        return write_json(to, u, values);
    write_csv(to, u, f->keeps_columns ? &f->kept : NULL, values);
    return COPSE_OK;
}

/* A text that is shorter than the window. */
static copse_status explain_text(const struct use *u, copse_status s)
{
    if (s != COPSE_ERR_SHAPE || !u->model || u->info.kind != COPSE_DATA_TEXT ||
        use_predicts_each(u))
        return s;
    return session_set_error(s, "%s; the network predicts only the token after a whole window",
                             session_error());
}

static copse_status predict_rows_predict(struct use *u, struct form *f, const char *path)
{
    struct output o;
    COPSE_TRY(explain_text(u, use_open(u)));
    if (f->keeps_columns)
        COPSE_TRY(keep_columns_open(&f->kept, u));
    float *values = malloc(u->rows.rows * u->info.outputs * sizeof *values);
    copse_status s =
        values ? copse_model_predict(u->model, u->data, values)
               : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu rows", u->rows.rows);
    if (s == COPSE_OK && path) {
        s = output_open(&o, path);
        if (s == COPSE_OK)
            s = output_end(&o, write_all(o.stream, u, f, values));
        if (s == COPSE_OK)
            printf("%zu row%s: %s\n", u->rows.rows, plural_end(u->rows.rows), path);
    } else if (s == COPSE_OK) {
        s = write_all(stdout, u, f, values);
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
    const char *path = NULL, *ignore = NULL;
    struct form form = { .is_json = false };
    bool is_csv = false, is_by_line = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "MODEL DATA",
          "a model or an ONNX file; such rows, or - for standard input" },
        { "csv", OPTION_FLAG, &is_csv, NULL,
          "a line for each row: class and probabilities, or values [default]" },
        { "json", OPTION_FLAG, &form.is_json, NULL, "one JSON object per row" },
        { "keep-columns", OPTION_FLAG, &form.keeps_columns, NULL,
          "tables: the columns of DATA first, then the predictions" },
        { "lines", OPTION_FLAG, &is_by_line, NULL,
          "texts: the token after each line [after the whole text]" },
        { "missing", OPTION_CHOICE, &missing, "NAME", USE_MISSING_HELP },
        { "unknown", OPTION_CHOICE, &unknown, "NAME", USE_UNKNOWN_HELP },
        { "ignore", OPTION_TEXT, &ignore, "COLUMNS",
          "ONNX files: columns left out: names, or positions from 1" },
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
        { "", OPTION_EXAMPLE, NULL, NULL,
          "head -9 new.csv | copse predict model.safetensors - --keep-columns" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse predict model.safetensors photo.jpg" },
        { 0 },
    };
    int code = options_parse(
        argc, argv, rows,
        "Prints the class and the probability of each class for each row of the data, or "
        "the values of a\nregression in the unit of the target. The data needs no "
        "labels; columns are found by name, for\nONNX files by their order. DATA may be a picture "
        "or a folder of them. For a text: the most\nlikely next character or byte.");
    if (code >= 0)
        return code;
    const char *wrong = words.count != 2         ? "give MODEL and DATA"
                        : is_csv && form.is_json ? "--csv or --json, not both"
                        : form.keeps_columns && form.is_json
                            ? "--keep-columns writes CSV, not --json"
                            : NULL;
    if (wrong) {
        fprintf(stderr, "copse predict: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    u.model_path = words.at[0];
    u.data_path = words.at[1];
    u.missing = (copse_missing)missing.at->value;
    u.unknown = (copse_unknown)unknown.at->value;
    if (use_is_onnx(u.model_path) && (form.keeps_columns || is_by_line ||
                                      missing.at != use_missings || unknown.at != use_unknowns)) {
        fprintf(stderr, "copse predict: --keep-columns, --lines, --missing and --unknown belong to "
                        "models of `copse train`, not to ONNX files\n");
        return EXIT_BAD_INPUT;
    }
    if (use_is_onnx(u.model_path) && predict_onnx_is_array(path) && (form.is_json || is_csv)) {
        fprintf(stderr,
                "copse predict: --csv and --json: '%s' gets an array; let its name not end "
                "in .npy\n",
                session_shown(path));
        return EXIT_BAD_INPUT;
    }
    if (!use_is_onnx(u.model_path) && ignore) {
        fprintf(stderr,
                "copse predict: --ignore belongs to ONNX files; models of `copse train` find "
                "their columns by name\n");
        return EXIT_BAD_INPUT;
    }
    u.text_rows = is_by_line ? COPSE_TEXT_LINES : COPSE_TEXT_END;
    copse_status s = path ? output_check(path) : COPSE_OK;
    if (s == COPSE_OK && path &&
        (output_overwrites(path, u.model_path) || output_overwrites(path, u.data_path)))
        s = session_set_error(
            COPSE_ERR_ARGUMENT,
            "--output would replace '%s', which this command reads; name another file", path);
    if (s == COPSE_OK)
        s = use_is_onnx(u.model_path) ? predict_onnx(&u, form.is_json, ignore, path)
                                      : predict_rows_predict(&u, &form, path);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    keep_columns_end(&form.kept);
    use_close(&u);
    return code;
}
