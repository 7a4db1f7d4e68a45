/* SPDX-License-Identifier: MIT */
/* The keys and tensors of a GGUF file, as a text and as JSON. */
#include "tools/info/info_gguf.h"
#include "tools/common/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/gguf.h"

#include "tools/common/json.h"

#define VALUES_SHOWN 6   /* of a list */
#define TEXT_SHOWN   200 /* bytes */

/* ---- text ---- */

static void print_gguf_value(const struct copse_gguf_value *v)
{
    char text[TEXT_SHOWN + 1], plain[4 * TEXT_SHOWN + 1];
    if (v->kind == COPSE_GGUF_BOOL) {
        printf("%s", v->whole ? "true" : "false");
    } else if (v->kind == COPSE_GGUF_WHOLE) {
        printf("%" PRId64, v->whole);
    } else if (v->kind == COPSE_GGUF_REAL) {
        printf("%.9g", v->real);
    } else {
        size_t n = v->size < TEXT_SHOWN ? v->size : TEXT_SHOWN;
        for (size_t i = 0; i < n; i++) /* a text is one line, and NUL ends none */
            text[i] = v->text[i] == '\n' ? ' ' : v->text[i] ? v->text[i] : '?';
        text[n] = '\0';
        printf("%s%s", session_plain(plain, sizeof plain, text),
               v->size > TEXT_SHOWN ? " ..." : "");
    }
}

static copse_status print_gguf_key(const copse_gguf *f, const struct copse_gguf_key *k, int width)
{
    char plain[1100];
    struct copse_gguf_value v;
    printf("  %-*s  ", width, session_plain(plain, sizeof plain, k->name));
    for (uint64_t i = 0; i < k->count && i < VALUES_SHOWN; i++) {
        COPSE_TRY(copse_gguf_get(f, k->name, i, &v));
        printf("%s", i > 0 ? ", " : "");
        print_gguf_value(&v);
    }
    if (k->count > VALUES_SHOWN)
        printf(", ... (%" PRIu64 ")", k->count);
    printf("\n");
    return COPSE_OK;
}

static void print_gguf_tensor(const struct copse_gguf_tensor *t, int width)
{
    char plain[1100], shape[120];
    int n = snprintf(shape, sizeof shape, "[");
    for (uint32_t i = 0; i < t->rank; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, i ? ", %" PRIu64 : "%" PRIu64,
                      t->shape[i]);
    snprintf(shape + n, sizeof shape - (size_t)n, "]");
    printf("  %-*s  %-7s  %-18s %12" PRIu64 "%s\n", width,
           session_plain(plain, sizeof plain, t->name), t->type, shape, t->elements,
           t->is_readable ? "" : "  this type is not read");
}

static int name_width(int width, const char *name, int most)
{
    const int n = (int)strlen(name);
    return n > width ? n < most ? n : most : width;
}

static copse_status print_gguf_text(const copse_gguf *f, const char *path, uint64_t elements,
                                    uint64_t bytes)
{
    char plain[1100];
    size_t key_count, tensor_count;
    int key_width = 4, width = 4;
    const struct copse_gguf_key *keys = copse_gguf_keys(f, &key_count);
    const struct copse_gguf_tensor *tensors = copse_gguf_tensors(f, &tensor_count);
    printf("%s: GGUF, %" PRIu64 " parameters, %zu tensor%s of %" PRIu64 " bytes, %zu key%s\n\n",
           session_plain(plain, sizeof plain, path), elements, tensor_count,
           plural_end(tensor_count), bytes, key_count, plural_end(key_count));
    for (size_t i = 0; i < key_count; i++)
        key_width = name_width(key_width, keys[i].name, 44);
    for (size_t i = 0; i < tensor_count; i++)
        width = name_width(width, tensors[i].name, 48);
    for (size_t i = 0; i < key_count; i++)
        COPSE_TRY(print_gguf_key(f, &keys[i], key_width));
    if (tensor_count > 0)
        printf("\n  %-*s  type     %-18s %12s\n", width, "name", "shape", "elements");
    for (size_t i = 0; i < tensor_count; i++)
        print_gguf_tensor(&tensors[i], width);
    return COPSE_OK;
}

/* ---- JSON ---- */

/* The value of a key; of a list the count: {"count":49152}. */
static copse_status add_gguf_key(const copse_gguf *f, const struct copse_gguf_key *k, cJSON *o)
{
    char *text;
    struct copse_gguf_value v;
    if (k->is_list) {
        cJSON *list = cJSON_AddObjectToObject(o, k->name);
        json_add_count(list, "count", k->count);
        return list ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    }
    COPSE_TRY(copse_gguf_get(f, k->name, 0, &v));
    if (v.kind == COPSE_GGUF_BOOL)
        return cJSON_AddBoolToObject(o, k->name, v.whole != 0) ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    if (v.kind != COPSE_GGUF_TEXT) {
        json_add_number(o, k->name, v.real);
        return COPSE_OK;
    }
    text = malloc(v.size + 1);
    if (!text)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a text of %zu bytes", v.size);
    for (size_t i = 0; i < v.size; i++)
        text[i] = v.text[i] ? v.text[i] : '\xff'; /* becomes U+FFFD */
    text[v.size] = '\0';
    json_add_text(o, k->name, text);
    free(text);
    return COPSE_OK;
}

static bool add_gguf_tensor(cJSON *list, const struct copse_gguf_tensor *t)
{
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, o))
        return false;
    json_add_text(o, "name", t->name);
    json_add_text(o, "type", t->type);
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (uint32_t i = 0; shape && i < t->rank; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, t->shape[i]);
        if (!cJSON_AddItemToArray(shape, cJSON_CreateRaw(digits)))
            return false;
    }
    json_add_count(o, "elements", t->elements);
    return shape != NULL;
}

static copse_status print_gguf_json(const copse_gguf *f, const char *path, uint64_t elements,
                                    uint64_t bytes)
{
    size_t key_count, tensor_count;
    const struct copse_gguf_key *keys = copse_gguf_keys(f, &key_count);
    const struct copse_gguf_tensor *tensors = copse_gguf_tensors(f, &tensor_count);
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "path", path);
    json_add_text(o, "format", "gguf");
    json_add_count(o, "parameters", elements);
    json_add_count(o, "bytes", bytes);
    cJSON *map = cJSON_AddObjectToObject(o, "keys"), *list = cJSON_AddArrayToObject(o, "tensors");
    copse_status s = map && list ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    for (size_t i = 0; s == COPSE_OK && i < key_count; i++)
        s = add_gguf_key(f, &keys[i], map);
    for (size_t i = 0; s == COPSE_OK && i < tensor_count; i++)
        s = add_gguf_tensor(list, &tensors[i]) ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    if (s == COPSE_OK)
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(s, "no memory for the tensors as JSON");
}

/* ---- the file ---- */

int info_gguf_run(const char *path, bool is_json)
{
    copse_context *ctx = NULL;
    copse_gguf *f = NULL;
    size_t count = 0;
    uint64_t elements = 0, bytes = 0;
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = copse_gguf_open(ctx, path, &f);
    const struct copse_gguf_tensor *tensors = copse_gguf_tensors(f, &count);
    for (size_t i = 0; i < count; i++) {
        elements += tensors[i].elements;
        bytes += tensors[i].bytes;
    }
    if (s == COPSE_OK)
        s = is_json ? print_gguf_json(f, path, elements, bytes)
                    : print_gguf_text(f, path, elements, bytes);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_gguf_release(&f);
    copse_context_release(&ctx);
    return code;
}
