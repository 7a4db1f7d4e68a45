/* SPDX-License-Identifier: MIT */
/* Words in the text of a schema, indexed by the values of the enums; `missing`: refuse, then mean. */
#ifndef COPSE_CORE_DATA_SCHEMA_NAMES_H
#define COPSE_CORE_DATA_SCHEMA_NAMES_H

/* versions of the text: what each of them was the first to have */
#define COPSE_SCHEMA_FIRST   1
#define COPSE_SCHEMA_DATES   2
#define COPSE_SCHEMA_TARGETS 3 /* several label columns of a table */
#define COPSE_SCHEMA_VERSION COPSE_SCHEMA_TARGETS

#define COPSE_SCHEMA_RESIZE "bilinear" /* how pictures are resized */
enum {
    COPSE_SCHEMA_KINDS = 4,
    COPSE_SCHEMA_TASKS = 4,
    COPSE_SCHEMA_ROLES = 5,
    COPSE_SCHEMA_ORDERS = 3,
    COPSE_SCHEMA_MISSING = 2
};

extern const char *const copse__schema_kinds[COPSE_SCHEMA_KINDS];
extern const char *const copse__schema_tasks[COPSE_SCHEMA_TASKS];
extern const char *const copse__schema_roles[COPSE_SCHEMA_ROLES];
extern const char *const copse__schema_orders[COPSE_SCHEMA_ORDERS];
extern const char *const copse__schema_missing[COPSE_SCHEMA_MISSING];

#endif
