/* SPDX-License-Identifier: MIT */
/* Files that the command writes: under a temporary name until they are whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/tool.h"

static copse_status fail(const char *path, int reason)
{
    return session_set_error(COPSE_ERR_IO, "cannot write '%s': %s", path, strerror(reason));
}

copse_status output_open(struct output *o, const char *option, const char *path)
{
    o->stream = NULL;
    if (snprintf(o->temp, sizeof o->temp, "%s.%ld.tmp", path, (long)getpid()) >=
        (int)sizeof o->temp)
        return session_set_error(COPSE_ERR_IO, "--%s: the path is too long", option);
    const int fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    o->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (o->stream)
        return COPSE_OK;
    const int reason = errno;
    if (fd >= 0) {
        close(fd);
        unlink(o->temp);
    }
    return fail(path, reason);
}

copse_status output_end(struct output *o, const char *path, copse_status status)
{
    if (status != COPSE_OK) {
        fclose(o->stream);
        unlink(o->temp);
        return status;
    }
    bool is_good = fflush(o->stream) == 0 && !ferror(o->stream);
    is_good = fclose(o->stream) == 0 && is_good;
    o->stream = NULL;
    if (is_good && rename(o->temp, path) == 0)
        return COPSE_OK;
    const int reason = errno;
    unlink(o->temp);
    return fail(path, reason);
}

copse_status output_check(const char *option, const char *path)
{
    struct output o;
    if (!path)
        return COPSE_OK;
    COPSE_TRY(output_open(&o, option, path));
    fclose(o.stream);
    unlink(o.temp);
    return COPSE_OK;
}
