/* SPDX-License-Identifier: MIT */
/* Forms of conversations, by name: what stands around the words of system, user and model. */
#ifndef COPSE_LANGUAGE_CHAT_H
#define COPSE_LANGUAGE_CHAT_H

#include <stddef.h>

struct copse_chat_form {
    const char *name;
    const char *sign; /* a file whose template has this text has the form */
    const char *system_begin, *system_end, *user_begin, *user_end, *model_begin;
};

struct copse_chat {
    const struct copse_chat_form *form; /* NULL: unknown */
    const char *system; /* what the template says first where there is nothing else; or NULL */
    size_t system_size;
};

/* The form of a template; the chat borrows from it. */
void copse__chat_find(struct copse_chat *chat, const char *template, size_t size);

#endif
