/* SPDX-License-Identifier: MIT */
/* The list of the case tables. */
#ifndef COPSE_CASE_TABLES_H
#define COPSE_CASE_TABLES_H

#include "core/graph/case.h"

/* All tables, NULL-terminated. The build generates it from the file names (cmake/tables.cmake). */
extern const struct copse_case_table *const copse_case_tables[];

#endif
