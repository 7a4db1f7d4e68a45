/* SPDX-License-Identifier: MIT */
/* Conformance in helper processes: requests, the process that does one, the process that waits for
   it. */
#ifndef COPSE_ISOLATION_H
#define COPSE_ISOLATION_H

#include "core/base/platform.h"
#include "prover/report/report.h"

/* ---- requests (request.c) ---- */

enum copse_request_kind {
    COPSE_REQUEST_DEVICES, /* event "device" for each device that the selector `device` selects */
    COPSE_REQUEST_LIST,    /* event "plan" for each case */
    /* events "begin" and "case" for each case, between them "uses" for each kernel that it uses */
    COPSE_REQUEST_RUN,
    /* event "compiling" for each kernel of these cases that no cache had */
    COPSE_REQUEST_COMPILE,
    /* `kernel` failed the case of `modes`, `ops`, `case_name` and `tier`: see `reason` */
    COPSE_REQUEST_BLOCK,
};

struct copse_request {
    enum copse_request_kind kind;
    const char *device;
    unsigned modes;
    copse_conformance_tier tier;
    const char *ops, *case_name, *variant, *after; /* NULL = all */
    double seconds;                                /* 0 = none */
    uint64_t seed;                                 /* 0 = none */
    const char *kernel, *reason;                   /* BLOCK: how it ended */
    copse_verdict verdict;                         /* BLOCK */
    const char *own_path;                          /* a user kernel that replaces `kernel` */
    const char *cache_folder, *known;              /* NULL = none */
    /* has_fences: set in a helper process, not sent */
    bool is_verbose, has_fences;
    long parent; /* id of the process that waits */
    /* Seconds for all of it, 0 = none; not sent: the process that waits ends it. */
    double limit;
};

enum { COPSE_REQUEST_ARGUMENTS = 40 };
struct copse_request_text {
    const char *at[COPSE_REQUEST_ARGUMENTS]; /* ends with NULL */
    char numbers[7][32];
    size_t count;
};
/* A request as the arguments of a program. The texts of the request live as long as `out`. */
void copse__request_write(const struct copse_request *q, const char *program,
                          struct copse_request_text *out);
/* Whether the arguments of a process are a request. */
bool copse__request_is(int argc, char **argv);
/* False if they are not complete. */
bool copse__request_read(int argc, char **argv, struct copse_request *out);

/* ---- doing a request (work.c) ---- */

/* Takes ownership of the event (not NULL). False: no further events are wanted. */
typedef bool copse_request_emit(void *user, cJSON *event);

/* Do it in this process. The last event is "end", with the status. */
void copse__request_do(const struct copse_request *q,
                       const struct copse_conformance_helper_params *how, copse_request_emit *emit,
                       void *user);

/* ---- waiting for a request (listener.c) ---- */

enum copse_ended_how {
    COPSE_ENDED_DONE,
    COPSE_ENDED_CRASHED,
    COPSE_ENDED_LATE,
    COPSE_ENDED_CANCELLED
};

struct copse_ended {
    enum copse_ended_how how;
    copse_status status; /* DONE */
    /* it has sent an event: it is a helper program of this version */
    bool is_helper;
    char text[COPSE_ERROR_BYTES]; /* the error */
};

struct copse_isolation {
    const char *helper; /* program */
    /* instead of a helper process, or NULL */
    const struct copse_conformance_helper_params *in_process;
    /* seconds between two events of cases */
    double deadline;
    atomic_bool *is_cancelled;
};
/* Do a request. `emit` gets the events but "end" and "helper". */
void copse__request_wait(const struct copse_isolation *how, const struct copse_request *q,
                         copse_request_emit *emit, void *user, struct copse_ended *out);

/* The helper program for `given`: a path. COPSE_ERR_IO: there is none. */
copse_status copse__helper_find(const char *given, char *path, size_t room);

#endif
