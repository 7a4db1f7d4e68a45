/* SPDX-License-Identifier: MIT */
/* The tokenizer in a tokenizer.json: byte pairs with a pattern of words, or pieces of a whole text
   with bytes for what is unknown. Each step of the file is one that is known, or refused by its
   name. */
#include "core/language/tokenizer_json.h"

#include <math.h>

#include "core/data/reader/json_walk.h"

#define FILE_MAX  ((uint64_t)256 << 20) /* bytes */
#define VALUE_MAX ((size_t)1 << 20)     /* bytes of a value that is parsed as a whole */

struct tokenizer_text {
    struct copse_tokenizer *t;
    const char *path;
    bool is_bytes;   /* letters of bytes, else pieces */
    bool has_space;  /* pieces: U+2581 replaces spaces */
    bool has_bytes;  /* pieces: "<0x41>" is a byte */
    bool is_changed; /* a normalizer writes U+2581 before named tokens are looked for */
    uint32_t merge;
};

static copse_status text_refuse(const struct tokenizer_text *in, const char *what, const char *name)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: %s \"%.60s\" is not known", in->path, what, name);
}

static copse_status refuse_use(const struct tokenizer_text *in, const char *what)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s has %s, which is not computed", in->path, what);
}

static struct copse_json walk_of(const struct tokenizer_text *in,
                                 const struct copse_json_item *item)
{
    return (struct copse_json){ "",          in->path,   ": this is no tokenizer, or it is damaged",
                                item->value, item->size, 0 };
}

/* ---- values ---- */

/* A value that is small; NULL: it is not there. */
static copse_status parse_part(const struct tokenizer_text *in, const struct copse_json_item *item,
                               cJSON **out)
{
    *out = NULL;
    if (!item->value)
        return COPSE_OK;
    *out = item->size <= VALUE_MAX ? copse__json_parse(item->value, item->size) : NULL;
    if (*out)
        return COPSE_OK;
    const struct copse_json at = walk_of(in, item);
    return copse__json_wrong(&at);
}

static const char *text_of(const cJSON *o, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool is_true(const cJSON *o, const char *name, bool normal)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : normal;
}

static bool is_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* The steps of a part: the steps of a "Sequence", or the part itself. */
static const cJSON *first_step(const cJSON *part, const char *list)
{
    if (!part || !is_text(text_of(part, "type"), "Sequence"))
        return part;
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(part, list);
    return cJSON_IsArray(steps) ? steps->child : NULL;
}

static const cJSON *next_step(const cJSON *part, const cJSON *step)
{
    return step == part ? NULL : step->next;
}

/* ---- how texts are cut ---- */

#define MARK "\xe2\x96\x81" /* U+2581 */

static copse_status normalise_step(struct tokenizer_text *in, const cJSON *step)
{
    const char *type = text_of(step, "type");
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(step, "pattern");
    if (is_text(type, "NFC")) {
        in->t->is_normalised = true;
        return COPSE_OK;
    }
    if (is_text(type, "Prepend") && is_text(text_of(step, "prepend"), MARK)) {
        in->t->adds_space = COPSE_SPACE_EACH;
        in->is_changed = true;
        return COPSE_OK;
    }
    if (is_text(type, "Replace") && is_text(text_of(pattern, "String"), " ") &&
        is_text(text_of(step, "content"), MARK)) {
        in->has_space = in->is_changed = true;
        return COPSE_OK;
    }
    return text_refuse(in, "its normalizer", type);
}

/* Patterns as they are in the files of models. */
static const struct {
    const char *pattern, *words;
} patterns[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "gpt-2" },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "llama-bpe" },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "qwen2" },
};

static copse_status split_step(struct tokenizer_text *in, const cJSON *step, const char **words)
{
    const cJSON *how = cJSON_GetObjectItemCaseSensitive(step, "pattern");
    const char *pattern = text_of(how, "Regex");
    if (in->has_space && is_text(text_of(how, "String"), " ") && !is_true(step, "invert", false))
        return COPSE_OK; /* there are no spaces any more */
    if (!is_text(text_of(step, "behavior"), "Isolated") || is_true(step, "invert", false))
        return text_refuse(in, "a split with the behaviour", text_of(step, "behavior"));
    for (size_t i = 0; i < COPSE_COUNT(patterns); i++)
        if (is_text(pattern, patterns[i].pattern)) {
            *words = patterns[i].words;
            return COPSE_OK;
        }
    return text_refuse(in, "its pattern of words", pattern);
}

static copse_status piece_step(struct tokenizer_text *in, const cJSON *step)
{
    const char *scheme = text_of(step, "prepend_scheme");
    if (!is_text(text_of(step, "replacement"), MARK))
        return text_refuse(in, "the mark of spaces", text_of(step, "replacement"));
    if (is_true(step, "split", true))
        return refuse_use(in, "the pre-tokenizer Metaspace with \"split\": true");
    if (in->t->adds_space != COPSE_SPACE_NONE)
        return refuse_use(in, "the pre-tokenizer Metaspace after the normalizer Prepend");
    in->has_space = in->t->spares_space = true;
    if (!*scheme)
        scheme = is_true(step, "add_prefix_space", true) ? "always" : "never";
    in->t->adds_space = is_text(scheme, "first")    ? COPSE_SPACE_FIRST
                        : is_text(scheme, "always") ? COPSE_SPACE_EACH
                                                    : COPSE_SPACE_NONE;
    return COPSE_OK;
}

/* A step that cuts a text. `is_alone`: there is no other one before it. */
static copse_status cut_step(struct tokenizer_text *in, const cJSON *step, bool is_alone,
                             const char **words)
{
    const char *type = text_of(step, "type");
    if (is_text(type, "Metaspace") && is_alone)
        return piece_step(in, step);
    if (is_text(type, "Split") && is_alone)
        return split_step(in, step, words);
    if (is_text(type, "Digits") && is_alone && is_true(step, "individual_digits", false)) {
        *words = "digits";
        return COPSE_OK;
    }
    if (!is_text(type, "ByteLevel") || in->is_bytes)
        return text_refuse(in, "its pre-tokenizer", type);
    in->is_bytes = true;
    if (is_true(step, "use_regex", true))
        *words = !*words ? "gpt-2" : is_text(*words, "digits") ? "smollm" : "";
    const bool is_spaced = is_true(step, "add_prefix_space", true);
    if (is_spaced && !is_alone)
        return refuse_use(in, "\"add_prefix_space\": true after another pre-tokenizer");
    if (!*words || is_text(*words, "digits"))
        return refuse_use(in, "the pre-tokenizer ByteLevel without a pattern of words");
    if (!**words)
        return refuse_use(in, "two patterns of words: one of Split, one of ByteLevel");
    in->t->adds_space = is_spaced ? COPSE_SPACE_EACH : COPSE_SPACE_NONE;
    in->t->spares_space = is_spaced;
    return COPSE_OK;
}

static copse_status read_cuts(struct tokenizer_text *in, const cJSON *normalizer,
                              const cJSON *cutter)
{
    const char *words = NULL;
    for (const cJSON *s = first_step(normalizer, "normalizers"); s; s = next_step(normalizer, s))
        COPSE_TRY(normalise_step(in, s));
    const enum copse_space space = in->t->adds_space;
    for (const cJSON *first = first_step(cutter, "pretokenizers"), *s = first; s;
         s = next_step(cutter, s))
        COPSE_TRY(cut_step(in, s, s == first, &words));
    if (in->is_bytes && (in->has_space || space != COPSE_SPACE_NONE))
        return refuse_use(in, "the pre-tokenizer ByteLevel after a normalizer that writes U+2581");
    if (!in->is_bytes && words)
        return refuse_use(in, "a pattern of words without the pre-tokenizer ByteLevel");
    if (!in->is_bytes && !in->has_space)
        return refuse_use(in,
                          "neither the pre-tokenizer ByteLevel nor a step that writes spaces as "
                          "U+2581");
    if (!in->is_bytes && in->t->is_normalised)
        return refuse_use(in, "the normalizer NFC for a vocabulary of pieces");
    in->t->words = words ? copse__words_find(words, strlen(words)) : NULL;
    return COPSE_OK;
}

/* ---- tokens ---- */

/* A token with a number: "id". COPSE_NO_TOKEN: it is none of the model. */
static uint32_t token_number(const struct copse_tokenizer *t, const cJSON *number)
{
    const double v = cJSON_IsNumber(number) ? number->valuedouble : -1;
    return v >= 0 && v < t->count && v == floor(v) ? (uint32_t)v : COPSE_NO_TOKEN;
}

static copse_status no_token(const struct tokenizer_text *in, const char *name)
{
    return copse_fail(COPSE_ERR_FORMAT,
                      "%s: the number of the token \"%.60s\" is not one of the %u of the model",
                      in->path, name, in->t->count);
}

static copse_status take_token(void *user, const struct copse_json_item *item)
{
    struct tokenizer_text *in = user;
    cJSON *value = copse__json_parse(item->value, item->size);
    const uint32_t i = token_number(in->t, value);
    cJSON_Delete(value);
    if (i == COPSE_NO_TOKEN)
        return no_token(in, item->name);
    if (in->t->tokens[i].text)
        return copse_fail(COPSE_ERR_FORMAT, "%s: the number %u has two tokens, one is \"%.60s\"",
                          in->path, i, item->name);
    return copse__tokenizer_set(in->t, i, in->has_bytes ? COPSE_TOKEN_BYTE : COPSE_TOKEN_NORMAL,
                                item->name, strlen(item->name));
}

static copse_status add_named(const struct tokenizer_text *in, const cJSON *o)
{
    static const char *const others[] = { "lstrip", "rstrip", "single_word" };
    const char *text = text_of(o, "content");
    const uint32_t i = token_number(in->t, cJSON_GetObjectItemCaseSensitive(o, "id"));
    for (size_t k = 0; k < COPSE_COUNT(others); k++)
        if (is_true(o, others[k], false))
            return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: the token \"%.60s\" has \"%s\"", in->path,
                              text, others[k]);
    if (in->is_changed && is_true(o, "normalized", !is_true(o, "special", false)))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: the token \"%.60s\" has \"normalized\"",
                          in->path, text);
    if (i == COPSE_NO_TOKEN || !*text)
        return no_token(in, text);
    return copse__tokenizer_set(
        in->t, i, is_true(o, "special", false) ? COPSE_TOKEN_CONTROL : COPSE_TOKEN_ADDED, text,
        strlen(text));
}

static copse_status take_named(void *user, const struct copse_json_item *item)
{
    cJSON *o;
    COPSE_TRY(parse_part(user, item, &o));
    const copse_status s = add_named(user, o);
    cJSON_Delete(o);
    return s;
}

/* ---- merges ---- */

/* ["left", "right"], or "left right" */
static copse_status take_merge(void *user, const struct copse_json_item *item)
{
    struct tokenizer_text *in = user;
    cJSON *o = copse__json_parse(item->value, item->size);
    const cJSON *first = cJSON_IsArray(o) ? o->child : NULL, *second = first ? first->next : NULL;
    const char *left = cJSON_IsString(first) ? first->valuestring : "",
               *right = cJSON_IsString(second) && !second->next ? second->valuestring : "";
    size_t n = strlen(left);
    if (cJSON_IsString(o)) {
        left = o->valuestring;
        n = strcspn(left, " ");
        right = left[n] ? left + n + 1 : "";
    }
    const bool ok = copse__tokenizer_join(in->t, left, n, right, strlen(right), in->merge);
    cJSON_Delete(o);
    if (!ok)
        return copse_fail(COPSE_ERR_FORMAT, "%s: merge %u does not join two tokens to one",
                          in->path, in->merge);
    if (++in->merge > COPSE_MERGES_MOST)
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s has more than %u merges of its tokens, the most that are read",
                          in->path, COPSE_MERGES_MOST);
    return COPSE_OK;
}

static copse_status read_merges(struct tokenizer_text *in, const struct copse_json_item *merges)
{
    struct copse_json at = walk_of(in, merges), again = at;
    COPSE_TRY(copse__json_elements(&at, take_merge, in)); /* wrong ones ask for no memory */
    if (in->merge == 0)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no merges of its tokens", in->path);
    COPSE_TRY(copse__tokenizer_merges(in->t, in->merge));
    in->merge = 0;
    return copse__json_elements(&again, take_merge, in);
}

/* ---- the model ---- */

enum { TYPE, VOCAB, MERGES, UNKNOWN, PREFIX, SUFFIX, DROPOUT, FALLBACK, WHOLE, FUSE, MODEL_PARTS };
static const char *const model_names[MODEL_PARTS] = { "type",
                                                      "vocab",
                                                      "merges",
                                                      "unk_token",
                                                      "continuing_subword_prefix",
                                                      "end_of_word_suffix",
                                                      "dropout",
                                                      "byte_fallback",
                                                      "ignore_merges",
                                                      "fuse_unk" };

static bool has_value(const struct copse_json_item *item, const char *text)
{
    return item->value && item->size == strlen(text) && memcmp(item->value, text, item->size) == 0;
}

static copse_status check_kind(const struct tokenizer_text *in, const struct copse_json_item *part)
{
    if (has_value(&part[TYPE], "\"BPE\"") || (!part[TYPE].value && part[MERGES].value))
        return COPSE_OK;
    char *type = copse__json_string(part[TYPE].value, part[TYPE].size);
    const copse_status s = copse_fail(
        COPSE_ERR_UNSUPPORTED, "%s has a tokenizer of the kind \"%.60s\"; only \"BPE\" is read",
        in->path, type ? type : "");
    cJSON_free(type);
    return s;
}

static copse_status check_model(struct tokenizer_text *in, const struct copse_json_item *part)
{
    for (int i = PREFIX; i <= DROPOUT; i++)
        if (part[i].value && !has_value(&part[i], "\"\"") && !has_value(&part[i], "0.0") &&
            !has_value(&part[i], "0"))
            return copse_fail(COPSE_ERR_UNSUPPORTED, "%s has a \"%s\", which is not computed",
                              in->path, model_names[i]);
    if (!part[VOCAB].value || !part[MERGES].value) {
        const struct copse_json at = walk_of(in, part);
        return copse__json_wrong(&at);
    }
    in->has_bytes = has_value(&part[FALLBACK], "true");
    in->t->knows_whole = has_value(&part[WHOLE], "true");
    return in->has_bytes == !in->is_bytes
               ? COPSE_OK
               : refuse_use(in, in->has_bytes ? "a vocabulary of bytes with \"byte_fallback\": true"
                                              : "a vocabulary of pieces without "
                                                "\"byte_fallback\": true");
}

/* Find the unknown token by its text in the file. */
static copse_status read_unknown(struct tokenizer_text *in, const struct copse_json_item *item,
                                 uint32_t *out)
{
    *out = COPSE_NO_TOKEN;
    if (!item->value)
        return COPSE_OK;
    char *name = copse__json_string(item->value, item->size);
    const size_t size = name ? strlen(name) : 0;
    for (uint32_t i = 0; name && i < in->t->count && *out == COPSE_NO_TOKEN; i++)
        if (in->t->tokens[i].text && in->t->tokens[i].size == size &&
            memcmp(in->t->tokens[i].text, name, size) == 0)
            *out = i;
    cJSON_free(name);
    return *out != COPSE_NO_TOKEN
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "%s: the vocabulary does not have the token \"unk_token\"", in->path);
}

/* Tokens that are written differently are the same bytes: which one would a text have? */
static copse_status check_twice(const struct tokenizer_text *in)
{
    const struct copse_tokenizer *t = in->t;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct copse_token *token = &t->tokens[i];
        if (token->is_named || token->is_special || token->is_byte || token->is_unreachable ||
            token->size == 0 || copse__tokenizer_find(t, token->text, token->size) == i)
            continue;
        return copse_fail(COPSE_ERR_FORMAT, "%s: the tokens %u and %u are the same text", in->path,
                          copse__tokenizer_find(t, token->text, token->size), i);
    }
    return COPSE_OK;
}

static copse_status read_model(struct tokenizer_text *in, const struct copse_json_item *part,
                               const struct copse_json_item *added)
{
    uint32_t unknown;
    COPSE_TRY(check_model(in, part));
    COPSE_TRY(copse__tokenizer_begin(in->t));
    struct copse_json vocabulary = walk_of(in, &part[VOCAB]), names = walk_of(in, added);
    COPSE_TRY(copse__json_members(&vocabulary, take_token, in));
    if (added->value)
        COPSE_TRY(copse__json_elements(&names, take_named, in));
    COPSE_TRY(read_unknown(in, &part[UNKNOWN], &unknown));
    for (uint32_t i = 0; i < in->t->count; i++)
        if (!in->t->tokens[i].text)
            in->t->tokens[i].text = "";
    COPSE_TRY(copse__tokenizer_index(in->t));
    in->t->unknown = unknown;
    COPSE_TRY(check_twice(in));
    if (has_value(&part[FUSE], "true") && unknown != COPSE_NO_TOKEN &&
        copse__tokenizer_missing(in->t) >= 0)
        return refuse_use(in, "\"fuse_unk\": true and bytes without a token");
    COPSE_TRY(read_merges(in, &part[MERGES]));
    return copse__tokenizer_check(in->t, in->path);
}

/* ---- what comes after ---- */

/* A template: a special token and the text, or the text alone. */
static copse_status template_step(struct tokenizer_text *in, const cJSON *step)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(step, "single"),
                *item = cJSON_IsArray(list) ? list->child : NULL,
                *special = cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
    if (special) {
        const cJSON *entry = cJSON_GetObjectItemCaseSensitive(
                        cJSON_GetObjectItemCaseSensitive(step, "special_tokens"),
                        text_of(special, "id")),
                    *ids = cJSON_GetObjectItemCaseSensitive(entry, "ids");
        in->t->begin = cJSON_IsArray(ids) && ids->child && !ids->child->next
                           ? token_number(in->t, ids->child)
                           : COPSE_NO_TOKEN;
        if (in->t->begin == COPSE_NO_TOKEN)
            return no_token(in, text_of(special, "id"));
        in->t->adds_begin = true;
        item = item->next;
    }
    return item && cJSON_GetObjectItemCaseSensitive(item, "Sequence") && !item->next
               ? COPSE_OK
               : text_refuse(in, "a post-processor of another form:", "TemplateProcessing");
}

static copse_status read_after(struct tokenizer_text *in, const cJSON *after)
{
    for (const cJSON *s = first_step(after, "processors"); s; s = next_step(after, s)) {
        const char *type = text_of(s, "type");
        if (is_text(type, "TemplateProcessing"))
            COPSE_TRY(template_step(in, s));
        else if (!is_text(type, "ByteLevel"))
            return text_refuse(in, "its post-processor", type);
    }
    return COPSE_OK;
}

/* ---- all ---- */

enum { MODEL, ADDED, NORMALIZER, CUTTER, AFTER, PARTS };
static const char *const part_names[PARTS] = { "model", "added_tokens", "normalizer",
                                               "pre_tokenizer", "post_processor" };

static copse_status read_parts(struct tokenizer_text *in, const struct copse_json_item *part)
{
    cJSON *o[PARTS] = { NULL };
    struct copse_json_item model[MODEL_PARTS];
    COPSE_TRY(copse__json_pick(walk_of(in, &part[MODEL]), model_names, MODEL_PARTS, model));
    copse_status s = check_kind(in, model);
    for (int i = NORMALIZER; s == COPSE_OK && i < PARTS; i++)
        s = parse_part(in, &part[i], &o[i]);
    if (s == COPSE_OK)
        s = read_cuts(in, o[NORMALIZER], o[CUTTER]);
    if (s == COPSE_OK)
        s = read_model(in, model, &part[ADDED]);
    if (s == COPSE_OK)
        s = read_after(in, o[AFTER]);
    for (int i = 0; i < PARTS; i++)
        cJSON_Delete(o[i]);
    return s;
}

copse_status copse__tokenizer_read_json(struct copse_tokenizer *t, const char *path)
{
    struct tokenizer_text in = { .t = t, .path = path };
    struct copse_json_item part[PARTS], whole = { 0 };
    char *text;
    COPSE_TRY(copse__json_load(t->mem, path, FILE_MAX, &text, &whole.size));
    whole.value = text;
    copse_status s = copse__json_pick(walk_of(&in, &whole), part_names, PARTS, part);
    if (s == COPSE_OK && !part[MODEL].value) {
        const struct copse_json at = walk_of(&in, &whole);
        s = copse__json_wrong(&at);
    }
    if (s == COPSE_OK)
        s = read_parts(&in, part);
    copse__free(t->mem, text);
    return s;
}
