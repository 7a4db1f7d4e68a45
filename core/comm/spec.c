/* SPDX-License-Identifier: MIT */
/* The description of a job: parsed from JSON or a launcher's variables, checked, asked. No
   network. */
#include "core/comm/spec.h"

#include "core/comm/slurm.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX    (1u << 20) /* bytes of a description */
#define ADDRESS_MAX 128

static const char *const names[COPSE_ROLES] = { "chief", "worker", "ps", "evaluator" };

const char *copse_role_name(copse_role role)
{
    return (uint32_t)role < COPSE_ROLES ? names[role] : "unknown role";
}

static bool find_role(const char *name, copse_role *role)
{
    for (uint32_t r = 0; r < COPSE_ROLES; r++)
        if (strcmp(names[r], name) == 0) {
            *role = (copse_role)r;
            return true;
        }
    return false;
}

/* ---- reading ---- */

/* "host:port", and "[v6]:port" for hosts that have colons themselves. */
static copse_status check_address(const char *name, const char *text)
{
    const char *colon = strrchr(text, ':');
    const size_t host = colon ? (size_t)(colon - text) : 0;
    const bool is_bracketed = host > 2 && text[0] == '[' && text[host - 1] == ']';
    char *end = NULL;
    const long port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;

    if (strlen(text) >= ADDRESS_MAX || host == 0 || port < 1 || port > 65535 || !end || *end ||
        strpbrk(text, " \t\r\n") || (!is_bracketed && (text[0] == '[' || memchr(text, ':', host))))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: %s address '%.64s': it must be host:port, or [host]:port for "
                          "IPv6, with a port from 1 to 65535",
                          name, text);
    return COPSE_OK;
}

static copse_status add_task(copse_cluster_spec *spec, copse_role role, const char *address)
{
    struct copse_mem *mem = &spec->ctx->base.mem;
    for (uint32_t r = 0; address && r < COPSE_ROLES; r++)
        for (size_t i = 0; i < spec->tasks[r].count; i++)
            if (strcmp(spec->tasks[r].at[i], address) == 0)
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "cluster: %s %zu and %s %zu have the same address %s", names[r],
                                  i, names[role], spec->tasks[role].count, address);
    if (!COPSE_PUSH(mem, &spec->tasks[role], NULL))
        return copse_no_memory("cluster: description");
    char **at = &spec->tasks[role].at[spec->tasks[role].count - 1];
    if (address)
        *at = copse__strdup(mem, address);
    return !address || *at ? COPSE_OK : copse_no_memory("cluster: description");
}

static copse_status read_tasks(copse_cluster_spec *spec, const cJSON *list)
{
    copse_role role;
    const cJSON *entry;
    if (!find_role(list->string, &role))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: unknown role '%.64s': chief, worker, ps and evaluator exist",
                          list->string);
    if (!cJSON_IsArray(list))
        return copse_fail(COPSE_ERR_FORMAT, "cluster: '%s' must be a list of addresses",
                          list->string);
    if (spec->tasks[role].count > 0)
        return copse_fail(COPSE_ERR_FORMAT, "cluster: '%s' is listed twice", list->string);
    cJSON_ArrayForEach(entry, list)
    {
        if (!cJSON_IsString(entry))
            return copse_fail(COPSE_ERR_FORMAT, "cluster: '%s' must be a list of addresses",
                              list->string);
        COPSE_TRY(check_address(list->string, entry->valuestring));
        COPSE_TRY(add_task(spec, role, entry->valuestring));
    }
    return COPSE_OK;
}

static copse_status read_cluster(copse_cluster_spec *spec, const cJSON *cluster)
{
    const cJSON *list;
    if (!cluster)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: the description has no 'cluster'");
    if (!cJSON_IsObject(cluster))
        return copse_fail(COPSE_ERR_FORMAT,
                          "cluster: 'cluster' must be an object of roles and addresses");
    cJSON_ArrayForEach(list, cluster) COPSE_TRY(read_tasks(spec, list));

    const size_t chiefs = spec->tasks[COPSE_ROLE_CHIEF].count;
    const size_t trainers = chiefs + spec->tasks[COPSE_ROLE_WORKER].count;
    if (chiefs > 1)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: %zu chiefs: there can be one", chiefs);
    if (spec->tasks[COPSE_ROLE_EVALUATOR].count > 1)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: %zu evaluators: there can be one",
                          spec->tasks[COPSE_ROLE_EVALUATOR].count);
    if (trainers == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: neither a chief nor a worker is named");
    const size_t members = trainers + spec->tasks[COPSE_ROLE_PS].count;
    if (members > COPSE_MAX_WORKERS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: %zu chiefs, workers and parameter servers: at "
                          "most %d",
                          members, COPSE_MAX_WORKERS);
    return COPSE_OK;
}

static copse_status read_task(copse_cluster_spec *spec, const cJSON *task)
{
    if (!task)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: the description has no 'task'");
    if (!cJSON_IsObject(task))
        return copse_fail(COPSE_ERR_FORMAT, "cluster: 'task' must be an object");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(task, "type");
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(task, "index");
    if (!type)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: 'task' has no 'type'");
    if (!cJSON_IsString(type))
        return copse_fail(COPSE_ERR_FORMAT, "cluster: 'task.type' must be the name of a role");
    if (!find_role(type->valuestring, &spec->role))
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: unknown role '%.64s' in 'task.type'",
                          type->valuestring);
    const size_t count = spec->tasks[spec->role].count;
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: this task has the role '%s', and the cluster has none",
                          names[spec->role]);
    const double i = index ? cJSON_GetNumberValue(index) : 0.0;
    const bool is_in_range = i >= 0 && i < (double)count;
    if (index && (!cJSON_IsNumber(index) || (is_in_range && i != (double)(uint32_t)i)))
        return copse_fail(COPSE_ERR_FORMAT, "cluster: 'task.index' must be a whole number");
    if (!is_in_range)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: 'task.index' is %g: the cluster has %s 0 to %zu", i,
                          names[spec->role], count - 1);
    spec->index = (uint32_t)i;
    return COPSE_OK;
}

static copse_status spec_create(copse_context *ctx, copse_cluster_spec **out)
{
    copse_cluster_spec *spec = copse__alloc(&ctx->base.mem, 1, sizeof *spec);
    if (!spec)
        return copse_no_memory("cluster: description");
    atomic_init(&spec->refs, 1);
    spec->ctx = copse_context_retain(ctx);
    *out = spec;
    return COPSE_OK;
}

copse_status copse_cluster_spec_parse(copse_context *ctx, const char *json,
                                      copse_cluster_spec **out)
{
    if (!ctx || !json || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: context, description or result is NULL");
    *out = NULL;
    if (strlen(json) > TEXT_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "cluster: a description of more than %u bytes",
                          TEXT_MAX);
    const char *end = NULL;
    cJSON *top = cJSON_ParseWithOpts(json, &end, true);
    if (!cJSON_IsObject(top)) {
        const long at = end ? (long)(end - json) : 0;
        const bool is_json = top != NULL;
        cJSON_Delete(top);
        return is_json ? copse_fail(COPSE_ERR_FORMAT, "cluster: the description must be an object")
                       : copse_fail(COPSE_ERR_FORMAT,
                                    "cluster: the description is not JSON at byte %ld", at);
    }
    copse_cluster_spec *spec = NULL;
    copse_status s = spec_create(ctx, &spec);
    if (!s)
        s = read_cluster(spec, cJSON_GetObjectItemCaseSensitive(top, "cluster"));
    if (!s)
        s = read_task(spec, cJSON_GetObjectItemCaseSensitive(top, "task"));
    cJSON_Delete(top);
    if (s)
        copse_cluster_spec_release(&spec);
    *out = spec;
    return s;
}

/* ---- from the environment ---- */

/* Rank and size as launchers set them: Open MPI's, then the process manager's of MPICH and kin. */
static bool find_launcher(uint32_t *rank, uint32_t *size)
{
    return (copse__launcher_number("OMPI_COMM_WORLD_RANK", rank) &&
            copse__launcher_number("OMPI_COMM_WORLD_SIZE", size)) ||
           (copse__launcher_number("PMI_RANK", rank) && copse__launcher_number("PMI_SIZE", size));
}

static copse_status check_ranks(uint32_t rank, uint32_t size)
{
    if (size == 0 || size > COPSE_MAX_WORKERS || rank >= size)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "cluster: the launcher started rank %u of %u: 1 to %d workers are possible", rank, size,
            COPSE_MAX_WORKERS);
    return COPSE_OK;
}

/* `slurm`: gives addresses; NULL: the launcher's engine needs none. */
static copse_status from_launcher(copse_context *ctx, uint32_t rank, uint32_t size,
                                  const struct copse_slurm *slurm, copse_cluster_spec **out)
{
    copse_cluster_spec *spec;
    COPSE_TRY(check_ranks(rank, size));
    COPSE_TRY(spec_create(ctx, &spec));
    spec->is_launched = !slurm;
    spec->is_ranked = true;
    spec->role = COPSE_ROLE_WORKER;
    spec->index = rank;
    copse_status s = slurm ? copse__slurm_check(slurm) : COPSE_OK;
    for (uint32_t i = 0; i < size && !s; i++) {
        char address[ADDRESS_MAX];
        if (slurm)
            s = copse__slurm_address(slurm, i, address, sizeof address);
        if (!s)
            s = add_task(spec, COPSE_ROLE_WORKER, slurm ? address : NULL);
    }
    if (s)
        copse_cluster_spec_release(&spec);
    *out = spec;
    return s;
}

copse_status copse_cluster_spec_find(copse_context *ctx, copse_cluster_spec **out)
{
    static const char *const variables[] = { "COPSE_CONFIG", "TF_CONFIG" };
    struct copse_slurm slurm;
    uint32_t rank, size;
    if (!ctx || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: context or result is NULL");
    *out = NULL;
    for (size_t i = 0; i < COPSE_COUNT(variables); i++) {
        const char *text = copse__env(variables[i]);
        if (text)
            return copse_note(copse_cluster_spec_parse(ctx, text, out), "in %s", variables[i]);
    }
    if (find_launcher(&rank, &size))
        return from_launcher(ctx, rank, size, NULL, out);
    return copse__slurm_find(&slurm) ? from_launcher(ctx, slurm.rank, slurm.size, &slurm, out)
                                     : COPSE_OK;
}

copse_status copse_cluster_spec_set_servers(copse_cluster_spec *spec, uint32_t count)
{
    if (!spec)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: the description is NULL");
    const size_t workers = spec->tasks[COPSE_ROLE_WORKER].count;
    if (!spec->is_ranked || spec->tasks[COPSE_ROLE_PS].count > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: the description names its tasks: list parameter "
                          "servers as \"ps\"");
    if (count >= workers)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: %u of %zu ranks are to be parameter servers: a "
                          "worker must be left",
                          count, workers);
    struct copse_mem *mem = &spec->ctx->base.mem;
    if (!COPSE_RESERVE(mem, &spec->tasks[COPSE_ROLE_PS], count))
        return copse_no_memory("cluster: description");
    for (size_t i = workers - count; i < workers; i++)
        COPSE_PUSH(mem, &spec->tasks[COPSE_ROLE_PS], spec->tasks[COPSE_ROLE_WORKER].at[i]);
    spec->tasks[COPSE_ROLE_WORKER].count = workers - count;
    if (spec->index >= workers - count) {
        spec->role = COPSE_ROLE_PS;
        spec->index -= (uint32_t)workers - count;
    }
    return COPSE_OK;
}

copse_cluster_spec *copse__cluster_spec_retain(copse_cluster_spec *spec)
{
    copse__ref(&spec->refs);
    return spec;
}

void copse_cluster_spec_release(copse_cluster_spec **at)
{
    copse_cluster_spec *spec = at ? *at : NULL;
    if (at)
        *at = NULL;
    if (!spec || !copse__unref(&spec->refs))
        return;
    copse_context *ctx = spec->ctx;
    for (uint32_t r = 0; r < COPSE_ROLES; r++) {
        for (size_t i = 0; i < spec->tasks[r].count; i++)
            copse__free(&ctx->base.mem, spec->tasks[r].at[i]);
        copse__free(&ctx->base.mem, spec->tasks[r].at);
    }
    copse__free(&ctx->base.mem, spec);
    copse_context_release(&ctx);
}

/* ---- questions ---- */

copse_role copse_cluster_spec_role(const copse_cluster_spec *spec)
{
    return spec ? spec->role : COPSE_ROLE_CHIEF;
}

uint32_t copse_cluster_spec_index(const copse_cluster_spec *spec)
{
    return spec ? spec->index : 0;
}

bool copse_cluster_spec_is_launched(const copse_cluster_spec *spec)
{
    return spec && spec->is_launched;
}

uint32_t copse_cluster_spec_tasks(const copse_cluster_spec *spec, copse_role role)
{
    return spec && (uint32_t)role < COPSE_ROLES ? (uint32_t)spec->tasks[role].count : 0;
}

const char *copse_cluster_spec_address(const copse_cluster_spec *spec, copse_role role,
                                       uint32_t index)
{
    return index < copse_cluster_spec_tasks(spec, role) ? spec->tasks[role].at[index] : NULL;
}

bool copse_cluster_spec_is_chief(const copse_cluster_spec *spec)
{
    return spec && (spec->role == COPSE_ROLE_CHIEF || spec->role == COPSE_ROLE_EVALUATOR ||
                    (spec->role == COPSE_ROLE_WORKER && spec->index == 0 &&
                     spec->tasks[COPSE_ROLE_CHIEF].count == 0));
}

static copse_status check_trains(const copse_cluster_spec *spec)
{
    return spec->role == COPSE_ROLE_PS
               ? copse_fail(COPSE_ERR_ARGUMENT, "cluster: a parameter server is not one of the "
                                                "workers and has no rank among them")
               : COPSE_OK;
}

copse_status copse_cluster_spec_workers(const copse_cluster_spec *spec, uint32_t *count)
{
    COPSE_TRY(copse_need("cluster", spec, count));
    COPSE_TRY(check_trains(spec));
    *count = spec->role == COPSE_ROLE_EVALUATOR ? (uint32_t)spec->tasks[COPSE_ROLE_EVALUATOR].count
                                                : (uint32_t)(spec->tasks[COPSE_ROLE_CHIEF].count +
                                                             spec->tasks[COPSE_ROLE_WORKER].count);
    return COPSE_OK;
}

copse_status copse_cluster_spec_rank(const copse_cluster_spec *spec, uint32_t *rank)
{
    COPSE_TRY(copse_need("cluster", spec, rank));
    COPSE_TRY(check_trains(spec));
    *rank = spec->index;
    if (spec->role == COPSE_ROLE_WORKER)
        *rank += (uint32_t)spec->tasks[COPSE_ROLE_CHIEF].count;
    return COPSE_OK;
}

uint32_t copse__cluster_spec_trainers(const copse_cluster_spec *spec)
{
    return (uint32_t)(spec->tasks[COPSE_ROLE_CHIEF].count + spec->tasks[COPSE_ROLE_WORKER].count);
}

uint32_t copse__cluster_spec_members(const copse_cluster_spec *spec, uint32_t *rank)
{
    const uint32_t trainers = copse__cluster_spec_trainers(spec);
    *rank = spec->index;
    if (spec->role == COPSE_ROLE_EVALUATOR)
        return 1;
    if (spec->role == COPSE_ROLE_WORKER)
        *rank += (uint32_t)spec->tasks[COPSE_ROLE_CHIEF].count;
    if (spec->role == COPSE_ROLE_PS)
        *rank += trainers;
    return trainers + (uint32_t)spec->tasks[COPSE_ROLE_PS].count;
}

void copse__cluster_spec_worker(const copse_cluster_spec *spec, uint32_t rank, copse_role *role,
                                uint32_t *index)
{
    const uint32_t chiefs = (uint32_t)spec->tasks[COPSE_ROLE_CHIEF].count;
    const uint32_t trainers = copse__cluster_spec_trainers(spec);
    *role = rank < chiefs ? COPSE_ROLE_CHIEF : rank < trainers ? COPSE_ROLE_WORKER : COPSE_ROLE_PS;
    *index = rank < chiefs ? rank : rank < trainers ? rank - chiefs : rank - trainers;
}

const char *copse__worker_text(const copse_cluster_spec *spec, uint32_t rank,
                               char text[COPSE_WORKER_TEXT])
{
    copse_role role;
    uint32_t index;
    copse__cluster_spec_worker(spec, rank, &role, &index);
    const char *address = copse_cluster_spec_address(spec, role, index);
    snprintf(text, COPSE_WORKER_TEXT, address ? "%s %u (%s)" : "%s %u", names[role], index,
             address);
    return text;
}

uint64_t copse__cluster_spec_hash(const copse_cluster_spec *spec)
{
    uint64_t h = COPSE_HASH_START;
    for (uint32_t r = 0; r < COPSE_ROLES; r++)
        for (size_t i = 0; i < spec->tasks[r].count; i++) {
            const char *address = spec->tasks[r].at[i] ? spec->tasks[r].at[i] : "";
            h = copse__hash(h, names[r], strlen(names[r]) + 1);
            h = copse__hash(h, address, strlen(address) + 1);
        }
    return h;
}
