/* SPDX-License-Identifier: MIT */
/* Standard input as a file: see standard_input.h. */
#include "tools/common/standard_input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/system.h"

static copse_status copy_all(FILE *to)
{
    static char bytes[1 << 16];
    size_t got;
    while ((got = fread(bytes, 1, sizeof bytes, stdin)) > 0)
        if (fwrite(bytes, 1, got, to) != got)
            return session_set_error(COPSE_ERR_IO, "standard input: no room for a copy: %s",
                                     strerror(errno));
    return ferror(stdin) ? session_set_error(COPSE_ERR_IO, "standard input: %s", strerror(errno))
                         : COPSE_OK;
}

copse_status standard_input_take(struct standard_input *in)
{
    if (!system_make_temporary(in->folder, sizeof in->folder)) {
        in->folder[0] = '\0';
        return session_set_error(COPSE_ERR_IO, "standard input: no folder for a copy: %s",
                                 strerror(errno));
    }
    snprintf(in->path, sizeof in->path, "%s/input", in->folder);
    in->file = system_create(in->path, NULL);
    if (in->file && system_remove_name(in->file, in->path, sizeof in->path)) {
        system_remove_folder(in->folder);
        in->folder[0] = '\0';
    }
    session_rename(in->path, "standard input");
    if (!in->file)
        return session_set_error(COPSE_ERR_IO, "standard input: no file for a copy: %s",
                                 strerror(errno));
    COPSE_TRY(copy_all(in->file));
    return fflush(in->file) == 0
               ? COPSE_OK
               : session_set_error(COPSE_ERR_IO, "standard input: no room for a copy: %s",
                                   strerror(errno));
}

void standard_input_end(struct standard_input *in)
{
    if (in->file)
        fclose(in->file);
    in->file = NULL;
    if (in->folder[0])
        system_remove(in->path);
    if (in->folder[0])
        system_remove_folder(in->folder);
    if (in->path[0])
        session_rename(NULL, NULL);
    in->path[0] = in->folder[0] = '\0';
}
