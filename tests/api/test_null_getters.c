/* SPDX-License-Identifier: MIT */
/* The rule for NULL (copse/status.h), for functions without a status: getters of a NULL handle
   return 0, false, NULL, an empty text or the "none" of an index, and clear their results; release
   functions do nothing. tests/tree/null_rows.cmake finds functions without a row. */
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "copse/data/pictures.h"
#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "copse/device/conformance_job.h"
#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/device/tuning.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/call.h"
#include "copse/distribute/cluster.h"
#include "copse/distribute/input.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/loop/early_stopping.h"
#include "copse/loop/event_file.h"
#include "copse/loop/feed.h"
#include "copse/loop/monitor.h"
#include "copse/nn/onnx.h"
#include "copse/ops/user_op.h"
#include "copse/optim/groups.h"
#include "copse/optim/schedule.h"
#include "copse/train/audit.h"
#include "copse/train/average.h"
#include "copse/train/evaluate.h"
#include "copse/train/fine_tune.h"
#include "copse/train/language.h"
#include "copse/train/model_file.h"

#include "tests/rig/null_rig.h"

#define RESULT_ROW(is_right, what, fn, ...) \
    while (next_call(p, #fn, #__VA_ARGS__)) \
        if (!(is_right))                    \
    complain(p, what, "")
#define ZERO(fn, ...)  RESULT_ROW(fn(__VA_ARGS__) == 0, "the result is not 0", fn, __VA_ARGS__)
#define FALSE(fn, ...) RESULT_ROW(!fn(__VA_ARGS__), "the result is not false", fn, __VA_ARGS__)
#define NOTHING(fn, ...) \
    RESULT_ROW(fn(__VA_ARGS__) == NULL, "the result is not NULL", fn, __VA_ARGS__)
#define NONE(fn, ...) \
    RESULT_ROW(fn(__VA_ARGS__) == UINT32_MAX, "the result is not UINT32_MAX", fn, __VA_ARGS__)
#define NONE_STARTED(fn, ...) \
    RESULT_ROW(fn(__VA_ARGS__) == -1, "the result is not -1", fn, __VA_ARGS__)
#define TEXT(fn, ...) \
    RESULT_ROW(fn(__VA_ARGS__)[0] == '\0', "the text is not empty", fn, __VA_ARGS__)
#define SCALAR(fn, ...)       RESULT_ROW(fn(__VA_ARGS__).rank == 0, "the shape has axes", fn, __VA_ARGS__)
#define DOES_NOTHING(fn, ...) RESULT_ROW((fn(__VA_ARGS__), true), "", fn, __VA_ARGS__)
/* NULL, and the address of NULL. */
#define RELEASE(fn, type)   \
    DOES_NOTHING(fn, NULL); \
    DOES_NOTHING(fn, &(type *){ NULL })
#define RETAIN(fn) NOTHING(fn, NULL)

static void jobs_and_devices(struct probe *p)
{
    char state[COPSE_SCHEDULE_STATE];
    RELEASE(copse_schedule_release, copse_schedule);
    ZERO(copse_schedule_rate, NULL, 1);
    DOES_NOTHING(copse_schedule_state, NULL, state);
    DOES_NOTHING(copse_schedule_state, NULL, NULL);
    RETAIN(copse_context_retain);
    RELEASE(copse_context_release, copse_context);
    DOES_NOTHING(copse_context_memory, NULL, NULL);
    DOES_NOTHING(copse_context_devices, NULL, NULL, NULL);
    DOES_NOTHING(copse_context_backends, NULL, NULL, NULL);
    RETAIN(copse_device_retain);
    RELEASE(copse_device_release, copse_device);
    NOTHING(copse_device_describe, NULL);
    ZERO(copse_device_priority, NULL);
    RETAIN(copse_buffer_retain);
    RELEASE(copse_buffer_release, copse_buffer);
    ZERO(copse_buffer_size, NULL);
    RETAIN(copse_queue_retain);
    RELEASE(copse_queue_release, copse_queue);
    ZERO(copse_queue_submissions, NULL);
    RELEASE(copse_function_release, copse_function);
    NOTHING(copse_function_queue, NULL);
    RELEASE(copse_graph_release, copse_graph);
    NOTHING(copse_batch_column, NULL, NULL);
    FALSE(copse_kernel_variant_at, 0, NULL);
    RELEASE(copse_conformance_job_release, copse_conformance_job);
    DOES_NOTHING(copse_conformance_job_progress, NULL, NULL);
    DOES_NOTHING(copse_conformance_cancel, NULL);
    NOTHING(copse_conformance_job_results, NULL);
    NONE_STARTED(copse_conformance_helper, 0, NULL, NULL);
    RELEASE(copse_conformance_results_release, copse_conformance_results);
    ZERO(copse_conformance_case_count, NULL);
    NOTHING(copse_conformance_case, NULL, 0);
    ZERO(copse_conformance_device_count, NULL);
    FALSE(copse_conformance_device, NULL, 0, NULL);
    DOES_NOTHING(copse_conformance_results_summary, NULL, NULL);
    TEXT(copse_conformance_library, NULL);
    TEXT(copse_conformance_modes, NULL);
    ZERO(copse_case_share, NULL);
    SCALAR(copse_tensor_shape, NULL);
    ZERO(copse_tensor_type, NULL);
    RELEASE(copse_cluster_spec_release, copse_cluster_spec);
    ZERO(copse_cluster_spec_role, NULL);
    ZERO(copse_cluster_spec_index, NULL);
    FALSE(copse_cluster_spec_is_launched, NULL);
    ZERO(copse_cluster_spec_tasks, NULL, COPSE_ROLE_WORKER);
    NOTHING(copse_cluster_spec_address, NULL, COPSE_ROLE_WORKER, 0);
    FALSE(copse_cluster_spec_is_chief, NULL);
    RETAIN(copse_cluster_retain);
    RELEASE(copse_cluster_release, copse_cluster);
    ZERO(copse_cluster_rank, NULL);
    ZERO(copse_cluster_size, NULL);
    ZERO(copse_cluster_servers, NULL);
    TEXT(copse_cluster_engine, NULL);
    DOES_NOTHING(copse_cluster_one_sided, NULL, NULL);
    FALSE(copse_cluster_is_chief, NULL);
    FALSE(copse_cluster_is_lost, NULL, 0);
    ZERO(copse_cluster_lost, NULL);
    FALSE(copse_cluster_can_regroup, NULL);
    DOES_NOTHING(copse_cluster_end_job, NULL, COPSE_OK, NULL, 0);
}

static void data(struct probe *p)
{
    RETAIN(copse_array_retain);
    RELEASE(copse_array_release, copse_array);
    NOTHING(copse_array_view, NULL);
    RETAIN(copse_checkpoint_retain);
    RELEASE(copse_checkpoint_release, copse_checkpoint);
    NOTHING(copse_checkpoint_arrays, NULL, NULL);
    NOTHING(copse_checkpoint_metadata, NULL, NULL);
    NOTHING(copse_checkpoint_find, NULL, NULL);
    RETAIN(copse_gguf_retain);
    RELEASE(copse_gguf_release, copse_gguf);
    NOTHING(copse_gguf_keys, NULL, NULL);
    NOTHING(copse_gguf_tensors, NULL, NULL);
    NOTHING(copse_gguf_find, NULL, NULL);
    RELEASE(copse_language_release, copse_language);
    RETAIN(copse_onnx_retain);
    RELEASE(copse_onnx_release, copse_onnx);
    NOTHING(copse_onnx_inputs, NULL, NULL);
    NOTHING(copse_onnx_outputs, NULL, NULL);
    NOTHING(copse_onnx_weights, NULL, NULL);
    NOTHING(copse_onnx_ops, NULL, NULL);
    NOTHING(copse_onnx_refusals, NULL, NULL);
    NOTHING(copse_onnx_variables, NULL, NULL);
    NOTHING(copse_language_token, NULL, 0, NULL);
    RETAIN(copse_dataset_retain);
    RELEASE(copse_dataset_release, copse_dataset);
    DOES_NOTHING(copse_dataset_describe, NULL, NULL);
    NOTHING(copse_dataset_schema, NULL);
    NOTHING(copse_dataset_file, NULL, 0);
    RETAIN(copse_schema_retain);
    RELEASE(copse_schema_release, copse_schema);
    NOTHING(copse_schema_class, NULL, 0);
    ZERO(copse_text_token, NULL, 0, NULL);
    NOTHING(copse_schema_text, NULL);
    RELEASE(copse_loader_release, copse_loader);
    ZERO(copse_loader_count, NULL);
    DOES_NOTHING(copse_loader_position, NULL, NULL, NULL);
    RETAIN(copse_input_plan_retain);
    RELEASE(copse_input_plan_release, copse_input_plan);
    NOTHING(copse_input_plan_file, NULL, 0, 0, NULL);
    ZERO(copse_input_plan_write, NULL, COPSE_INPUT_PLAN_TEXT, 1, NULL, 0);
    RELEASE(copse_distributed_release, copse_distributed);
    ZERO(copse_distributed_replicas, NULL);
    ZERO(copse_distributed_steps, NULL);
    NOTHING(copse_distributed_data, NULL);
    NOTHING(copse_distributed_plan, NULL);
    DOES_NOTHING(copse_distributed_position, NULL, NULL, NULL);
}

static void values(struct probe *p)
{
    RETAIN(copse_cross_device_retain);
    RELEASE(copse_cross_device_release, copse_cross_device);
    DOES_NOTHING(copse_cross_device_name, NULL); /* NULL: the defaults */
    RETAIN(copse_value_retain);
    RELEASE(copse_value_release, copse_value);
    ZERO(copse_value_kind_of, NULL);
    ZERO(copse_value_type, NULL);
    SCALAR(copse_value_shape, NULL);
    NONE(copse_value_rank, NULL);
    ZERO(copse_value_count, NULL);
    NOTHING(copse_value_item, NULL, 0);
    NOTHING(copse_value_name, NULL, 0);
    NOTHING(copse_value_find, NULL, NULL);
    NOTHING(copse_value_pointer, NULL);
    NOTHING(copse_value_variable, NULL);
    DOES_NOTHING(copse_local_results, NULL, NULL, 0, NULL);
    NOTHING(copse_value_container, NULL);
    RELEASE(copse_partitioned_release, copse_partitioned);
    DOES_NOTHING(copse_partitioned_parts, NULL, NULL, NULL);
    SCALAR(copse_partitioned_shape, NULL);
    DOES_NOTHING(copse_partition_rows, 4, 2, 0, NULL);
    NONE(copse_replica_id, NULL);
    ZERO(copse_replica_count, NULL);
    NOTHING(copse_replica_strategy, NULL);
    TEXT(copse_replica_device, NULL);
}

static void training(struct probe *p)
{
    RETAIN(copse_layer_retain);
    RELEASE(copse_layer_release, copse_layer);
    ZERO(copse_layer_parameters, NULL);
    ZERO(copse_layer_is_shared, NULL);
    RETAIN(copse_model_retain);
    RELEASE(copse_model_release, copse_model);
    NOTHING(copse_model_schema, NULL);
    NOTHING(copse_model_layer, NULL);
    NOTHING(copse_model_strategy, NULL);
    NOTHING(copse_model_metadata, NULL, NULL);
    NOTHING(copse_model_head, NULL, NULL);
    NOTHING(copse_model_variables, NULL, NULL);
    FALSE(copse_parameter_groups_freezes, NULL, NULL);
    RETAIN(copse_strategy_retain);
    RELEASE(copse_strategy_release, copse_strategy);
    ZERO(copse_strategy_kind_of, NULL);
    TEXT(copse_strategy_name, NULL);
    ZERO(copse_strategy_replicas, NULL);
    ZERO(copse_strategy_replicas_in_sync, NULL);
    ZERO(copse_strategy_first_rank, NULL);
    NOTHING(copse_strategy_device, NULL, 0);
    ZERO(copse_strategy_submissions, NULL);
    ZERO(copse_call_recorded, NULL);
    TEXT(copse_strategy_transfer, NULL);
    NOTHING(copse_variable_tensor, NULL);
    TEXT(copse_variable_name, NULL);
    SCALAR(copse_variable_shape, NULL);
    ZERO(copse_variable_type, NULL);
    ZERO(copse_variable_synchronization, NULL);
    ZERO(copse_variable_aggregation, NULL);
    FALSE(copse_variable_is_trained, NULL);
    DOES_NOTHING(copse_variable_component_name, NULL, 0, NULL, 0);
    DOES_NOTHING(copse_variable_component_name, NULL, 0, NULL, 8);
    DOES_NOTHING(copse_strategy_variables, NULL, NULL, NULL);
    ZERO(copse_parameter_servers, NULL);
    NOTHING(copse_parameter_device, NULL);
    NONE(copse_variable_server, NULL);
    ZERO(copse_accelerator_steps_per_run, NULL);
    NONE(copse_accelerator_core, NULL, 0);
    FALSE(copse_accelerator_is_resident, NULL);
    ZERO(copse_trainer_fed, NULL);
    DOES_NOTHING(copse_trainer_unfeed, NULL);
    RELEASE(copse_trainer_release, copse_trainer);
    ZERO(copse_trainer_accumulated, NULL);
    DOES_NOTHING(copse_trainer_cancel, NULL);
    ZERO(copse_trainer_steps, NULL);
    FALSE(copse_trainer_is_averaged, NULL);
    ZERO(copse_trainer_audits, NULL);
    ZERO(copse_trainer_cross_checked, NULL);
    NOTHING(copse_trainer_strategy, NULL);
    RELEASE(copse_train_step_release, copse_train_step);
    NOTHING(copse_train_step_trainer, NULL);
    ZERO(copse_global_step, NULL);
    DOES_NOTHING(copse_global_step_set, NULL, 1);
    RELEASE(copse_tower_release, copse_tower_optimizer);
    FALSE(copse_tower_is_used, NULL);
    ZERO(copse_tower_steps, NULL);
    FALSE(copse_tower_loss_scale, NULL);
    FALSE(copse_tower_is_skipped, NULL);
    ZERO(copse_tower_slot_count, NULL);
    RELEASE(copse_outputs_release, copse_outputs);
    RETAIN(copse_step_retain);
    RELEASE(copse_step_release, copse_step);
    NOTHING(copse_step_strategy, NULL);
    NOTHING(copse_step_trainer, NULL);
    RELEASE(copse_early_stopping_release, copse_early_stopping);
    DOES_NOTHING(copse_early_stopping_describe, NULL, NULL);
    RELEASE(copse_monitor_release, copse_monitor);
    TEXT(copse_event_file_path, NULL);
    DOES_NOTHING(copse_monitor_describe, NULL, NULL);
    ZERO(copse_host_load, NULL, 0);
    DOES_NOTHING(copse_host_store, NULL, 0, 1.0);
    NOTHING(copse_user_op_kernel, NULL);
}

static void all_rows(struct probe *p)
{
    jobs_and_devices(p);
    data(p);
    values(p);
    training(p);
}

static void null_handles_are_accepted(void **state)
{
    int calls;
    (void)state;
    const int wrong = run_rows(all_rows, &calls);
    printf("%d calls\n", calls);
    if (wrong)
        fail_msg("%d of %d calls with NULL are not answered as they should be", wrong, calls);
}

/* Results of a NULL handle. */
#define CLEARED(type, call)                                  \
    do {                                                     \
        type got, none;                                      \
        memset(&got, 0x55, sizeof got);                      \
        memset(&none, 0, sizeof none);                       \
        call;                                                \
        if (memcmp(&got, &none, sizeof got) != 0)            \
            fail_msg("%s does not clear its result", #call); \
    } while (0)

static void results_are_cleared(void **state)
{
    copse_variable *const *list = (void *)state;
    const struct copse_device_info *devices = (void *)state;
    const struct copse_backend_info *backends = (void *)state;
    copse_value *results[1] = { (void *)state };
    char text[8] = "old";
    size_t index = 7;
    uint32_t epoch = 7;
    uint64_t step = 7;
    CLEARED(struct copse_memory_stats, copse_context_memory(NULL, &got));
    CLEARED(struct copse_dataset_info, copse_dataset_describe(NULL, &got));
    CLEARED(struct copse_early_stopping_info, copse_early_stopping_describe(NULL, &got));
    CLEARED(struct copse_monitor_info, copse_monitor_describe(NULL, &got));
    CLEARED(size_t, copse_checkpoint_arrays(NULL, &got));
    CLEARED(size_t, copse_checkpoint_metadata(NULL, &got));
    CLEARED(size_t, copse_gguf_keys(NULL, &got));
    CLEARED(size_t, copse_gguf_tensors(NULL, &got));
    CLEARED(size_t, copse_language_token(NULL, 0, &got));
    CLEARED(size_t, copse_context_devices(NULL, &devices, &got));
    CLEARED(size_t, copse_context_backends(NULL, &backends, &got));
    CLEARED(size_t, copse_partitioned_parts(NULL, &list, &got));
    assert_null(list);
    list = (void *)state;
    CLEARED(size_t, copse_strategy_variables(NULL, &list, &got));
    CLEARED(size_t, copse_local_results(NULL, results, 1, &got));
    assert_null(list);
    assert_null(devices);
    assert_null(backends);
    copse_loader_position(NULL, &epoch, &index);
    assert_int_equal(epoch, 0);
    assert_int_equal(index, 0);
    epoch = 7;
    copse_distributed_position(NULL, &epoch, &step);
    assert_int_equal(epoch, 0);
    assert_int_equal(step, 0);
    copse_variable_component_name(NULL, 0, text, sizeof text);
    assert_string_equal(text, "");
    struct copse_one_sided_info access;
    memset(&access, 0x55, sizeof access);
    copse_cluster_one_sided(NULL, &access);
    assert_false(access.is_used);
    assert_string_equal(access.why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_handles_are_accepted),
        cmocka_unit_test(results_are_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
