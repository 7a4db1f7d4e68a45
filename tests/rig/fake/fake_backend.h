/* SPDX-License-Identifier: MIT */
/* A backend for tests: the host backend behind a layer that fails, delays, limits, counts and
   perturbs on demand. Devices are "fake:0" ...; set copse_fake before the context is created, and
   change it only while no other thread uses its devices. */
#ifndef COPSE_FAKE_BACKEND_H
#define COPSE_FAKE_BACKEND_H

#include "core/device/device.h"

#define FAKE_DEVICES 8
#define FAKE_LENT    (FAKE_DEVICES - 1) /* the settings of every lent device */
#define FAKE_NEVER   UINT32_MAX         /* delay_polls: the ticket is never reached */

enum fake_fn {
    FAKE_LIST, /* counted and failed through devices[0] */
    FAKE_OPEN,
    FAKE_CLOSE,
    FAKE_MEMORY,
    FAKE_BUFFER_INIT,
    FAKE_BUFFER_FINI,
    FAKE_KERNEL_INIT,
    FAKE_KERNEL_FINI,
    FAKE_QUEUE_INIT,
    FAKE_QUEUE_FINI,
    FAKE_WRITE,
    FAKE_READ,
    FAKE_ENCODE,
    FAKE_SEGMENT_INIT,
    FAKE_SEGMENT_FINI,
    FAKE_REPLAY,
    FAKE_SUBMIT,
    FAKE_WAIT,
    FAKE_STAMP, /* of a device that has a clock */
    FAKE_FN_COUNT,
};

struct fake_device {
    /* Faults: call number `at` (1 = the first after fake_reset) returns `status`; so do all later
       calls if persistent. 0 = no fault. */
    struct {
        uint32_t at;
        copse_status status;
        bool is_persistent;
    } faults[FAKE_FN_COUNT];
    atomic_uint calls[FAKE_FN_COUNT];

    uint32_t delay_polls; /* a ticket is reached after this number of polls */
    uint64_t delay_ns;    /* and not earlier than this after its submit */
    bool never_settles;   /* it is not known when work ends after a call that failed */
    void (*polled)(void); /* called at each poll of a ticket that is not reached; may be NULL */

    const char *perturb;     /* every non-zero float this kernel writes is changed ... */
    uint32_t perturb_bits;   /* ... by these bits [0 = the last] */
    uint32_t perturb_period; /* ... in every n-th run of it [0 = in every run] */
    atomic_uint perturb_runs;
    /* this kernel also writes a word at this byte offset after the first element ... */
    const char *stray;
    ptrdiff_t stray_at;  /* ... of its last result */
    const char *dropped; /* this kernel is not run */
    bool drops_folded;   /* a dispatch that core folded into several rows is not run */
    const char *cut;     /* results of this kernel from this word on stay as they were ... */
    uint32_t cut_from;
    uint32_t cut_period; /* ... in every n-th run of it [0 = in every run] ... */
    bool cuts_replays;   /* ... that is a replay of a segment */
    atomic_uint cut_runs;
    /* reads of up to this size complete one ticket late, after their own ticket is reported as
       reached */
    size_t late_bytes;

    /* Called with the application's lock held, at each submit of a lent device. */
    bool forgets_lock, takes_lock_twice, gives_lock_twice;

    bool has_priorities; /* a device has the priority that it should have */
    bool has_clock;      /* of its own: a launch takes launch_ns, nothing else takes time */
    uint64_t launch_ns;

    uint64_t memory_budget; /* bytes of buffers that it reports as free and used [0 = unknown] */

    void (*describe)(struct copse_device_info *info); /* changes limits, kind, uuid; may be NULL */
};

struct copse_fake {
    uint32_t device_count;
    struct fake_device devices[FAKE_DEVICES];
    atomic_uint early_fini; /* buffers and segments that core freed while a ticket needed them */
};
extern struct copse_fake copse_fake;

/* Reset to one device without faults. */
void fake_reset(void);
/* The n-th call from now on fails. */
void fake_fail(uint32_t device, enum fake_fn fn, uint32_t n, copse_status status,
               bool is_persistent);
uint32_t fake_calls(uint32_t device, enum fake_fn fn);

extern const struct copse_backend copse_backend_fake;
/* For copse__context_create_with: fake and host. */
extern const struct copse_backend *const fake_backends[];

#endif
