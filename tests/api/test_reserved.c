/* SPDX-License-Identifier: MIT */
/* Structs that can grow: each call refuses every word of `reserved` that is not 0, by name, and
   changes nothing; results have zeros there. Rows: REFUSED(type, member, value of the argument
   struct, call), where `p` is the struct. */
#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/copse.h"
#include "copse/data/checkpoint.h"
#include "copse/data/folds.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/device/conformance_job.h"
#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/device/trace.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/call.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/cross_device.h"
#include "copse/distribute/evaluator.h"
#include "copse/distribute/input.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/distribute/shards.h"
#include "copse/distribute/sync.h"
#include "copse/loop/early_stopping.h"
#include "copse/loop/feed.h"
#include "copse/loop/find_lr.h"
#include "copse/loop/monitor.h"
#include "copse/nn/layers.h"
#include "copse/nn/onnx.h"
#include "copse/ops/attention.h"
#include "copse/ops/conv.h"
#include "copse/ops/losses.h"
#include "copse/ops/pool.h"
#include "copse/ops/recurrent.h"
#include "copse/ops/rotary.h"
#include "copse/ops/user_op.h"
#include "copse/optim/schedule.h"
#include "copse/predict.h"
#include "copse/train/adapt.h"
#include "copse/train/advance.h"
#include "copse/train/audit.h"
#include "copse/train/evaluate.h"
#include "copse/train/generate.h"
#include "copse/train/language.h"
#include "copse/train/memory.h"
#include "copse/train/model_file.h"
#include "copse/train/predict_cells.h"
#include "copse/train/weights.h"
#include "tests/rig/data/batch_rig.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/rig.h"
#if defined(COPSE_HAVE_OPENCL)
#    define CL_TARGET_OPENCL_VERSION 120
#    include "copse/device/opencl.h"
#endif
#if defined(COPSE_HAVE_VULKAN)
#    include "copse/device/vulkan.h"
#endif

static int rows;

static void refused(copse_status s, const char *type, const char *call, size_t word)
{
    if (s != COPSE_ERR_UNSUPPORTED || !strstr(copse_last_error(), type) ||
        !strstr(copse_last_error(), "newer program than this library"))
        fail_msg("%s: word %zu of %s is set: %s: %s", call, word, type, copse_status_name(s),
                 s ? copse_last_error() : "");
}

/* `path` leads to the struct of `type` inside `p`, which is of type `outer`; it ends with a dot, or
   is empty. */
#define REFUSED_IN(type, outer, path, call, ...)                                 \
    do {                                                                         \
        struct outer p = { __VA_ARGS__ };                                        \
        const size_t words = sizeof p.path reserved / sizeof p.path reserved[0]; \
        for (size_t word = 0; word < words; word++) {                            \
            p.path reserved[word] = UINT64_C(1) << 63;                           \
            refused(call, #type, #call, word);                                   \
            p.path reserved[word] = 0;                                           \
        }                                                                        \
        rows++;                                                                  \
    } while (0)
#define REFUSED(type, call, ...) REFUSED_IN(type, type, , call, __VA_ARGS__)

static const char *const ids[] = { "host:0" };
static copse_context *ctx;

static copse_tensor *itself(copse_graph *g, const copse_batch *in, void *user)
{
    (void)g, (void)user;
    return copse_input(in, "x");
}

static copse_status take_nothing(void *user, uint32_t token, const char *text, size_t size)
{
    (void)user, (void)token, (void)text, (void)size;
    return COPSE_OK;
}

static copse_tensor *squares(copse_graph *g, const copse_batch *in, void *user)
{
    return copse_mean_squared_error(g, rig_x(in), user);
}

static void lose_nothing(copse_graph *g, const copse_batch *in, void *user,
                         struct copse_losses *losses)
{
    (void)g, (void)in, (void)user, (void)losses;
}

static copse_status make_nothing(void *user, copse_trainer **out)
{
    (void)user, (void)out;
    return COPSE_ERR_INTERNAL;
}

static copse_dataset *data;

static copse_status give_data(void *user, copse_strategy *on, copse_dataset **to)
{
    (void)user, (void)on;
    *to = copse_dataset_retain(data);
    return COPSE_OK;
}

/* A struct that the application's function fills for the library. */
static copse_status give_source(void *user, const struct copse_input_context *in,
                                struct copse_pipeline_source *out)
{
    (void)in;
    out->data = copse_dataset_retain(data);
    out->batches.batch = 2;
    if (user)
        out->batches.reserved[1] = 1;
    else
        out->reserved[0] = 1;
    return COPSE_OK;
}

static void half(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    (void)params, (void)spec, (void)buffers;
}

static struct copse_user_launch any_launch;

static copse_status launch_of(void *user, const struct copse_user_call *call,
                              struct copse_user_launch *out)
{
    (void)user;
    *out = any_launch;
    return call->reserved[0] ? COPSE_ERR_INTERNAL : COPSE_OK;
}

static void user_ops(void)
{
    struct copse_user_sample sample = { .name = "x" };
    struct copse_user_op_params op = { .name = "half",
                                       .operands = 1,
                                       .params = 1,
                                       .text = "half",
                                       .reference = half,
                                       .samples = &sample,
                                       .sample_count = 1 };
    copse_user_op *made;
    REFUSED(copse_user_op_params, copse_user_op_register(ctx, &p, &made), .name = "half",
            .operands = 1, .params = 1, .text = "half", .reference = half, .samples = &sample,
            .sample_count = 1);
    REFUSED(copse_user_sample, (op.samples = &p, copse_user_op_register(ctx, &op, &made)),
            .name = "x");
    op.samples = &sample;
    op.launch = launch_of;
    REFUSED(copse_user_launch, (any_launch = p, copse_user_op_register(ctx, &op, &made)),
            .groups = 1);
}

static void devices(void)
{
    copse_context *other;
    copse_device *dev, *opened;
    copse_buffer *buf;
    copse_function *fn;
    copse_graph *g;
    struct copse_conformance_summary summary;
    copse_conformance_job *job;
    REFUSED(copse_context_params, copse_context_create(&p, &other), .disable = "opencl,vulkan");
    REFUSED_IN(copse_cache_params, copse_context_params, cache., copse_context_create(&p, &other),
               .no_env = false);
    OK(copse_device_open(ctx, ids[0], NULL, &dev));
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 2));
    copse_tensor *labels = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(2));
    REFUSED(copse_device_params, copse_device_open(ctx, ids[0], &p, &opened), .parts = 1);
    REFUSED(copse_buffer_params, copse_buffer_create(dev, &p, &buf), .size = 8);
    REFUSED(copse_function_params, copse_function_create(dev, &p, &fn), .graph = g, .outputs = &x,
            .output_count = 1);
    REFUSED(copse_conformance_params, copse_conformance_run(ctx, &p, &summary), .ops = "relu");
    REFUSED(copse_conformance_params, copse_conformance_list(ctx, &p), .ops = "relu");
    REFUSED(copse_conformance_job_params, copse_conformance_start(ctx, &p, &job), .ops = "relu");
    REFUSED(copse_conformance_helper_params,
            copse_conformance_start(ctx, &(struct copse_conformance_job_params){ .in_process = &p },
                                    &job),
            .user = NULL);
    REFUSED(copse_batch_norm,
            rig_failure(g, copse_sync_batch_norm(g, x, (const uint32_t[]){ 0 }, 1, &p)),
            .gamma = NULL);
    REFUSED(copse_pool_params, rig_failure(g, copse_max_pool(g, x, &p)), .window = { 1, 1 });
    REFUSED(copse_pool_params, rig_failure(g, copse_average_pool(g, x, &p)), .window = { 1, 1 });
    REFUSED(copse_cross_entropy_params, rig_failure(g, copse_cross_entropy(g, x, labels, &p)),
            .label_smoothing = 0.1f);
    REFUSED(copse_cross_entropy_params,
            rig_failure(g, copse_dense_cross_entropy(g, x, x, NULL, labels, &p, NULL)),
            .ignored_label = 1);
    REFUSED(copse_conv_params, rig_failure(g, copse_conv(g, x, x, NULL, &p)), .groups = 1);
    REFUSED(copse_conv_params, rig_failure(g, copse_conv_transposed(g, x, x, NULL, &p)),
            .groups = 1);
    REFUSED(copse_attention_params, rig_failure(g, copse_attention(g, x, x, x, &p)),
            .is_causal = true);
    REFUSED(copse_attention_params, rig_failure(g, copse_self_attention(g, x, 1, 1, &p)),
            .window = 1);
    const char *const onnx_output = "y";
    copse_tensor *onnx_result;
    REFUSED(copse_onnx_apply_params,
            (copse_onnx_apply((copse_onnx *)(void *)&p, g, &p, &onnx_result),
             rig_failure(g, onnx_result)),
            .outputs = &onnx_output, .output_count = 1);
    REFUSED(copse_rotary_params, rig_failure(g, copse_rotary(g, x, &p)), .offset = 1);
    REFUSED(copse_rotary_params, rig_failure(g, copse_rotary_by(g, x, x, &p)), .offset = 1);
    REFUSED(copse_recurrent_params, rig_failure(g, copse_gru(g, x, x, x, &p, NULL)),
            .lengths = NULL);
    REFUSED(copse_recurrent_params, rig_failure(g, copse_lstm(g, x, x, x, &p, NULL, NULL)),
            .lengths = NULL);
    REFUSED(copse_recurrent_params, rig_failure(g, copse_rnn(g, x, x, x, &p, NULL)),
            .lengths = NULL);
#if defined(COPSE_HAVE_OPENCL)
    REFUSED(copse_opencl_handles, copse_opencl_import(ctx, &p, &opened), .context = NULL);
#endif
#if defined(COPSE_HAVE_VULKAN)
    REFUSED(copse_vulkan_handles, copse_vulkan_import(ctx, &p, &opened), .queue_family = 0);
#endif
    copse_graph_release(&g);
    copse_device_release(&dev);
}

static void input(void)
{
    const float six[6] = { 1, 2, 3, 4, 5, 6 };
    const struct copse_array_view table = { COPSE_F32, 2, { 3, 2 }, six };
    copse_array *array, *labels;
    copse_dataset *made, *rest;
    copse_loader *batches;
    copse_input_plan *plan;
    copse_distributed *walk;
    copse_step *step;
    size_t count;
    OK(copse_dataset_create(ctx, &table, NULL, NULL, &data));
    REFUSED(copse_read_params, copse_read_idx(ctx, "none", &p, &array), .max_bytes = 1);
    REFUSED(copse_read_params, copse_read_npy(ctx, "none", &p, &array), .max_bytes = 1);
    REFUSED(copse_read_params, copse_read_text(ctx, "none", &p, &array), .max_bytes = 1);
    REFUSED(copse_csv_params, copse_read_csv(ctx, "none", &p, &array, &labels), .max_bytes = 1);
    REFUSED(copse_source_params,
            copse_dataset_open(ctx, "none", &(struct copse_dataset_params){ .source = &p }, &made),
            .resize = NULL);
    REFUSED_IN(copse_csv_params, copse_dataset_params, csv.,
               copse_dataset_open(ctx, "none", &p, &made), .labels = NULL);
    REFUSED(copse_source_params,
            copse_dataset_create(ctx, &table, NULL, &(struct copse_dataset_params){ .source = &p },
                                 &made),
            .resize = NULL);
    REFUSED(copse_text_params,
            copse_text_create(ctx, "none", 4,
                              &(struct copse_dataset_params){
                                  .source = &(struct copse_source_params){ .text = &p } },
                              &made),
            .context = 1);
    REFUSED(copse_cells, copse_dataset_cells(ctx, &p, NULL, &made), .rows = 1);
    REFUSED(copse_fold_params, copse_dataset_fold(data, &p, &made, &rest), .folds = 2);
    REFUSED(copse_split_params, copse_dataset_split(data, &p, &made, &rest), .seed = 0);
    REFUSED(copse_loader_params, copse_loader_create(data, &p, &batches), .batch = 1);
    REFUSED(copse_input_context, copse_input_per_replica_batch(&p, 4, &count), .pipelines = 1);
    REFUSED(copse_input_plan_params, copse_input_plan_create(ctx, &p, &plan), .batch = 1,
            .rows = 3);
    REFUSED(copse_distributed_params, copse_distributed_create(ctx, &p, &walk), .data = data,
            .batches = { .batch = 1 });
    REFUSED_IN(copse_csv_params, copse_distributed_params, read.csv.,
               copse_distributed_create(ctx, &p, &walk), .data = data, .batches = { .batch = 1 });
    REFUSED_IN(copse_input_context, copse_distributed_params, input.,
               copse_distributed_create(ctx, &p, &walk), .data = data, .batches = { .batch = 1 });
    REFUSED_IN(copse_loader_params, copse_distributed_params, batches.,
               copse_distributed_create(ctx, &p, &walk), .data = data, .batches = { .batch = 1 });
    REFUSED(copse_distributed_fn_params, copse_distributed_from_function(ctx, &p, &walk),
            .pipeline = give_source);
    struct copse_distributed_fn_params from = { .pipeline = give_source };
    refused(copse_distributed_from_function(ctx, &from, &walk), "copse_pipeline_source",
            "copse_distributed_from_function", 0);
    from.user = &from;
    refused(copse_distributed_from_function(ctx, &from, &walk), "copse_loader_params",
            "copse_distributed_from_function", 1);
    REFUSED(copse_step_functions, copse_step_create(ctx, NULL, &p, NULL, &step), .run = NULL);
    REFUSED(copse_input_params, copse_input_step_create(ctx, NULL, &p, NULL, NULL, &step),
            .dataset = give_data);
    REFUSED_IN(copse_loader_params, copse_input_params, batches.,
               copse_input_step_create(ctx, NULL, &p, NULL, NULL, &step), .dataset = give_data);
    REFUSED(copse_single_loss_params, copse_single_loss_step_create(ctx, &p, &step),
            .make = make_nothing);
    REFUSED_IN(copse_input_params, copse_single_loss_params, input.,
               copse_single_loss_step_create(ctx, &p, &step), .make = make_nothing);
    REFUSED(copse_checkpoint_params, copse_checkpoint_write(ctx, "/none/none", &p),
            .array_count = 0);
}

static struct copse_lr_range lr_range;

static void training(void)
{
    copse_strategy *st, *other;
    copse_variable *v, *w;
    copse_shape shape_of;
    copse_layer *layer;
    copse_partitioned *parts;
    copse_trainer *t, *second;
    copse_tower_optimizer *tower;
    copse_train_step *ts, *made;
    copse_cross_device *cross;
    copse_cluster_spec *spec;
    copse_cluster *cluster;
    copse_step *step;
    copse_monitor *monitor;
    copse_early_stopping *stopping = NULL;
    struct copse_context_params config;
    copse_loader *batches;
    struct copse_step_result result;
    struct copse_step_memory planned;
    struct copse_train_step_result step_result;
    float predicted[2];
    const float points[4] = { 0, 1, 2, 3 };
    const int32_t classes[2] = { 0, 1 };
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { 2, 2 }, .data = points
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { 2 }, .data = classes
    };
    copse_dataset *labelled;
    struct copse_evaluation evaluation;
    copse_model *model, *loaded;
    copse_language *language;
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &labelled));
    REFUSED(copse_strategy_params, copse_strategy_open(ctx, "host:0", &p, &other),
            .bucket_bytes = 0);
    REFUSED(copse_strategy_params, copse_one_device_create(ctx, ids[0], &p, &other),
            .bucket_bytes = 0);
    REFUSED(copse_strategy_params, copse_mirrored_create(ctx, ids, 1, &p, &other),
            .bucket_bytes = 0);
    REFUSED(copse_strategy_params, copse_collective_create(ctx, NULL, ids, 1, &p, &other),
            .bucket_bytes = 0);
    REFUSED(copse_strategy_params, copse_parameter_server_create(ctx, NULL, ids, 1, &p, &other),
            .bucket_bytes = 0);
    REFUSED(copse_accelerator_params, copse_accelerator_create(ctx, ids, 1, &p, &other),
            .cores = 0);
    REFUSED_IN(copse_strategy_params, copse_accelerator_params, strategy.,
               copse_accelerator_create(ctx, ids, 1, &p, &other), .cores = 0);
    OK(copse_mirrored_create(ctx, ids, 1, NULL, &st));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(2) }, &v));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = squares, .user = copse_variable_tensor(v) },
        &t));
    OK(copse_train_step_create(st, &(struct copse_train_step_params){ .losses = lose_nothing },
                               &ts));
    OK(copse_step_create(ctx, NULL, NULL, NULL, &step));
    OK(copse_cluster_spec_parse(
        ctx, "{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\"}}", &spec));
    REFUSED(copse_context_params, copse_strategy_update_config(st, &p, &config), .no_env = false);
    REFUSED(copse_variable_params, copse_variable_create(st, &p, &w), .name = "w",
            .shape = COPSE_SHAPE(2));
    REFUSED(copse_variable_params, copse_partitioned_create(st, &p, 2, &parts), .name = "w",
            .shape = COPSE_SHAPE(2));
    OK(copse_nn_flatten(ctx, &layer));
    REFUSED(copse_build_params, copse_layer_plan(layer, &p, NULL), .outputs = 2);
    REFUSED(copse_build_params, copse_layer_shape(layer, &p, &shape_of, NULL), .outputs = 2);
    REFUSED(copse_build_params, copse_layer_build(layer, st, &p), .outputs = 2);
    copse_layer_release(&layer);
    REFUSED(copse_trace_params, copse_trace_start(ctx, &p), .path = "none/none");
    copse_schedule *schedule;
    REFUSED(copse_schedule_params, copse_schedule_create(ctx, &p, &schedule), .text = "cosine",
            .rate = 1);
    REFUSED(copse_trainer_params, copse_trainer_create(st, &p, &second), .loss = squares);
    REFUSED_IN(copse_optimizer_params, copse_trainer_params, optimizer.,
               copse_trainer_create(st, &p, &second), .loss = squares);
    REFUSED(copse_call_params, copse_call_configure(st, &p), .seed = 1);
    REFUSED(copse_tower_params, copse_tower_create(st, &p, &tower), .name = "a");
    REFUSED_IN(copse_optimizer_params, copse_tower_params, optimizer.,
               copse_tower_create(st, &p, &tower), .name = "a");
    REFUSED(copse_train_step_params, copse_train_step_create(st, &p, &made),
            .losses = lose_nothing);
    REFUSED_IN(copse_optimizer_params, copse_train_step_params, optimizer.,
               copse_train_step_create(st, &p, &made), .losses = lose_nothing);
    const float x[2] = { 1, 2 };
    REFUSED(copse_host_batch, copse_trainer_step(t, &p),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_host_batch, copse_trainer_feed(t, &p),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_host_batch, copse_trainer_advance(t, &p, 0, NULL),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_host_batch, copse_trainer_prepare(t, &p, NULL),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    const struct copse_host_batch alone = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }),
                                            .count = 1 };
    REFUSED(copse_prepare_params, copse_trainer_prepare(t, &alone, &p), .advances = true);
    REFUSED(copse_host_batch, copse_trainer_memory(t, 0, &p, 0, &planned),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 1 }, &batches));
    REFUSED(copse_early_stopping_params, copse_early_stopping_create(t, &p, &stopping),
            .patience = 1);
    REFUSED(copse_fit_params, copse_trainer_fit(t, batches, &p), .epochs = 1);
    REFUSED(copse_find_lr_params, copse_trainer_find_lr(t, batches, &p, &lr_range), .steps = 10);
    copse_loader_release(&batches);
    REFUSED(copse_audit_params, copse_trainer_audit(t, &p), .every = 0);
    REFUSED(copse_load_params, copse_trainer_load(t, "none", &p, NULL), .is_exact = false);
    REFUSED(copse_model_params, copse_model_create(st, copse_dataset_schema(labelled), &p, &model),
            .network = "dense out");
    OK(copse_model_create(st, copse_dataset_schema(labelled),
                          &(struct copse_model_params){ .network = "dense out" }, &model));
    REFUSED(copse_model_fit_params, copse_model_fit(model, labelled, &p), .epochs = 1);
    REFUSED(copse_model_load_params, copse_model_load(st, "none/none", &p, &loaded), .scope = NULL);
    REFUSED(copse_model_save_params, copse_model_save(model, "none/none", &p), .array_count = 0);
    REFUSED(copse_evaluation_params, copse_model_evaluate(model, labelled, &p, &evaluation),
            .worst_count = 0);
    REFUSED(copse_cells, copse_model_predict_cells(model, &p, NULL, predicted), .rows = 1);
    const struct copse_cells cells = { .rows = 1 };
    REFUSED(copse_predict_cells_params, copse_model_predict_cells(model, &cells, &p, predicted),
            .counts = NULL);
    REFUSED(copse_generate_params, copse_model_generate(model, NULL, 0, &p, take_nothing, NULL),
            .length = 1);
    /* refused before the model is used */
    REFUSED(copse_generate_params,
            copse_language_generate((copse_language *)(void *)&p, NULL, 0, &p, take_nothing, NULL),
            .length = 1);
    REFUSED(copse_merge_params,
            copse_language_save_merged((copse_language *)(void *)&p, "none", &p, NULL),
            .has_type = true);
    REFUSED(copse_adapter_params, copse_language_adapt((copse_language *)(void *)&p, &p),
            .rank = 1);
    REFUSED(copse_onnx_write_params, copse_onnx_write((copse_layer *)(void *)&p, "none", &p),
            .is_softmax = true);
    REFUSED(copse_onnx_make_params, copse_onnx_make((copse_onnx *)(void *)&p, st, &p),
            .scope = "net");
    REFUSED(copse_language_params, copse_language_open(st, "none", &p, &language),
            .weights = COPSE_WEIGHTS_F32);
    copse_model_release(&model);
    copse_dataset_release(&labelled);
    REFUSED(copse_host_batch,
            copse_trainer_predict(t, itself, NULL, &p, predicted, sizeof predicted),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_host_batch, copse_trainer_evaluate(t, &p, &result),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_host_batch, copse_train_step_run(ts, &p, &step_result),
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }), .count = 1);
    REFUSED(copse_state_params, copse_trainer_checkpoint(t, "/none/none", &p), .array_count = 0);
    REFUSED(copse_state_params, copse_replicated_checkpoint(st, "/none/none", &p),
            .array_count = 0);
    REFUSED(copse_cross_device_params, copse_cross_device_create(ctx, &p, &cross), .pack_bytes = 0);
    REFUSED(copse_cluster_params, copse_cluster_open(ctx, spec, &p, &cluster), .warn_ms = 0);
    REFUSED(copse_monitor_params, copse_monitor_create(step, &p, &monitor), .keep = 0);
    assert_int_equal(copse_trainer_steps(t), 0);
    copse_cluster_spec_release(&spec);
    copse_step_release(&step);
    copse_train_step_release(&ts);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void reserved_words_are_refused(void **state)
{
    (void)state;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    devices();
    user_ops();
    input();
    training();
    assert_true(rows > 50);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
}

/* ---- results ---- */

#define ZEROED(result)                                                                \
    for (size_t i = 0; i < sizeof(result).reserved / sizeof(result).reserved[0]; i++) \
    assert_true((result).reserved[i] == 0)

static copse_status keep_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)stop;
    *(struct copse_epoch *)user = *e;
    return COPSE_OK;
}

static void results_have_zeros(void **state)
{
    (void)state;
    copse_strategy *st;
    copse_variable *v;
    copse_trainer *t;
    copse_step *step;
    copse_monitor *monitor;
    copse_loader *batches;
    copse_input_plan *plan;
    const float six[6] = { 1, 2, 3, 4, 5, 6 };
    const struct copse_array_view table = { COPSE_F32, 2, { 3, 2 }, six };
    struct copse_memory_stats memory;
    struct copse_dataset_info info;
    struct copse_monitor_info done;
    struct copse_host_batch batch;
    struct copse_step_result result, evaluated;
    struct copse_epoch epoch;
    struct copse_replica_result part;
    struct copse_gradient_summary gradient;
    struct copse_input_reading reading;
    const struct copse_device_info *list;
    size_t count;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    copse_context_devices(ctx, &list, &count);
    ZEROED(list[0]);
    ZEROED(list[0].limits);
    memset(&memory, 0xa5, sizeof memory);
    copse_context_memory(ctx, &memory);
    ZEROED(memory);
    OK(copse_dataset_create(ctx, &table, NULL, NULL, &data));
    memset(&info, 0xa5, sizeof info);
    copse_dataset_describe(data, &info);
    ZEROED(info);
    OK(copse_input_plan_create(ctx, &(struct copse_input_plan_params){ .batch = 1, .rows = 3 },
                               &plan));
    memset(&reading, 0xa5, sizeof reading);
    OK(copse_input_plan_describe(plan, 0, &reading));
    ZEROED(reading);
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 3 }, &batches));
    memset(&batch, 0xa5, sizeof batch);
    OK(copse_loader_next(batches, &batch));
    ZEROED(batch);
    OK(copse_step_create(ctx, NULL, NULL, NULL, &step));
    OK(copse_monitor_create(step, NULL, &monitor));
    memset(&done, 0xa5, sizeof done);
    copse_monitor_describe(monitor, &done);
    ZEROED(done);
    OK(copse_mirrored_create(ctx, ids, 1, NULL, &st));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(2) }, &v));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = squares,
                                                            .user = copse_variable_tensor(v),
                                                            .summarize_gradients = true },
                            &t));
    memset(&evaluated, 0xa5, sizeof evaluated);
    OK(copse_trainer_evaluate(t, &batch, &evaluated));
    ZEROED(evaluated);
    OK(copse_trainer_fit(
        t, batches,
        &(struct copse_fit_params){
            .epochs = 1, .held_out = batches, .on_epoch = keep_epoch, .user = &epoch }));
    ZEROED(epoch);
    ZEROED(epoch.training);
    ZEROED(epoch.held_out);
    OK(copse_trainer_step(t, &batch));
    memset(&result, 0xa5, sizeof result);
    OK(copse_trainer_result(t, true, &result));
    ZEROED(result);
    memset(&part, 0xa5, sizeof part);
    OK(copse_trainer_replica_result(t, 0, &part));
    ZEROED(part);
    memset(&gradient, 0xa5, sizeof gradient);
    OK(copse_trainer_gradient(t, v, 0, &gradient));
    ZEROED(gradient);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    copse_monitor_release(&monitor);
    copse_step_release(&step);
    copse_loader_release(&batches);
    copse_input_plan_release(&plan);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_words_are_refused),
        cmocka_unit_test(results_have_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
