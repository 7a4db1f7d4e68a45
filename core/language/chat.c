/* SPDX-License-Identifier: MIT */
/* The forms of conversations that are known. A file has a program in a language for templates; it
   is recognised by a text that only its form has, and not run. */
#include "core/language/chat.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/language/language.h"

#define MOST_BYTES (16u << 20) /* bytes: of a question, or of what the system says */

static const struct copse_chat_form forms[] = {
    { "chatml", "<|im_start|>", "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n",
      "<|im_end|>\n", "<|im_start|>assistant\n" },
    { "llama3", "<|start_header_id|>", "<|start_header_id|>system<|end_header_id|>\n\n",
      "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>",
      "<|start_header_id|>assistant<|end_header_id|>\n\n" },
    { "zephyr", "<|assistant|>", "<|system|>\n", "</s>\n", "<|user|>\n", "</s>\n",
      "<|assistant|>\n" },
};

static const char *find_text(const char *in, size_t size, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(in + i, text, n) == 0)
            return in + i;
    return NULL;
}

/* The words between the marks of the system, if they are words alone. */
static void find_system(struct copse_chat *chat, const char *template, size_t size)
{
    static const char mark[] = "<|im_start|>system";
    const char *end = template + size, *at = find_text(template, size, mark);
    if (!at)
        return;
    at += sizeof mark - 1;
    if (at < end && *at == '\n')
        at++;
    else if (end - at > 1 && at[0] == '\\' && at[1] == 'n')
        at += 2;
    const char *stop = find_text(at, (size_t)(end - at), "<|im_end|>");
    for (const char *c = at; stop && c < stop; c++)
        if (*c == '\'' || *c == '{' || *c == '\\')
            return;
    chat->system = stop && stop > at ? at : NULL;
    chat->system_size = stop ? (size_t)(stop - at) : 0;
}

void copse__chat_find(struct copse_chat *chat, const char *template, size_t size)
{
    *chat = (struct copse_chat){ .form = NULL };
    for (size_t i = 0; i < COPSE_COUNT(forms) && !chat->form; i++)
        if (find_text(template, size, forms[i].sign))
            chat->form = &forms[i];
    if (chat->form == &forms[0])
        find_system(chat, template, size);
}

copse_status copse_language_chat(const copse_language *language, const char *system,
                                 const char *question, char *text, size_t room, size_t *needed)
{
    COPSE_TRY(copse_need("language chat", language, question, needed));
    const struct copse_chat *chat = &language->chat;
    const struct copse_chat_form *form = chat->form;
    if (!form)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: the form of its conversations is not known; chatml, llama3 and "
                          "zephyr are: write the prompt in its own form",
                          language->path);
    if (strlen(question) > MOST_BYTES || (system && strlen(system) > MOST_BYTES))
        return copse_fail(COPSE_ERR_ARGUMENT, "language chat: the %s has more than %u bytes",
                          strlen(question) > MOST_BYTES ? "question" : "text of the system",
                          MOST_BYTES);
    const int given = (int)(system ? strlen(system) : chat->system_size);
    const char *words = system ? system : chat->system ? chat->system : "";
    const bool has_system = system ? *system != '\0' : chat->system != NULL;
    const int n =
        snprintf(text, text ? room : 0, "%s%.*s%s%s%s%s%s", has_system ? form->system_begin : "",
                 given, words, has_system ? form->system_end : "", form->user_begin, question,
                 form->user_end, form->model_begin);
    *needed = (size_t)n + 1;
    return room == 0 || *needed <= room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "language chat: the text needs %zu bytes, not %zu",
                            *needed, room);
}
