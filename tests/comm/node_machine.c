/* SPDX-License-Identifier: MIT */
/* What tests of several processes need to know of the machine: free ports, and how late it is with
   everything. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, flock */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/comm/node.h"

/* ---- ports ---- */

enum { MAX_RESERVED = 4096 };

/* A port that a test has been given: its own as long as the process lives that asked for it. A job
   listens at some of its ports later than others, so being free now is not enough. */
struct reserved {
    int port;
    pid_t owner;
};

/* Ports outside of those that the system gives to whoever connects, or another process might have
   one before the job listens there. */
static void find_range(uint32_t *first, uint32_t *count)
{
    unsigned low = 32768, high = 60999;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    if (f && fscanf(f, "%u %u", &low, &high) != 2)
        low = 32768;
    if (f)
        fclose(f);
    *first = 20000;
    *count = 12000;
    if (low < 32000 && low > 12000) {
        *first = 10000;
        *count = low - 10000;
    } else if (low < 32000 && high < 63000) {
        *first = high + 1;
        *count = 65535 - high;
    }
}

/* The list of all tests of this user, locked until it is closed; -1: none can be kept. */
static int open_list(struct reserved *list, int *count)
{
    char path[64];
    struct stat info;
    *count = 0;
    snprintf(path, sizeof path, "/tmp/copse-test-ports-%ld", (long)geteuid());
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_uid != geteuid() || flock(fd, LOCK_EX) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const ssize_t n = pread(fd, list, MAX_RESERVED * sizeof *list, 0);
    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof *list; i++)
        if (kill(list[i].owner, 0) == 0 || errno == EPERM) /* it lives */
            list[(*count)++] = list[i];
    return fd;
}

static bool is_reserved(const struct reserved *list, int count, int port)
{
    while (count > 0)
        if (list[--count].port == port)
            return true;
    return false;
}

int node_ports(int wanted, int owner)
{
    static struct reserved list[MAX_RESERVED];
    uint32_t first, range;
    int count, found = 0;
    const int fd = open_list(list, &count);
    find_range(&first, &range);
    uint32_t at = (uint32_t)((copse__now_ns() / 1000 * 2654435761u) >> 16) % range;
    for (uint32_t tries = 0; found < wanted && tries < range; tries++, at = (at + 1) % range) {
        const int port = (int)(first + at);
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                             .sin_port = htons((uint16_t)port) };
        if (is_reserved(list, count, port) || count == MAX_RESERVED)
            continue;
        const int probe = socket(AF_INET, SOCK_STREAM, 0);
        if (probe >= 0 && bind(probe, (const struct sockaddr *)&address, sizeof address) == 0) {
            printf("%d\n", port);
            list[count++] = (struct reserved){ port, owner > 0 ? (pid_t)owner : getppid() };
            found++;
        }
        if (probe >= 0)
            close(probe);
    }
    if (fd >= 0) {
        const size_t size = (size_t)count * sizeof *list;
        if (pwrite(fd, list, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size) != 0)
            fprintf(stderr, "node: the list of ports cannot be written\n");
        close(fd);
    }
    return found == wanted ? 0 : 1;
}

/* ---- how late the machine is ---- */

enum { SLEEP_MS = 50, USUAL_MS = 10 };

/* Sleep, and write to a disk where there is a file; by how many ms that took longer than it should
   have. */
static int64_t late_once(int fd)
{
    const uint64_t begin = copse__now_ns();
    copse__sleep_ns((uint64_t)SLEEP_MS * 1000000u);
    if (fd >= 0)
        fsync(fd);
    const int64_t late = (int64_t)((copse__now_ns() - begin) / 1000000u) - SLEEP_MS;
    return late > USUAL_MS ? late : 0;
}

/* Sleeps and writes to a disk in turn, until it is ended or its parent is gone; a line for each
   time that took longer than it should have: when that was, in ms since 1970, and by how many
   ms. */
int node_pulse(const char *path)
{
    const pid_t parent = getppid();
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    while (fd >= 0 && getppid() == parent) {
        char line[64];
        struct timespec t;
        const int64_t late = late_once(fd);
        clock_gettime(CLOCK_REALTIME, &t);
        const int n = snprintf(line, sizeof line, "%lld %lld\n",
                               (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000, (long long)late);
        if (write(fd, line, (size_t)n) != n)
            break;
    }
    return 1;
}

static _Atomic uint64_t *late_ms; /* shared with the process that measures */

void node_watch_machine(void)
{
    const pid_t parent = getpid();
    void *shared =
        mmap(NULL, sizeof *late_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    late_ms = shared == MAP_FAILED ? NULL : shared;
    if (!late_ms || fork() != 0)
        return;
    /* who waits for their ends does not wait for this */
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    while (getppid() == parent)
        atomic_fetch_add(late_ms, (uint64_t)late_once(-1));
    _exit(0);
}

static uint64_t late_ns(void)
{
    return late_ms ? 1000000u * atomic_load(late_ms) : 0;
}

uint64_t node_begin(void)
{
    return copse__now_ns() - late_ns();
}

double node_seconds(uint64_t begin)
{
    const uint64_t end = copse__now_ns();
    if (end - begin > 1000000000u) /* the other process may not have counted all yet */
        copse__sleep_ns(8u * SLEEP_MS * 1000000u);
    return (double)(int64_t)(end - late_ns() - begin) / 1e9;
}
