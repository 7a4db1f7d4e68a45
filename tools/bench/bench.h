/* SPDX-License-Identifier: MIT */
/* The parts of `copse bench`: timing, the limits of the machine, the peer, the report. */
#ifndef BENCH_H
#define BENCH_H

#include "copse/device/queue.h"
#include "tools/tool.h"

struct bench_settings {
    const char *devices, *kernels;
    const char *only; /* rows whose text contains it; NULL = all */
    bool is_json, is_quick, no_peer, is_verbose;
};

/* ---- timing (bench_time.c) ---- */

/* Do the work `count` times, then wait until it is done. */
typedef copse_status work_fn(void *user, unsigned count);

struct timing {
    double best, median; /* seconds per repetition of the work */
    unsigned samples;
    double device; /* the best by the clock of the device; 0 = not known */
};

/* Sleep until threads that spin after their work have gone idle. */
void bench_pause(void);
/* Warm up, then take samples of about `sample_seconds` each until `seconds` have gone by, at least
   three samples. */
copse_status bench_time(work_fn *work, void *user, double sample_seconds, double seconds,
                        struct timing *out);
/* The same of work that queues and does not wait; then a few samples by the device's clock. */
copse_status bench_time_queue(work_fn *work, void *user, copse_queue *queue, double sample_seconds,
                              double seconds, struct timing *out);

/* ---- what the processor can do, by plain threads (bench_limits.c) ---- */

/* Rates; 0 = could not be measured. */
struct limits {
    unsigned threads;
    char processor[96];
    const char *vectors; /* the vector instructions of the loops */
    double multiply_add; /* FLOP/s */
    double copy, triad;  /* bytes/s on arrays of `stream_bytes` */
    size_t stream_bytes;
};

/* Processors to run on. */
unsigned limits_threads(void);
void limits_measure(struct limits *out);
/* Measure multiply-add once more and keep the larger value, because other programs can only lower
   it. */
void limits_again(struct limits *l);
/* Copy `bytes` from one array to another; bytes read and written per second. */
double limits_copy(unsigned threads, size_t bytes);
/* Write a gradient and run Adam on that number of elements; bytes/s, UPDATE_BYTES per element. */
double limits_update(unsigned threads, size_t elements);

/* Gradient written (4); read again (4); parameter and two moments read and written (24). */
enum { UPDATE_BYTES = 32 };

/* ---- what others reach (bench_peer.c) ---- */

/* Open OpenBLAS. Call it before any thread is started, because it may set an environment variable.
   False if it is not installed. */
bool peer_open(void);
/* Its version, kernels and threads as text. Lifetime: static. */
const char *peer_name(void);
/* FLOP/s of its product of square matrices, the best of several; 0 without a peer or memory. */
double peer_matmul(uint32_t size, double seconds);

/* ---- the report (bench_report.c) ---- */

/* One row. Rates are per second in base units; times in seconds. */
struct figure {
    const char *device; /* ids, with commas between them */
    const char
        *what; /* "matmul", "copy", "row", "update", "step", "loop", "run", "ahead", "predict" */
    char size[64]; /* "1024", "16 MiB", "64-128-64-10, batch 64" */
    bool is_time;  /* best and median are times, not rates */
    double best, median;
    double device_best; /* by the clock of the device, without the host's part; 0 = not known */
    unsigned samples;
    double limit;           /* same unit as best; 0 = none */
    double peer;            /* same unit; 0 = none */
    double samples_per_s;   /* of steps; 0 = none */
    const char *limited_by; /* of steps, by a trace: "devices", "host", ...; NULL = not known */
};

/* `peer` NULL: not installed or not wanted. */
void report_machine(bool is_json, const struct limits *limits, const char *peer, bool is_wanted);
void report_device(bool is_json, const struct copse_device_info *const *devices, size_t count);
void report_figure(bool is_json, const struct figure *f);
void report_skipped(bool is_json, const char *device, const char *what, const char *why);
void report_done(bool is_json, double seconds);

/* ---- the measurements (bench_device.c, bench_rows.c, bench_step.c) ---- */

struct bench {
    struct bench_settings settings;
    copse_context *ctx;
    struct limits limits;
    bool has_peer;
    bool is_found; /* a row was wanted */
};

/* Time limit of one measurement in seconds. */
double bench_budget(const struct bench *b);
/* Whether --only wants a row: `what`, a space and `size` contain its text. */
bool bench_wants(struct bench *b, const struct figure *f);
/* Whether the processor's limits are the device's limits. */
bool bench_is_cpu(const struct copse_device_info *info);
/* Products and copies on one device; `copy_rate` receives the last copy in bytes/s, 0 = none. */
copse_status bench_device(struct bench *b, const struct copse_device_info *info, double *copy_rate);
/* Functions of rows and of elements. */
copse_status bench_rows(struct bench *b, const struct copse_device_info *info);
/* The update of a large variable. On a device that is not the processor the limit is
   `copy_rate`. */
copse_status bench_update(struct bench *b, const struct copse_device_info *info, double copy_rate);
/* Training steps of two perceptrons, one replica on each device, and a loop of calls; on a single
   device also runs of 16 steps. */
copse_status bench_steps(struct bench *b, const struct copse_device_info *const *infos,
                         size_t count);
/* Predictions of single rows of cells in memory (bench_predict.c). */
copse_status bench_predict(struct bench *b, const struct copse_device_info *info);

#endif
