/* SPDX-License-Identifier: MIT */
/* The picture files of a dataset: their paths, their headers, and their classes. */
#ifndef COPSE_DATA_PICTURE_LIST_H
#define COPSE_DATA_PICTURE_LIST_H

#include "copse/context.h"
#include "core/base/base.h"
#include "core/pictures/picture.h"

#define COPSE_PICTURE_THREADS_MAX 4u

struct copse_picture_file {
    const char *path;
    uint32_t class; /* index in `classes` */
    struct copse_picture header;
};

/* Constant once it is made. */
struct copse_picture_list {
    copse_refs refs;
    copse_context *ctx;
    struct copse_arena arena; /* owns the texts */
    struct {
        struct copse_picture_file *at;
        size_t count, room;
    } files; /* sorted by class and name */
    struct {
        const char **at;
        size_t count, room;
    } classes; /* names of the sub-folders, sorted by bytes; none: the pictures have no classes */
};

/* The pictures of folders with one sub-folder for each class, or of folders and files without
   classes. Headers are read by several threads. */
copse_status copse__picture_list_create(copse_context *ctx, const char *const *paths, size_t count,
                                        struct copse_picture_list **out);
struct copse_picture_list *copse__picture_list_retain(struct copse_picture_list *list);
void copse__picture_list_release(struct copse_picture_list **list);

/* Threads that decode. */
uint32_t copse__picture_threads(void);

#endif
