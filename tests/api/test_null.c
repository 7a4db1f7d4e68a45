/* SPDX-License-Identifier: MIT */
/* The rule for NULL (copse/status.h): every function with a status answers COPSE_ERR_ARGUMENT for
   NULL instead of a pointer that it requires, and the text says NULL. tests/tree/null_rows.cmake
   finds functions without a row. */
#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/data/checkpoint.h"
#include "copse/data/folds.h"
#include "copse/data/gguf.h"
#include "copse/data/pictures.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "copse/device/choice.h"
#include "copse/device/compile.h"
#include "copse/device/conformance_job.h"
#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/device/trace.h"
#include "copse/device/tuning.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/call.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/evaluator.h"
#include "copse/distribute/input.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/distribute/shards.h"
#include "copse/distribute/sync.h"
#include "copse/loop/early_stopping.h"
#include "copse/loop/event_file.h"
#include "copse/loop/feed.h"
#include "copse/loop/find_lr.h"
#include "copse/loop/monitor.h"
#include "copse/nn/layers.h"
#include "copse/nn/onnx.h"
#include "copse/predict.h"
#include "copse/train/adapt.h"
#include "copse/train/advance.h"
#include "copse/train/audit.h"
#include "copse/train/defaults.h"
#include "copse/train/evaluate.h"
#include "copse/train/fine_tune.h"
#include "copse/train/generate.h"
#include "copse/train/hash.h"
#include "copse/train/hidden.h"
#include "copse/train/language.h"
#include "copse/train/memory.h"
#include "copse/train/model_file.h"
#include "copse/train/predict_cells.h"
#include "copse/train/slots.h"
#include "copse/train/update.h"
#include "copse/train/weights.h"
#if defined(COPSE_HAVE_OPENCL)
#    include "copse/device/opencl.h"
#endif
#if defined(COPSE_HAVE_VULKAN)
#    include "copse/device/vulkan.h"
#endif
#include "tests/rig/data/batch_rig.h"
#include "tests/rig/null_rig.h"

/* ---- what calls need: on host:0 ---- */

static const char *const ids[] = { "host:0" };
static copse_context *ctx;
static copse_device *dev;
static copse_queue *queue;
static copse_buffer *buf;
static void visit_cell(void *user, const struct copse_coverage_cell *cell)
{
    (void)user, (void)cell;
}

static copse_function *fn;
static copse_graph *g;
static copse_tensor *x, *out;
static copse_strategy *st;
static copse_variable *v, *metric;
static copse_trainer *trainer;
static copse_early_stopping *stopping;
static struct copse_lr_range lr_range;
static copse_replica_context *rc;
static copse_cross_device *cross;
static copse_value *value, *slices, *result;
static copse_tower_optimizer *tower;
static copse_partitioned *parts;
static copse_train_step *train_step;
static copse_dataset *data;
static copse_loader *batches;
static copse_input_plan *plan;
static copse_distributed *walk;
static copse_cluster_spec *spec;
static copse_cluster *cluster;
static copse_step *step, *input_step;
static copse_monitor *monitor;
static copse_outputs *outputs;

static copse_status do_nothing(void *user)
{
    (void)user;
    return COPSE_OK;
}

static copse_status iterate_nothing(void *user, const struct copse_host_batch *in,
                                    copse_outputs *context)
{
    (void)user, (void)in, (void)context;
    return COPSE_OK;
}

static copse_status give_data(void *user, copse_strategy *on, copse_dataset **to)
{
    (void)user, (void)on;
    *to = copse_dataset_retain(data);
    return COPSE_OK;
}

static copse_tensor *squares(copse_graph *graph, const copse_batch *in, void *user)
{
    return copse_mean_squared_error(graph, rig_x(in), user);
}

static copse_tensor *predict_nothing(copse_graph *graph, const copse_batch *in, void *user)
{
    copse_tensor *y = NULL;
    (void)graph, (void)in, (void)user, (void)y;
    return y;
}

static copse_status take_nothing(void *user, uint32_t token, const char *text, size_t size)
{
    (void)user, (void)token, (void)text, (void)size;
    return COPSE_OK;
}

static void lose_nothing(copse_graph *graph, const copse_batch *in, void *user,
                         struct copse_losses *losses)
{
    (void)graph, (void)in, (void)user, (void)losses;
}

static copse_status run_nothing(copse_replica_context *r, copse_value *const *args, size_t count,
                                void *user, copse_value **to)
{
    (void)r, (void)args, (void)count, (void)user, (void)to;
    return COPSE_OK;
}

static copse_status merge_nothing(copse_strategy *on, copse_value *const *args, size_t count,
                                  void *user, copse_value **to)
{
    (void)on, (void)args, (void)count, (void)user, (void)to;
    return COPSE_OK;
}

static copse_status update_nothing(copse_strategy *on, copse_value *target,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **to)
{
    (void)on, (void)target, (void)args, (void)count, (void)user, (void)to;
    return COPSE_OK;
}

static copse_status model_nothing(copse_replica_context *r, const struct copse_model_call *call,
                                  struct copse_model_spec *model)
{
    (void)r, (void)call, (void)model;
    return COPSE_OK;
}

static copse_status give_pipeline(void *user, const struct copse_input_context *in,
                                  struct copse_pipeline_source *to)
{
    (void)user, (void)in;
    to->data = copse_dataset_retain(data);
    return COPSE_OK;
}

static const struct copse_array_view table = {
    .type = COPSE_F32, .rank = 2, .shape = { 4, 2 }, .data = (const float[8]){ 0 }
};

static void make_values(void)
{
    const struct copse_sparse_params sparse = { .dense_shape = COPSE_SHAPE(2),
                                                .count = 1,
                                                .indices = (const int32_t[]){ 1 },
                                                .values = (const float[]){ 2 } };
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), (const float[]){ 1, 2 }, &value));
    OK(copse_value_sparse(ctx, &sparse, &slices));
    OK(copse_cross_device_create(ctx, NULL, &cross));
}

static void make_devices(void)
{
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    OK(copse_context_create(&params, &ctx));
    OK(copse_device_open(ctx, ids[0], NULL, &dev));
    OK(copse_queue_create(dev, &queue));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf));
    OK(copse_graph_create(ctx, &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 2));
    out = copse_relu(g, x);
    OK(copse_function_create(
        dev, &(struct copse_function_params){ .graph = g, .outputs = &out, .output_count = 1 },
        &fn));
}

static void make_training(void)
{
    const struct copse_variable_params params = { .name = "v", .shape = COPSE_SHAPE(2) };
    const struct copse_variable_params local = { .name = "m",
                                                 .shape = COPSE_SHAPE(2),
                                                 .synchronization = COPSE_SYNC_ON_READ };
    OK(copse_mirrored_create(ctx, ids, 1, NULL, &st));
    OK(copse_variable_create(st, &params, &v));
    OK(copse_variable_create(st, &local, &metric));
    OK(copse_partitioned_create(
        st, &(struct copse_variable_params){ .name = "p", .shape = COPSE_SHAPE(2) }, 2, &parts));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = squares, .user = copse_variable_tensor(v) },
        &trainer));
    OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = { .kind = COPSE_SGD } },
                          &tower));
    OK(copse_train_step_create(st, &(struct copse_train_step_params){ .losses = lose_nothing },
                               &train_step));
    rc = copse_current_replica();
}

static void make_input(void)
{
    const struct copse_loader_params two = { .batch = 2 };
    OK(copse_dataset_create(ctx, &table, NULL, NULL, &data));
    OK(copse_loader_create(data, &two, &batches));
    OK(copse_input_plan_create(ctx, &(struct copse_input_plan_params){ .batch = 2, .rows = 4 },
                               &plan));
    OK(copse_distributed_create(
        ctx, &(struct copse_distributed_params){ .data = data, .batches = two }, &walk));
    OK(copse_cluster_spec_parse(
        ctx, "{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\"}}", &spec));
    OK(copse_cluster_open(ctx, spec, NULL, &cluster));
    OK(copse_step_create(ctx, NULL, &(struct copse_step_functions){ .run = do_nothing }, NULL,
                         &step));
    OK(copse_input_step_create(ctx, NULL,
                               &(struct copse_input_params){ .dataset = give_data, .batches = two },
                               NULL, NULL, &input_step));
    OK(copse_monitor_create(step, NULL, &monitor));
    OK(copse_outputs_create(ctx, 2, &outputs));
}

/* ---- the rows, one function per subject ---- */

static void devices(struct probe *p)
{
    const struct copse_blocked_kernel *blocked;
    struct copse_device_choice choice;
    struct copse_device_state state;
    const struct copse_tuning_entry *tuned, entry = { .rate = 0 };
    const struct copse_case_result failed = { .verdict = COPSE_VERDICT_FAIL };
    char found[2][32], text[64];
    float numbers[16];
    uint64_t bytes[2];
    double seconds;
    size_t count;
    /* never used: every call has a NULL */
    copse_conformance_job *job = (copse_conformance_job *)bytes;
    copse_conformance_results *results = (copse_conformance_results *)bytes;
    copse_context *other;
    copse_device *opened;
    copse_buffer *made;
    copse_queue *begun;
    copse_function *function;
    ROW(copse_context_create, NULL, NEED(&other));
    ROW(copse_select_devices, NEED(ctx), NULL, NEED(found), 2, NEED(&count));
    ROW(copse_device_open, NEED(ctx), NEED(ids[0]), NULL, NEED(&opened));
    ROW(copse_context_compile_with, NEED(ctx), NULL, NULL);
    ROW(copse_device_compile, NEED(dev), NEED("fill 0 0 0 0 0 0"));
    ROW(copse_device_memory, NEED(dev), NEED(&bytes[0]), NEED(&bytes[1]));
    ROW(copse_buffer_create, NEED(dev), NEED(&(struct copse_buffer_params){ .size = 4 }),
        NEED(&made));
    ROW(copse_queue_create, NEED(dev), NEED(&begun));
    ROW(copse_queue_write, NEED(queue), NEED(buf), 0, NEED(numbers), 4);
    ROW(copse_queue_read, NEED(queue), NEED(buf), 0, NEED(numbers), 4);
    ROW(copse_queue_copy, NEED(queue), NEED(buf), 0, NEED(buf), 8, 4);
    ROW(copse_queue_fill, NEED(queue), NEED(buf), 0, 4, 0);
    ROW(copse_queue_submit, NEED(queue), NULL);
    ROW(copse_queue_wait, NEED(queue), 0, 0);
    ROW(copse_queue_finish, NEED(queue));
    ROW(copse_queue_stamp, NEED(queue), NEED(&bytes[0]));
    ROW(copse_queue_elapsed, NEED(queue), 0, 0, NEED(&seconds));
    ROW(copse_function_create, NEED(dev),
        NEED(&(struct copse_function_params){ .graph = g, .outputs = &out, .output_count = 1 }),
        NEED(&function));
    ROW(copse_function_write, NEED(fn), NEED(x), NEED(numbers));
    ROW(copse_function_run, NEED(fn));
    ROW(copse_function_wait, NEED(fn));
    ROW(copse_function_read, NEED(fn), 0, NEED(numbers));
    ROW(copse_device_choice, NEED(ctx), NEED(ids[0]), NEED(&choice));
    ROW(copse_select_drivers, NEED(ctx), NULL, NEED(found), 2, NEED(&count));
    ROW(copse_device_tuning, NEED(ctx), NEED(ids[0]), NEED(&tuned), NEED(&count));
    ROW(copse_device_tuning_set, NEED(ctx), NEED(ids[0]), NEED(&entry), 1);
    ROW(copse_device_tuning_clear, NEED(ctx), NEED(ids[0]));
    ROW(copse_device_tuning_save, NEED(ctx), NEED(ids[0]), NULL, 0, NEED(&count));
    ROW(copse_device_tuning_load, NEED(ctx), NEED(ids[0]), NEED("x"), 1);
    ROW(copse_conformance_run, NEED(ctx), NEED(&(struct copse_conformance_params){ .ops = "?" }),
        NEED(&(struct copse_conformance_summary){ .seconds = 0 }));
    ROW(copse_conformance_list, NEED(ctx), NEED(&(struct copse_conformance_params){ .ops = "?" }));
    ROW(copse_conformance_start, NEED(ctx),
        NEED(&(struct copse_conformance_job_params){ .helper = "/nowhere/?" }), NEED(&job));
    ROW(copse_conformance_wait, NEED(job), 0, NULL);
    ROW(copse_conformance_results_read, NEED(ctx), NEED("/nowhere/?"), NEED(&results));
    ROW(copse_conformance_results_write, NEED(results), COPSE_CONFORM_CSV, NEED("/nowhere/?"));
    ROW(copse_device_json, NEED(ctx), NEED(ids[0]), NULL, 0, NEED(&count));
    ROW(copse_conformance_coverage, NEED(visit_cell), NULL);
    ROW(copse_kernel_contract, NEED("unary"), NEED(text), sizeof text);
    ROW(copse_kernel_complete, COPSE_KERNEL_CL_C, NEED("x"), NULL, 0, NEED(&count));
    ROW(copse_device_blocked, NEED(ctx), NEED(ids[0]), NEED(&blocked), NEED(&count));
    ROW(copse_device_block, NEED(ctx), NEED(ids[0]), NEED("unary"), NULL);
    ROW(copse_device_block_case, NEED(ctx), NEED(ids[0]), NEED(&failed), COPSE_CONFORM_STANDARD);
    ROW(copse_device_unblock, NEED(ctx), NEED(ids[0]), NULL);
    ROW(copse_device_state, NEED(ctx), NEED(ids[0]), NEED(&state));
    ROW(copse_context_allow, NEED(ctx), 0);
    ROW(copse_context_prioritize, NEED(ctx), COPSE_PRIORITY_LOW);
#if defined(COPSE_HAVE_OPENCL)
    ROW(copse_opencl_import, NEED(ctx), NEED(&(struct copse_opencl_handles){ .context = NULL }),
        NEED(&opened));
#endif
#if defined(COPSE_HAVE_VULKAN)
    ROW(copse_vulkan_import, NEED(ctx), NEED(&(struct copse_vulkan_handles){ .queue_family = 0 }),
        NEED(&opened));
#endif
}

static void graphs(struct probe *p)
{
    struct copse_gradient pair = { .gradient = x, .variable = v };
    copse_graph *graph;
    copse_tensor *y;
    struct copse_kernel_variant chosen;
    ROW(copse_kernel_choice, NEED(dev), NULL, NEED("matmul"), NEED("small"), NEED(&chosen));
    ROW(copse_graph_create, NEED(ctx), NEED(&graph));
    NODE_ROW(copse_graph_input, NEED(g), NEED("y"), COPSE_F32, COPSE_SCALAR);
    NODE_ROW(copse_input, NULL, NULL); /* a batch exists inside of a loss function only */
    VOID_ROW(copse_update, NEED(g), NEED(metric), NEED(x));
    VOID_ROW(copse_gradients, NEED(g), NEED(x), NULL, NEED(&x), 1, NEED(&y));
    VOID_ROW(copse_report, NEED(g), NEED("y"), NEED(x));
    ROW(copse_graph_status, NEED(g));
    NODE_ROW(copse_graph_fail, NEED(g), COPSE_ERR_IO, NEED("broken"));
    NODE_ROW(copse_gradient_norm, NEED(g), NEED(x));
    VOID_ROW(copse_gradients_clip_norms, NEED(g), NEED(&pair), 1, 1.0f);
    NODE_ROW(copse_gradients_clip_global_norm, NEED(g), NEED(&pair), 1, 1.0f);
    VOID_ROW(copse_gradients_multiply, NEED(g), NEED(&pair), 1,
             NEED(&(struct copse_multiplier){ .variable = v, .factor = 1.0f }), 1);
}

static void files(struct probe *p)
{
    static const uint32_t rows[] = { 0 };
    struct copse_host_batch batch;
    struct copse_input_reading reading;
    struct copse_input_shard shard;
    copse_array *array, *labels;
    copse_checkpoint *file;
    copse_gguf *gguf;
    struct copse_gguf_value value_of_key;
    copse_dataset *one, *two;
    copse_loader *begun;
    copse_distributed *other;
    copse_input_plan *planned;
    copse_shard_rule rule;
    copse_input_policy policy;
    float numbers[16] = { 0 };
    size_t size;
    struct copse_column column = { .name = "x", .type = COPSE_F32, .data = numbers };
    const struct copse_loader_params pairs = { .batch = 2 };
    const copse_schema *schema = copse_dataset_schema(data);
    struct copse_schema_info about;
    struct copse_text_info text_info;
    struct copse_schema_column described;
    copse_schema *parsed;
    const char *name;
    double mean;
    const struct copse_array_view view = { .data = numbers };
    ROW(copse_read_idx, NEED(ctx), NEED("none"), NULL, NEED(&array));
    ROW(copse_read_npy, NEED(ctx), NEED("none"), NULL, NEED(&array));
    ROW(copse_write_npy, NEED(ctx), NEED("none"), NEED(&view));
    ROW(copse_read_text, NEED(ctx), NEED("none"), NULL, NEED(&array));
    ROW(copse_read_csv, NEED(ctx), NEED("none"), NULL, NEED(&array), NULL);
    ROW(copse_read_csv, NEED(ctx), NEED("none"), NULL, NEED(&array), &labels);
    ROW(copse_dataset_open, NEED(ctx), NEED("none"), NULL, NEED(&one));
    ROW(copse_dataset_create, NEED(ctx), NEED(&table), NULL, NULL, NEED(&one));
    ROW(copse_dataset_column, NEED(data), 0, NEED(&column));
    ROW(copse_schema_describe, NEED(schema), NEED(&about));
    ROW(copse_schema_column, NEED(schema), 0, NEED(&described));
    ROW(copse_schema_target, NEED(schema), 0, NEED(&name), NEED(&mean), NEED(&mean));
    ROW(copse_schema_parse, NEED(ctx), NEED(copse_schema_text(schema)), NEED(&parsed));
    ROW(copse_text_create, NEED(ctx), NEED("none"), 4, NULL, NEED(&one));
    ROW(copse_text_describe, NEED(schema), NEED(&text_info));
    ROW(copse_text_place, NEED(data), 0, NULL, NULL);
    ROW(copse_dataset_cells, NEED(ctx), NEED(&(struct copse_cells){ .rows = 0 }), NULL, NEED(&one));
    ROW(copse_dataset_columns, NEED(ctx), NEED(&column), 1, 2, NEED(&one));
    ROW(copse_dataset_gather, NEED(data), NEED("x"), rows, 1, NEED(numbers));
    ROW(copse_dataset_fold, NEED(data), NEED(&(struct copse_fold_params){ .folds = 2 }), NEED(&one),
        NEED(&two));
    ROW(copse_training_defaults, NEED(data), NULL, 0, NEED(&(struct copse_training_defaults){ 0 }));
    ROW(copse_dataset_split, NEED(data), NULL, NEED(&one), NEED(&two));
    ROW(copse_loader_create, NEED(data), NEED(&pairs), NEED(&begun));
    ROW(copse_augment_check, NEED("flip"));
    ROW(copse_loader_start, NEED(batches), 0, 0);
    ROW(copse_loader_next, NEED(batches), NEED(&batch));
    ROW(copse_input_per_replica_batch, NULL, 4, NEED(&size));
    ROW(copse_shard_rule_parse, NEED("balanced"), NEED(&rule));
    ROW(copse_input_policy_parse, NEED("auto"), NEED(&policy));
    ROW(copse_input_plan_create, NEED(ctx), NEED(&(struct copse_input_plan_params){ .batch = 2 }),
        NEED(&planned));
    ROW(copse_input_plan_describe, NEED(plan), 0, NEED(&reading));
    ROW(copse_input_plan_shard, NEED(plan), 0, 0, 0, NEED(&shard));
    ROW(copse_distributed_create, NEED(ctx),
        NEED(&(struct copse_distributed_params){ .data = data, .batches = pairs }), NEED(&other));
    ROW(copse_distributed_next, NEED(walk), NEED(&batch));
    ROW(copse_distributed_next_value, NEED(walk), NEED(st), NEED(&result));
    ROW(copse_distributed_start, NEED(walk), 0, 0);
    ROW(copse_distributed_pad, NEED(walk), 4);
    ROW(copse_distributed_from_function, NEED(ctx),
        NEED(&(struct copse_distributed_fn_params){ .pipeline = give_pipeline }), NEED(&other));
    ROW(copse_checkpoint_write, NEED(ctx), NEED("none/none"),
        NEED(&(struct copse_checkpoint_params){ .arrays = NULL }));
    ROW(copse_checkpoint_read, NEED(ctx), NEED("none"), NEED(&file));
    ROW(copse_checkpoint_open, NEED(ctx), NEED("none"), NEED(&file));
    /* refused before it is used */
    ROW(copse_checkpoint_fetch, NEED((copse_checkpoint *)(void *)&size), NEED("none"));
    ROW(copse_gguf_open, NEED(ctx), NEED("none"), NEED(&gguf));
    ROW(copse_gguf_get, NEED((copse_gguf *)(void *)&size), NEED("none"), 0, NEED(&value_of_key));
    ROW(copse_gguf_read, NEED((copse_gguf *)(void *)&size), NEED("none"), NEED(numbers), 16);
}

static void jobs(struct probe *p)
{
    static void *object;
    const double numbers[2] = { 0 };
    const struct copse_step_functions functions = { .run = do_nothing };
    struct copse_found_checkpoint found;
    struct copse_host_batch batch;
    struct copse_position position = { .epoch = 0 };
    struct copse_output output;
    copse_cluster_spec *job;
    copse_cluster *open;
    copse_monitor *other;
    copse_outputs *set;
    copse_step *made;
    copse_strategy *on;
    void *const *list;
    const float zero = 0;
    uint32_t number;
    size_t count;
    ROW(copse_cluster_spec_parse, NEED(ctx), NEED("{}"), NEED(&job));
    ROW(copse_cluster_spec_find, NEED(ctx), NEED(&job));
    ROW(copse_cluster_spec_set_servers, NEED(spec), 0);
    ROW(copse_cluster_spec_workers, NEED(spec), NEED(&number));
    ROW(copse_cluster_spec_rank, NEED(spec), NEED(&number));
    ROW(copse_cluster_open, NEED(ctx), NEED(spec), NULL, NEED(&open));
    ROW(copse_cluster_regroup, NEED(cluster));
    ROW(copse_parameter_server_create, NEED(ctx), NULL, NEED(ids), 1, NULL, NEED(&on));
    ROW(copse_parameter_server_serve, NEED(ctx), NEED(cluster), NULL, NULL);
    ROW(copse_outputs_create, NEED(ctx), 1, NEED(&set));
    ROW(copse_outputs_set, NEED(outputs), NEED("a"), NEED(numbers), COPSE_OUTPUT_MEAN);
    ROW(copse_outputs_set_value, NEED(outputs), NEED("v"), NEED(value), COPSE_OUTPUT_MEAN);
    ROW(copse_outputs_value, NEED(outputs), NEED("v"), NEED(&result));
    VOID_ROW(copse_output, NEED(g), NEED("y"), NEED(x));
    VOID_ROW(copse_step_output, NEED(g), NEED("o"), NEED(x), COPSE_OUTPUT_MEAN);
    ROW(copse_outputs_set_replica, NEED(outputs), 0, NEED("b"), 1.0, COPSE_OUTPUT_MEAN);
    ROW(copse_outputs_set_object, NEED(outputs), NEED("c"), &object);
    ROW(copse_outputs_set_replica_object, NEED(outputs), 0, NEED("d"), &object);
    ROW(copse_outputs_get, NEED(outputs), NEED("a"), NEED(&output));
    ROW(copse_outputs_objects, NEED(outputs), NEED("c"), NEED(&list), NEED(&count));
    ROW(copse_step_create, NEED(ctx), NULL, &functions, NULL, NEED(&made));
    ROW(copse_step_run, NEED(step));
    ROW(copse_input_step_create, NEED(ctx), NULL,
        NEED(&(struct copse_input_params){ .dataset = give_data, .batches = { .batch = 2 } }), NULL,
        NULL, NEED(&made));
    ROW(copse_step_next, NEED(input_step), NEED(&batch));
    ROW(copse_step_position, NEED(input_step), NEED(&position));
    ROW(copse_step_seek, NEED(input_step), NEED(&position));
    ROW(copse_step_iterate, NEED(step), 1, NEED(iterate_nothing), NULL);
    ROW(copse_single_loss_step_create, NEED(ctx),
        NEED(&(struct copse_single_loss_params){
            .input = { .dataset = give_data, .batches = { .batch = 2 } } }),
        NEED(&made));
    ROW(copse_step_outputs, NEED(step), NEED(&set));
    ROW(copse_monitor_create, NEED(step), NULL, NEED(&other));
    ROW(copse_monitor_run, NEED(monitor), 1, NULL);
    ROW(copse_monitor_checkpoint, NEED(monitor));
    /* each call is refused before it is used */
    copse_event_file *events = (copse_event_file *)(void *)&number;
    ROW(copse_trace_start, NEED(ctx), NEED(&(struct copse_trace_params){ .path = "none/none" }));
    ROW(copse_trace_stop, NEED(ctx), NULL);
    ROW(copse_event_file_create, NEED(ctx), NEED("none"), NEED(&events));
    ROW(copse_event_file_scalar, NEED(events), NEED("tag"), 0, 0);
    ROW(copse_event_file_histogram, NEED(events), NEED("tag"), 0, NEED(&zero), 1);
    ROW(copse_event_file_gradients, NEED(events), NEED((copse_trainer *)(void *)&number), 0);
    ROW(copse_event_file_picture, NEED(events), NEED("tag"), 0, NEED((const uint8_t *)&number), 1,
        1, 1);
    ROW(copse_event_file_flush, NEED(events));
    ROW(copse_event_file_close, NEED(&events));
    ROW(copse_monitor_find, NEED(ctx), NEED("none"), 0, true, NEED(&found));
}

static void values(struct probe *p)
{
    static const char *const names[] = { "a" };
    const struct copse_sparse_params sparse = { .dense_shape = COPSE_SHAPE(2) };
    struct copse_link links[2] = { { 0 } };
    copse_cross_device *made;
    copse_reduce_op op;
    float numbers[4];
    ROW(copse_reduce_op_parse, NEED("sum"), NEED(&op));
    ROW(copse_cross_device_create, NEED(ctx), NULL, NEED(&made));
    ROW(copse_strategy_links, NEED(st), NEED(links));
    ROW(copse_strategy_set_links, NEED(st), NEED(links));
    ROW(copse_cross_reduce, cross, NEED(st), COPSE_REDUCE_MEAN, NEED(value), NULL, NEED(&result));
    ROW(copse_cross_batch_reduce, NULL, NEED(st), COPSE_REDUCE_MEAN, NEED(&value), NULL, 1,
        NEED(&result));
    ROW(copse_cross_broadcast, cross, NEED(st), NEED(value), NULL, NEED(&result));
    ROW(copse_value_create, NEED(ctx), COPSE_F32, COPSE_SCALAR, NEED(numbers), NEED(&result));
    ROW(copse_value_create_on, NEED(st), 0, COPSE_F32, COPSE_SCALAR, NEED(numbers), NEED(&result));
    ROW(copse_value_scalar, NEED(ctx), 1.0f, NEED(&result));
    ROW(copse_value_sparse, NEED(ctx), NEED(&sparse), NEED(&result));
    ROW(copse_value_object, NEED(ctx), NULL, NEED(&result));
    ROW(copse_value_list, NEED(ctx), NEED(&value), 1, NEED(&result));
    ROW(copse_value_dict, NEED(ctx), NEED(names), NEED(&value), 1, NEED(&result));
    ROW(copse_value_per_replica, NEED(st), NEED(&value), 1, NEED(&result));
    ROW(copse_value_read, NEED(value), NEED(numbers));
    ROW(copse_value_read_sparse, NEED(slices), NULL, numbers);
    ROW(copse_call, NEED(predict_nothing), NULL, NULL, NULL);
    ROW(copse_strategy_map, NEED(st), NEED(predict_nothing), NULL, NULL, NULL);
    ROW(copse_call_configure, NEED(st), NULL);
    ROW(copse_value_add, NEED(value), NEED(value), NEED(&result));
    ROW(copse_value_subtract, NEED(value), NEED(value), NEED(&result));
    ROW(copse_value_multiply, NEED(value), NEED(value), NEED(&result));
    ROW(copse_value_divide, NEED(value), NEED(value), NEED(&result));
    ROW(copse_value_multiply_by, NEED(value), 1.0f, NEED(&result));
    ROW(copse_value_matmul, NEED(value), NEED(value), NEED(&result));
    ROW(copse_value_sum, NEED(value), NEED(&result));
    ROW(copse_value_convert, NEED(value), COPSE_I32, NEED(&result));
    ROW(copse_value_densify, NEED(slices), NEED(&result));
    ROW(copse_value_wait, NEED(value));
}

static void strategies(struct probe *p)
{
    static const uint32_t ranks[] = { 0 };
    const struct copse_variable_params variable = { .name = "w", .shape = COPSE_SHAPE(2) };
    const struct copse_context_params config = { .disable = NULL };
    struct copse_context_params changed;
    copse_strategy *on;
    copse_variable *made;
    copse_partitioned *split;
    float numbers[4] = { 0 };
    ROW(copse_strategy_open, NEED(ctx), NULL, NULL, NEED(&on));
    ROW(copse_one_device_create, NEED(ctx), NEED(ids[0]), NULL, NEED(&on));
    ROW(copse_mirrored_create, NEED(ctx), NEED(ids), 1, NULL, NEED(&on));
    ROW(copse_collective_create, NEED(ctx), cluster, NEED(ids), 1, NULL, NEED(&on));
    ROW(copse_accelerator_create, NEED(ctx), NEED(ids), 1, NULL, NEED(&on));
    ROW(copse_strategy_update_config, NEED(st), NEED(&config), NEED(&changed));
    ROW(copse_variable_create, NEED(st), NEED(&variable), NEED(&made));
    ROW(copse_variable_read, NEED(v), 0, NEED(numbers));
    ROW(copse_variable_assign, NEED(v), NEED(numbers));
    ROW(copse_partitioned_create, NEED(st), NEED(&variable), 2, NEED(&split));
    ROW(copse_partitioned_read, NEED(parts), NEED(&result));
    ROW(copse_partitioned_assign, NEED(parts), NEED(value));
    ROW(copse_partitioned_assign_add, NEED(parts), NEED(value));
    ROW(copse_partitioned_assign_sub, NEED(parts), NEED(value));
    ROW(copse_scope_enter, NEED(st));
    ROW(copse_scope_leave, NEED(st));
    ROW(copse_strategy_run, NEED(st), NEED(run_nothing), NEED(&value), 1, NULL, NULL);
    ROW(copse_merge_call, rc, NEED(merge_nothing), NEED(&value), 1, NULL, NULL);
    ROW(copse_replica_all_reduce, rc, COPSE_REDUCE_MEAN, NEED(value), NEED(&result));
    ROW(copse_strategy_reduce, NEED(st), COPSE_REDUCE_MEAN, NEED(value), NULL, NEED(&result));
    ROW(copse_strategy_reduce_to, NEED(st), COPSE_REDUCE_MEAN, NEED(value), NULL, NEED(&result));
    ROW(copse_strategy_batch_reduce_to, NEED(st), COPSE_REDUCE_MEAN, NEED(&value), NULL, 1,
        NEED(&result));
    ROW(copse_strategy_set_cross_device, NEED(st), NULL);
    ROW(copse_strategy_split, NEED(st), NEED(value), NEED(&result));
    ROW(copse_strategy_broadcast, NEED(st), NEED(value), NULL, NEED(&result));
    ROW(copse_strategy_update, NEED(st), NEED(v), NEED(update_nothing), NEED(&value), 1, NULL,
        NULL);
    ROW(copse_strategy_update_non_slot, NEED(st), NEED(ranks), 1, NEED(update_nothing),
        NEED(&value), 1, NULL, NULL);
    ROW(copse_read, NEED(v), NEED(&result));
    ROW(copse_assign, NEED(v), NEED(value));
    ROW(copse_assign_add, NEED(v), NEED(value));
    ROW(copse_assign_sub, NEED(v), NEED(value));
    ROW(copse_scatter_add, NEED(v), NEED(slices));
    ROW(copse_scatter_sub, NEED(v), NEED(slices));
    ROW(copse_scatter_update, NEED(v), NEED(slices));
    ROW(copse_scatter_mul, NEED(v), NEED(slices));
    ROW(copse_scatter_div, NEED(v), NEED(slices));
    ROW(copse_scatter_min, NEED(v), NEED(slices));
    ROW(copse_scatter_max, NEED(v), NEED(slices));
    ROW(copse_variable_value, NEED(v), NEED(&result));
}

static void training(struct probe *p)
{
    const float numbers[4] = { 0 };
    float weights[2], slot[2];
    double report;
    bool is_known;
    const struct copse_host_batch batch = { RIG_X(2, numbers), .count = 1 };
    const struct copse_trainer_params params = { .loss = squares, .user = x };
    const struct copse_train_step_params steps = { .losses = lose_nothing };
    struct copse_step_result done;
    struct copse_step_memory memory;
    struct copse_train_step_result step_done;
    struct copse_replica_result of_replica;
    struct copse_gradient_summary summary;
    const struct copse_named_array *arrays;
    copse_trainer *made;
    copse_train_step *other;
    copse_early_stopping *watch;
    struct copse_trainer_hashes hashes;
    size_t count;
    ROW(copse_trainer_create, NEED(st), NEED(&params), NEED(&made));
    ROW(copse_trainer_step, NEED(trainer), NEED(&batch));
    ROW(copse_trainer_feed, NEED(trainer), NEED(&batch));
    ROW(copse_trainer_trim, NEED(trainer), 0, NULL);
    ROW(copse_trainer_prepare, NEED(trainer), NEED(&batch), NULL);
    ROW(copse_trainer_advance, NEED(trainer), NEED(&batch), 0, NULL);
    ROW(copse_trainer_run, NEED(trainer));
    ROW(copse_trainer_result, NEED(trainer), true, NEED(&done));
    ROW(copse_step_report, NEED(&done), NEED("a"), NEED(&report));
    ROW(copse_trainer_flush, NEED(trainer));
    ROW(copse_trainer_audit, NEED(trainer), NULL);
    ROW(copse_trainer_memory, NEED(trainer), 0, NEED(&batch), 0, NEED(&memory));
    ROW(copse_trainer_shard_weights, NEED(trainer), NEED(weights), NEED(&is_known));
    ROW(copse_trainer_set_shard_weights, NEED(trainer), NEED(weights));
    ROW(copse_trainer_slot, NEED(trainer), NEED(v), NEED("m"), NEED(slot));
    ROW(copse_trainer_hash, NEED(trainer), NEED(&hashes));
    ROW(copse_trainer_hash_launches, NEED(trainer), 1, NULL, NULL);
    ROW(copse_trainer_gradient, NEED(trainer), NEED(v), 0, NEED(&summary));
    ROW(copse_trainer_replica_result, NEED(trainer), 0, NEED(&of_replica));
    ROW(copse_trainer_fit, NEED(trainer), NEED(batches),
        NEED(&(struct copse_fit_params){ .epochs = 1 }));
    ROW(copse_trainer_find_lr, NEED(trainer), NEED(batches), NULL, NEED(&lr_range));
    ROW(copse_early_stopping_create, NEED(trainer), NULL, NEED(&watch));
    if (!stopping)
        OK(copse_early_stopping_create(trainer, NULL, &stopping));
    ROW(copse_early_stopping_observe, NEED(stopping), 1, 1.0, NEED(&is_known));
    ROW(copse_early_stopping_swap, NEED(stopping));
    ROW(copse_early_stopping_arrays, NEED(stopping), NEED(&arrays), NEED(&count));
    /* each call is refused before it is used */
    ROW(copse_early_stopping_resume, NEED(stopping), NEED((copse_checkpoint *)(void *)&count));
    ROW(copse_trainer_evaluate, NEED(trainer), NEED(&batch), NEED(&done));
    ROW(copse_trainer_predict, NEED(trainer), NEED(predict_nothing), NULL, NEED(&batch), NEED(slot),
        sizeof slot);
    ROW(copse_trainer_load, NEED(trainer), NEED("none"), NULL, NULL);
    ROW(copse_trainer_save, NEED(trainer), NEED("none/none"));
    ROW(copse_trainer_checkpoint, NEED(trainer), NEED("none/none"), NULL);
    ROW(copse_trainer_restore, NEED(trainer), NEED("none"), NULL, NULL);
    ROW(copse_train_step_create, NEED(st), NEED(&steps), NEED(&other));
    ROW(copse_train_step_run, NEED(train_step), NEED(&batch), NEED(&step_done));
}

static void replicated(struct probe *p)
{
    const struct copse_tower_loss loss = { .loss = squares, .user = x, .x = value };
    const struct copse_replicated_params model = { .model = model_nothing };
    struct copse_tower_gradient pair = { .variable = v };
    struct copse_replicated_result done;
    copse_tower_optimizer *made;
    const char *name;
    const char *const *names;
    size_t count;
    ROW(copse_tower_create, NEED(st),
        NEED(&(struct copse_tower_params){ .optimizer = { .kind = COPSE_SGD } }), NEED(&made));
    ROW(copse_tower_compute, NEED(tower), NEED(&loss), NEED(&pair), 1, NULL);
    ROW(copse_tower_forward, NEED(tower), NEED(&loss), NEED(&result));
    ROW(copse_tower_apply, NEED(tower), NEED(&pair), 1, false);
    ROW(copse_tower_minimize, NEED(tower), NEED(&loss), NULL, 0, false, NULL);
    ROW(copse_tower_finish, NEED(tower));
    ROW(copse_tower_name, NEED(tower), NEED(&name));
    ROW(copse_tower_slot_names, NEED(tower), NEED(&names), NEED(&count));
    ROW(copse_tower_slot, NEED(tower), NEED(v), NEED("m"), NEED(&result));
    ROW(copse_replicated_run, NEED(st), NEED(&model), COPSE_MODEL_TRAIN, NULL, NULL, NEED(&done));
    ROW(copse_replicated_checkpoint, NEED(st), NEED("none/none"), NULL);
    ROW(copse_replicated_restore, NEED(st), NEED("none"), NULL, NULL);
    ROW(copse_metrics_reduce, NEED(st), NEED(&metric), 1);
}

/* In a strategy of its own: calls without NULL make variables. */
static void models(struct probe *p)
{
    copse_language *language;
    copse_onnx *onnx;
    struct copse_onnx_info onnx_is;
    copse_tensor *applied;
    copse_array *predicted;
    struct copse_language_info language_is;
    struct copse_language_evaluation language_loss;
    struct copse_adapter_info adapter_is;
    copse_dataset *windows;
    size_t tokens;
    static copse_strategy *own;
    static copse_model *model;
    static copse_dataset *labelled;
    static const float points[4] = { 0, 1, 2, 3 };
    static const int32_t classes[2] = { 0, 1 };
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { 2, 2 }, .data = points
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { 2 }, .data = classes
    };
    const struct copse_model_params params = { .network = "dense out", .scope = "kept" };
    const copse_batch in = { .is_training = false };
    struct copse_evaluation evaluation;
    copse_model *made;
    float values[4];
    if (!labelled)
        OK(copse_dataset_create(ctx, &features, &labels, NULL, &labelled));
    const copse_schema *schema = copse_dataset_schema(labelled);
    if (!own)
        OK(copse_one_device_create(ctx, "host:0", NULL, &own));
    if (!model)
        OK(copse_model_create(own, schema, &params, &model));
    ROW(copse_model_create, NEED(own), NEED(schema), NEED(&params), NEED(&made));
    ROW(copse_model_fit, NEED(model), NEED(labelled),
        NEED(&(struct copse_model_fit_params){ .epochs = 1 }));
    ROW(copse_model_find_lr, NEED(model), NEED(labelled),
        NEED(&(struct copse_model_fit_params){ .epochs = 1 }), NULL, NEED(&lr_range));
    ROW(copse_model_load, NEED(own), NEED("none"), NULL, NEED(&made));
    ROW(copse_model_load_weights, NEED(model), NULL, NEED("none"), NULL, NULL);
    ROW(copse_model_save, NEED(model), NEED("none/none"), NULL);
    NODE_ROW(copse_model_loss, NEED(g), NEED(&in), NEED(model));
    ROW(copse_model_predict, NEED(model), NEED(labelled), NEED(values));
    ROW(copse_model_predict_cells, NEED(model), NEED(&(struct copse_cells){ .rows = 0 }), NULL,
        NEED(values));
    ROW(copse_language_open, NEED(st), NEED("none"), NULL, NEED(&language));
    ROW(copse_language_describe, NEED((copse_language *)(void *)&language), NEED(&language_is));
    ROW(copse_language_encode, NEED((copse_language *)(void *)&language), NEED("a"), 1, NULL, 0,
        NEED(&tokens));
    ROW(copse_language_chat, NEED((copse_language *)(void *)&language), NULL, NEED("a"), NULL, 0,
        NEED(&tokens));
    ROW(copse_language_generate, NEED((copse_language *)(void *)&language), NULL, 0,
        NEED(&(struct copse_generate_params){ .length = 1 }), NEED(take_nothing), NULL);
    ROW(copse_language_evaluate, NEED((copse_language *)(void *)&language), NEED("a"), 1, 0,
        NEED(&language_loss));
    ROW(copse_language_adapt, NEED((copse_language *)(void *)&language),
        NEED(&(struct copse_adapter_params){ .rank = 1 }));
    ROW(copse_language_describe_adapter, NEED((copse_language *)(void *)&language),
        NEED(&adapter_is));
    ROW(copse_language_save_adapter, NEED((copse_language *)(void *)&language), NEED("none"));
    ROW(copse_language_load_adapter, NEED((copse_language *)(void *)&language), NEED("none"));
    ROW(copse_language_load_adapters, NEED((copse_language *)(void *)&language),
        NEED(&(const char *const){ "none" }), NULL, 1);
    ROW(copse_language_save_merged, NEED((copse_language *)(void *)&language), NEED("none"), NULL,
        NULL);
    ROW(copse_language_windows, NEED((copse_language *)(void *)&language), NEED("a"), 1, 0,
        NEED(&windows));
    ROW(copse_language_conversations, NEED((copse_language *)(void *)&language), NEED("{}"), 2, 0,
        NULL, NEED(&windows));
    ROW(copse_language_evaluate_windows, NEED((copse_language *)(void *)&language), NEED(labelled),
        NEED(&language_loss));
    NODE_ROW(copse_language_loss, NEED(g), NEED(&in), NEED(&language));
    ROW(copse_onnx_open, NEED(ctx), NEED("none"), NEED(&onnx));
    ROW(copse_onnx_describe, NEED((copse_onnx *)(void *)&onnx), NEED(&onnx_is));
    ROW(copse_onnx_check, NEED((copse_onnx *)(void *)&onnx));
    ROW(copse_onnx_make, NEED((copse_onnx *)(void *)&onnx), NEED(st), NULL);
    NODE_ROW(copse_onnx_loss, NEED(g), NEED(&in), NEED(&onnx));
    ROW(copse_onnx_predict, NEED((copse_onnx *)(void *)&onnx), NEED(labelled), NEED(&predicted));
    ROW(copse_onnx_write, NEED((copse_layer *)(void *)&onnx), NEED("none"), NULL);
    ROW(copse_onnx_save, NEED((copse_onnx *)(void *)&onnx), NEED("none"));
    VOID_ROW(copse_onnx_apply, NEED((copse_onnx *)(void *)&onnx), NEED(g),
             NEED(&(struct copse_onnx_apply_params){ .input_count = 0 }), NEED(&applied));
    ROW(copse_model_generate, NEED(model), NULL, 0,
        NEED(&(struct copse_generate_params){ .length = 1 }), NEED(take_nothing), NULL);
    ROW(copse_model_evaluate, NEED(model), NEED(labelled), NULL, NEED(&evaluation));
}

static void layers(struct probe *p)
{
    static copse_layer *relu, *made;
    static char text[64];
    const uint32_t widths[] = { 4 };
    copse_layer *list[1];
    copse_shape shape;
    copse_schema *schema;
    size_t size;
    OK(copse_nn_activation(ctx, COPSE_RELU, &relu));
    list[0] = relu;
    ROW(copse_nn_parse, NEED(ctx), NEED("relu"), NEED(&made));
    ROW(copse_nn_dense, NEED(ctx), 4, COPSE_LINEAR, NEED(&made));
    ROW(copse_nn_embedding, NEED(ctx), 4, 2, NEED(&made));
    ROW(copse_nn_activation, NEED(ctx), COPSE_RELU, NEED(&made));
    ROW(copse_nn_dropout, NEED(ctx), 0.5f, NEED(&made));
    ROW(copse_nn_layer_norm, NEED(ctx), NEED(&made));
    ROW(copse_nn_rms_norm, NEED(ctx), NEED(&made));
    ROW(copse_nn_batch_norm, NEED(ctx), NEED(&made));
    ROW(copse_nn_flatten, NEED(ctx), NEED(&made));
    ROW(copse_nn_residual, NEED(relu), NEED(&made));
    ROW(copse_nn_sequential, NEED(list), 1, NEED(&made));
    ROW(copse_nn_mlp, NEED(ctx), NEED(widths), 1, COPSE_RELU, NEED(&made));
    ROW(copse_layer_build, NEED(relu), NEED(st), NULL);
    NODE_ROW(copse_layer_apply, NEED(relu), NEED(g), NULL, NEED(x));
    VOID_ROW(copse_layer_apply_hidden, NEED(relu), NEED(g), NULL, NEED(x), NEED(&out), NEED(&out),
             NEED(&out));
    ROW(copse_layer_output, NEED(relu), NEED(&shape));
    /* as above */
    ROW(copse_model_describe, NEED(ctx), NEED((copse_checkpoint *)(void *)&size), NEED(&schema),
        NEED(&made));
    ROW(copse_layer_plan, NEED(relu), NEED(&(struct copse_build_params){ .seed = 0 }), NULL);
    ROW(copse_layer_shape, NEED(relu), NEED(&(struct copse_build_params){ .seed = 0 }),
        NEED(&shape), NULL);
    ROW(copse_layer_text, NEED(relu), NEED(text), sizeof text, NEED(&size));
    ROW(copse_layer_summary, NEED(relu), NEED(text), sizeof text, NEED(&size));
    copse_layer_release(&relu);
}

static void all_rows(struct probe *p)
{
    make_devices();
    make_values();
    make_training();
    make_input();
    devices(p);
    graphs(p);
    files(p);
    jobs(p);
    values(p);
    strategies(p);
    training(p);
    replicated(p);
    layers(p);
    models(p);
}

/* For a replica context NULL is an answer of copse_current_replica: the thread is in no replica. */
static void no_replica_is_another_context(void **state)
{
    (void)state;
    FAILS(COPSE_ERR_CONTEXT, copse_require_replica(NULL), "replica context");
    FAILS(COPSE_ERR_CONTEXT, copse_merge_call(NULL, merge_nothing, NULL, 0, NULL, NULL),
          "replica context");
}

static void required_pointers_are_checked(void **state)
{
    int calls;
    (void)state;
    const int wrong = run_rows(all_rows, &calls);
    printf("%d calls\n", calls);
    if (wrong)
        fail_msg("%d of %d calls with NULL are not refused as they should be", wrong, calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(required_pointers_are_checked),
                                        cmocka_unit_test(no_replica_is_another_context) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
