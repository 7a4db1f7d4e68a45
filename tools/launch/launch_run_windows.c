/* SPDX-License-Identifier: MIT */
/* There is no engine for jobs of several workers on Windows. */
#include "tools/launch/launch_job.h"

bool launch_ports(uint32_t count, uint16_t *ports)
{
    for (uint32_t i = 0; i < count; i++)
        ports[i] = 0;
    return true;
}

int launch_run(const struct launch *l, const char *more, uint32_t attempt, struct launch_end *ends)
{
    (void)l, (void)more, (void)attempt, (void)ends;
    fprintf(stderr, "copse launch: Windows has no engine for several workers (MPI, Gloo); use the "
                    "devices of this machine with `copse train --devices all`\n");
    return -1;
}
