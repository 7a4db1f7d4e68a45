/* SPDX-License-Identifier: MIT */
/* Conversations in JSON lines as windows in which only the answers are predicted. Everything before
   an answer becomes tokens as copse_language_chat and copse_language_generate make them, the
   answer by itself, as it is written. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>

#include "core/data/reader/json_walk.h"
#include "core/language/adapter.h"

#define LINE_MAX_BYTES (2u << 20)

struct conversations {
    copse_language *l;
    struct {
        char *at;
        size_t count, room;
    } text;                     /* of what the model is told */
    struct copse_tokens tokens; /* of all conversations, one after the other */
    struct {
        bool *at;
        size_t count, room;
    } is_answer; /* of the tokens */
    struct {
        size_t *at;
        size_t count, room;
    } ends; /* in the tokens, of the conversations */
    size_t line;
    size_t most; /* tokens that are kept of a conversation: more than any window */
    struct copse_conversations_info info;
};

#define line_fail(c, ...) copse_fail(COPSE_ERR_FORMAT, "conversations: line %zu: " __VA_ARGS__)

static struct copse_mem *memory_of(const struct conversations *c)
{
    return c->l->arena.mem;
}

/* ---- tokens ---- */

static copse_status tell_text(struct conversations *c, const char *text, size_t size)
{
    if (!COPSE_RESERVE(memory_of(c), &c->text, c->text.count + size + 1))
        return copse_no_memory("conversations");
    memcpy(c->text.at + c->text.count, text, size);
    c->text.count += size;
    return COPSE_OK;
}

static copse_status tell_mark(struct conversations *c, const char *mark)
{
    return tell_text(c, mark, strlen(mark));
}

/* The words of the system, if there are any, and a question (NULL: none), as the form has them. */
static copse_status tell_question(struct conversations *c, struct copse_chat_words system,
                                  const char *question)
{
    struct copse_chat_question q;
    copse__chat_question(&c->l->chat, system, question, &q);
    for (size_t i = 0; i < q.count; i++)
        COPSE_TRY(tell_text(c, q.pieces[i].at, q.pieces[i].size));
    return COPSE_OK;
}

/* Note which tokens the newest ones are. */
static copse_status note_tokens(struct conversations *c, bool is_answer)
{
    while (c->is_answer.count < c->tokens.count)
        if (!COPSE_PUSH(memory_of(c), &c->is_answer, is_answer))
            return copse_no_memory("conversations");
    return COPSE_OK;
}

/* The tokens of what was told since the newest answer. */
static copse_status flush_told(struct conversations *c)
{
    const size_t first = c->ends.count > 0 ? c->ends.at[c->ends.count - 1] : 0;
    if (c->text.count > 0 && c->tokens.count == first)
        COPSE_TRY(copse__language_encode(c->l, c->text.at, c->text.count, &c->tokens));
    else if (c->text.count > 0)
        COPSE_TRY(
            copse__tokenizer_encode(&c->l->tokenizer, c->text.at, c->text.count, true, &c->tokens));
    c->text.count = 0;
    return note_tokens(c, false);
}

/* An answer with the mark that ends it; what follows the mark on its line is told. */
static copse_status add_answer(struct conversations *c, const char *text)
{
    const struct copse_chat_form *form = c->l->chat.form;
    struct copse_tokenizer *t = &c->l->tokenizer;
    const struct copse_chat_words words =
        copse__chat_trim(copse__chat_text(text), form->trims_model);
    const size_t mark = strcspn(form->answer_end, "\n");
    COPSE_TRY(tell_mark(c, form->model_begin));
    COPSE_TRY(flush_told(c));
    COPSE_TRY(tell_mark(c, form->answer_begin));
    COPSE_TRY(tell_text(c, words.at, words.size));
    COPSE_TRY(copse__tokenizer_encode(t, c->text.at, c->text.count, false, &c->tokens));
    c->text.count = 0;
    COPSE_TRY(copse__tokenizer_encode(t, form->answer_end, mark, true, &c->tokens));
    COPSE_TRY(note_tokens(c, true));
    return tell_mark(c, form->answer_end + mark);
}

/* ---- lines ---- */

static copse_status check_system(const struct conversations *c)
{
    const struct copse_chat_form *form = c->l->chat.form;
    return form->system != COPSE_CHAT_SYSTEM_NOWHERE
               ? COPSE_OK
               : line_fail(c,
                           "it has words of the system, and conversations of the form %s have "
                           "none: put them into the first question",
                           c->line, form->name);
}

/* Words of the system wait for the first question. */
struct turns {
    struct copse_chat_words system;
    size_t questions;
    bool is_first, has_system, has_answer;
};

static copse_status add_user(struct conversations *c, struct turns *t, const char *question)
{
    const struct copse_chat_form *form = c->l->chat.form;
    if (t->questions++ > 0 && t->has_system && form->system == COPSE_CHAT_SYSTEM_IN_LAST)
        return line_fail(c,
                         "it has words of the system and several questions, and the form %s puts "
                         "these words before the last question: put them into a question",
                         c->line, form->name);
    COPSE_TRY(tell_question(c, t->system, question));
    t->system.at = NULL;
    return COPSE_OK;
}

static copse_status add_assistant(struct conversations *c, struct turns *t, const char *answer)
{
    const struct copse_chat_form *form = c->l->chat.form;
    if (t->system.at && form->system != COPSE_CHAT_SYSTEM_ALONE)
        return line_fail(c, "an answer follows the words of the system, and no question", c->line);
    COPSE_TRY(tell_question(c, t->system, NULL));
    t->system.at = NULL;
    t->has_answer = true;
    return add_answer(c, answer);
}

static copse_status add_message(struct conversations *c, const cJSON *message, struct turns *t)
{
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(message, "role"),
                *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (!cJSON_IsString(role) || !cJSON_IsString(content))
        return line_fail(c, "a message has no texts \"role\" and \"content\"", c->line);
    const bool is_first = t->is_first;
    t->is_first = false;
    if (strcmp(role->valuestring, "user") == 0)
        return add_user(c, t, content->valuestring);
    if (strcmp(role->valuestring, "assistant") == 0)
        return add_assistant(c, t, content->valuestring);
    if (strcmp(role->valuestring, "system") != 0)
        return line_fail(c, "the role \"%.40s\"; system, user and assistant are known", c->line,
                         role->valuestring);
    if (!is_first)
        return line_fail(c, "a message of the system is not the first", c->line);
    COPSE_TRY(check_system(c));
    t->system = copse__chat_text(content->valuestring);
    t->has_system = true;
    return COPSE_OK;
}

static copse_status add_messages(struct conversations *c, const cJSON *messages)
{
    struct turns t = { .system = c->l->chat.system, .is_first = true };
    const cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        COPSE_TRY(add_message(c, message, &t));
    }
    return t.has_answer ? COPSE_OK : line_fail(c, "no message is of the assistant", c->line);
}

static copse_status add_pair(struct conversations *c, const cJSON *o)
{
    const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(o, "prompt"),
                *answer = cJSON_GetObjectItemCaseSensitive(o, "answer"),
                *system = cJSON_GetObjectItemCaseSensitive(o, "system");
    if (!cJSON_IsString(prompt) || !cJSON_IsString(answer) || (system && !cJSON_IsString(system)))
        return line_fail(c,
                         "neither a list \"messages\", nor texts \"prompt\" and \"answer\" (and "
                         "\"system\")",
                         c->line);
    if (system)
        COPSE_TRY(check_system(c));
    COPSE_TRY(tell_question(c, system ? copse__chat_text(system->valuestring) : c->l->chat.system,
                            prompt->valuestring));
    return add_answer(c, answer->valuestring);
}

/* The number of \uXXXX at a backslash; -1: it is another escape. */
static long escape_number(const char *at, size_t size)
{
    char digits[5] = "";
    if (size < 6 || at[1] != 'u')
        return -1;
    for (int i = 0; i < 4; i++) {
        digits[i] = at[2 + i];
        if (!isxdigit((unsigned char)digits[i]))
            return -1;
    }
    return strtol(digits, NULL, 16);
}

/* U+0000 would end a text. cJSON refuses half a surrogate pair as if it were no JSON. */
static copse_status check_escapes(const struct conversations *c, const char *line, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (line[i] != '\\')
            continue;
        const long number = escape_number(line + i, size - i);
        const bool is_high = number >= 0xd800 && number < 0xdc00;
        const long next = is_high && size - i > 6 && line[i + 6] == '\\'
                              ? escape_number(line + i + 6, size - i - 6)
                              : -1;
        const bool is_pair = next >= 0xdc00 && next < 0xe000;
        if (number == 0)
            return line_fail(c, "a text has the character \\u0000", c->line);
        if (number >= 0xd800 && number < 0xe000 && !is_pair)
            return line_fail(c, "\\u%04lx is half of a surrogate pair", c->line, number);
        i += is_pair ? 11 : 1;
    }
    return COPSE_OK;
}

static bool has_key(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return item && !cJSON_IsNull(item);
}

static copse_status add_object(struct conversations *c, const cJSON *o)
{
    static const char *const others[] = { "prompt", "answer", "system" };
    const bool has_messages = has_key(o, "messages");
    for (size_t i = 0; has_messages && i < COPSE_COUNT(others); i++)
        if (has_key(o, others[i]))
            return line_fail(c, "it has \"messages\" and also \"%s\"", c->line, others[i]);
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(o, "messages");
    return cJSON_IsArray(messages) ? add_messages(c, messages) : add_pair(c, o);
}

static copse_status add_line(struct conversations *c, const char *line, size_t size)
{
    const size_t first = c->tokens.count;
    if (size > LINE_MAX_BYTES)
        return line_fail(c,
                         "it has %zu bytes, at most %u are read: make several conversations of it",
                         c->line, size, LINE_MAX_BYTES);
    if (memchr(line, 0, size))
        return line_fail(c, "it has a byte 0", c->line);
    COPSE_TRY(check_escapes(c, line, size));
    cJSON *o = copse__json_parse(line, size);
    copse_status s = cJSON_IsObject(o)
                         ? add_object(c, o)
                         : line_fail(c, "it is not one JSON object of at most %d values", c->line,
                                     COPSE_JSON_VALUES);
    cJSON_Delete(o);
    c->text.count = 0; /* after the last answer */
    c->tokens.count = COPSE_MIN(c->tokens.count, first + c->most);
    c->is_answer.count = c->tokens.count;
    if (s == COPSE_OK && !COPSE_PUSH(memory_of(c), &c->ends, c->tokens.count))
        s = copse_no_memory("conversations");
    return s;
}

static copse_status add_lines(struct conversations *c, const char *lines, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
    if (size >= sizeof mark - 1 && memcmp(lines, mark, sizeof mark - 1) == 0) {
        lines += sizeof mark - 1;
        size -= sizeof mark - 1;
    }
    for (const char *at = lines, *end = lines + size, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        c->line++;
        size_t skipped = 0;
        while (at + skipped < stop && copse__json_is_space(at[skipped]))
            skipped++;
        if (at + skipped < stop)
            COPSE_TRY(add_line(c, at, (size_t)(stop - at)));
    }
    return COPSE_OK;
}

/* ---- windows ---- */

/* The answers of conversation i that a window of so many tokens predicts. */
static size_t count_answers(const struct conversations *c, size_t i, uint32_t window)
{
    const size_t first = i > 0 ? c->ends.at[i - 1] : 0,
                 stop = COPSE_MIN(c->ends.at[i], first + window + 1);
    size_t count = 0;
    for (size_t at = first + 1; at < stop; at++)
        count += c->is_answer.at[at];
    return count;
}

static void fill_window(const struct conversations *c, size_t i, uint32_t window, int32_t *x,
                        int32_t *y)
{
    const size_t first = i > 0 ? c->ends.at[i - 1] : 0;
    for (uint32_t k = 0; k < window; k++) {
        const size_t at = first + k;
        const bool is_there = at + 1 < c->ends.at[i];
        x[k] = is_there ? c->tokens.at[at] : 0;
        y[k] = is_there && c->is_answer.at[at + 1] ? c->tokens.at[at + 1] : COPSE_LANGUAGE_NO_TOKEN;
    }
}

static copse_status conversations_make(struct conversations *c, uint32_t window,
                                       copse_dataset **out)
{
    size_t rows = 0;
    for (size_t i = 0; i < c->ends.count; i++) {
        const size_t size = c->ends.at[i] - (i > 0 ? c->ends.at[i - 1] : 0),
                     answers = count_answers(c, i, window);
        c->info.cut += size > (size_t)window + 1 && answers > 0;
        c->info.dropped += answers == 0;
        c->info.predicted += answers;
        rows += answers > 0;
    }
    c->info.conversations = rows;
    c->info.window = window;
    if (rows == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "conversations: %zu of them, and no answer begins in a window of %u "
                          "tokens",
                          c->ends.count, window);
    int32_t *x = copse__alloc(memory_of(c), rows * window, 2 * sizeof *x),
            *y = x ? x + rows * window : NULL;
    COPSE_TRY(copse_need_memory(x, "conversations"));
    for (size_t i = 0, row = 0; i < c->ends.count; i++)
        if (count_answers(c, i, window) > 0) {
            fill_window(c, i, window, x + row * window, y + row * window);
            row++;
        }
    const struct copse_column columns[] = { { "x", COPSE_I32, COPSE_SHAPE(window), x },
                                            { "y", COPSE_I32, COPSE_SHAPE(window), y } };
    const copse_status s = copse_dataset_columns(c->l->strategy->ctx, columns, 2, rows, out);
    copse__free(memory_of(c), x);
    return s;
}

/* The longest conversation, at most 512 tokens and what attention takes. */
static uint32_t usual_window(const struct conversations *c)
{
    size_t most = 2;
    for (size_t i = 0; i < c->ends.count; i++)
        most = COPSE_MAX(most, c->ends.at[i] - (i > 0 ? c->ends.at[i - 1] : 0));
    return (uint32_t)COPSE_MIN(most - 1, (size_t)COPSE_MIN(copse__language_most(c->l), 512u));
}

copse_status copse_language_conversations(copse_language *language, const char *lines, size_t size,
                                          uint32_t window, struct copse_conversations_info *info,
                                          copse_dataset **out)
{
    struct conversations c = { .l = language };
    COPSE_TRY(copse_need("conversations", out));
    *out = NULL;
    COPSE_TRY(copse_need("conversations", language, lines));
    COPSE_TRY(copse__require_no_replica("copse_language_conversations", language->strategy));
    if (!language->chat.form)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: the form of its conversations is not known; " COPSE_CHAT_NAMES
                          " are",
                          language->path);
    if (window > 0)
        COPSE_TRY(copse__language_check_window(language, window));
    c.most = (size_t)copse__language_most(language) + 2;
    copse_status s = add_lines(&c, lines, size);
    if (s == COPSE_OK)
        s = conversations_make(&c, window > 0 ? window : usual_window(&c), out);
    if (s == COPSE_OK && info)
        *info = c.info;
    copse__free(memory_of(&c), c.text.at);
    copse__free(memory_of(&c), c.tokens.at);
    copse__free(memory_of(&c), c.is_answer.at);
    copse__free(memory_of(&c), c.ends.at);
    return s;
}
