/* SPDX-License-Identifier: MIT */
/* Helper processes are not implemented on Windows. */
#include "prover/isolation/process.h"

const char copse_path_separator = ';';
const char *const copse_command_name = "copse.exe";

copse_status copse__process_start(const char *program, const char *const *arguments,
                                  struct copse_process *out)
{
    (void)arguments;
    *out = (struct copse_process){ 0, -1 };
    return copse_fail(
        COPSE_ERR_UNSUPPORTED,
        "helper process: '%s' cannot be started: not implemented on Windows; use in_process",
        program);
}

int copse__process_read(const struct copse_process *p, void *bytes, size_t room,
                        uint64_t deadline_ns)
{
    (void)p, (void)bytes, (void)room, (void)deadline_ns;
    return 0;
}

void copse__process_kill(const struct copse_process *p)
{
    (void)p;
}

bool copse__process_reap(const struct copse_process *p, uint64_t wait_ns,
                         struct copse_process_end *out)
{
    (void)p, (void)wait_ns;
    *out = (struct copse_process_end){ 0 };
    return true;
}

void copse__process_close(struct copse_process *p)
{
    (void)p;
}

bool copse__program_exists(const char *path)
{
    (void)path;
    return true; /* copse__process_start says what is missing */
}

bool copse__process_is_child(void)
{
    return false;
}

bool copse__child_begin(long parent)
{
    (void)parent;
    return false;
}

bool copse__child_write(const char *bytes, size_t size)
{
    (void)bytes, (void)size;
    return false;
}
