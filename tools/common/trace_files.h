/* SPDX-License-Identifier: MIT */
/* Names of the traces of a job. */
#ifndef TRACE_FILES_H
#define TRACE_FILES_H

#include <stddef.h>
#include <stdint.h>

/* FILE of the first worker; with ".2" before the ending for rank 2. */
void trace_file_name(const char *path, uint32_t rank, char *text, size_t room);

#endif
