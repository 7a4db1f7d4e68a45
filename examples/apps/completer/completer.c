/* SPDX-License-Identifier: MIT */
/* Adapts a language model to the texts of a folder, and completes what a person begins to write.
   docs/completer.md */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/optim/schedule.h"
#include "copse/train/adapt.h"

#include "examples/apps/common/app_command.h"
#include "examples/apps/common/app_files.h"
#include "texts.h"

enum { LONGEST_PROMPT = 1 << 16 }; /* bytes of a line */

/* Largest part by which the loss of the saved adapter may differ from what was measured. */
static const double file_bound = 1e-4;

const char program_name[] = "completer";

static const char usage[] =
    "usage: completer MODEL FOLDER ADAPTER [--rank 8] [--epochs 3] [--window 256] [--rate 0.001]\n"
    "                 [--held-out 0.1] [--seed 1] [--prompt TEXT] [--length 40] [--temperature 0]\n"
    "                 [--device auto]\n"
    "       completer --complete MODEL [ADAPTER] [--prompt TEXT] [--length 40] [--temperature 0]\n"
    "                 [--seed 1] [--device auto]\n";

struct options {
    const char *device, *prompt;
    double rank, epochs, window, rate, held_out, seed, length, temperature;
};

struct session {
    copse_context *ctx;
    copse_strategy *st;
    copse_language *model;
    copse_dataset *training, *held_out;
    copse_loader *batches;
    copse_schedule *rates;
    copse_trainer *trainer;
};

struct training {
    const struct session *s;
    const char *adapter;
    uint64_t step;
    uint32_t saved;      /* epoch; 0: none */
    double before, best; /* held-out losses: without an adapter, of the saved one */
};

static bool open_session(struct session *s, const char *model, const struct options *o)
{
    return command_is_good(copse_context_create(NULL, &s->ctx)) &&
           command_is_good(copse_strategy_open(s->ctx, o->device, NULL, &s->st)) &&
           command_is_good(copse_language_open(s->st, model, NULL, &s->model));
}

static void close_session(struct session *s)
{
    copse_trainer_release(&s->trainer);
    copse_schedule_release(&s->rates);
    copse_loader_release(&s->batches);
    copse_dataset_release(&s->held_out);
    copse_dataset_release(&s->training);
    copse_language_release(&s->model);
    copse_strategy_release(&s->st);
    copse_context_release(&s->ctx);
}

/* ---- completing ---- */

static copse_status print_token(void *user, uint32_t token, const char *text, size_t size)
{
    (void)user;
    (void)token;
    fwrite(text, 1, size, stdout);
    return fflush(stdout) == 0 ? COPSE_OK : COPSE_ERR_IO;
}

/* Print a text and how the model goes on. */
static bool complete_text(copse_language *model, const char *label, const char *text,
                          const struct options *o)
{
    const struct copse_generate_params how = { .length = (uint64_t)o->length,
                                               .seed = (uint64_t)o->seed,
                                               .temperature = (float)o->temperature };
    printf("%s%s", label, text);
    const copse_status s =
        copse_language_generate(model, text, strlen(text), &how, print_token, NULL);
    printf("\n");
    if (s == COPSE_ERR_IO && ferror(stdout)) {
        fprintf(stderr, "completer: the output cannot be written\n");
        return false;
    }
    return command_is_good(s);
}

/* Complete each line of standard input. */
static bool complete_lines(copse_language *model, const struct options *o)
{
    static char line[LONGEST_PROMPT];
    bool is_done = true;
    while (is_done && fgets(line, sizeof line, stdin)) {
        const size_t length = strcspn(line, "\r\n");
        if (!line[length] && length + 1 == sizeof line) {
            fprintf(stderr, "completer: a line of standard input has more than %d bytes\n",
                    LONGEST_PROMPT - 2);
            return false;
        }
        line[length] = '\0';
        is_done = length == 0 || complete_text(model, "", line, o);
    }
    if (ferror(stdin))
        fprintf(stderr, "completer: standard input cannot be read\n");
    return is_done && !ferror(stdin);
}

static bool run_completion(const char *model, const char *adapter, const struct options *o)
{
    struct session s = { 0 };
    bool is_done = open_session(&s, model, o) &&
                   (!adapter || command_is_good(copse_language_load_adapter(s.model, adapter)));
    is_done = is_done &&
              (o->prompt ? complete_text(s.model, "", o->prompt, o) : complete_lines(s.model, o));
    close_session(&s);
    return is_done;
}

/* ---- training ---- */

/* The mean loss of a token of the held-out text. */
static bool judge_model(copse_language *model, const copse_dataset *held_out, double *loss)
{
    struct copse_language_evaluation e;
    const bool is_done = command_is_good(copse_language_evaluate_windows(model, held_out, &e));
    *loss = is_done ? e.loss : NAN;
    return is_done;
}

static bool make_windows(struct session *s, const struct texts *t, const struct options *o)
{
    struct copse_language_info info;
    if (!command_is_good(copse_language_describe(s->model, &info)))
        return false;
    const uint32_t window = (uint32_t)fmin(o->window, info.context);
    const struct copse_loader_params order = { .batch = 1, .seed = (uint64_t)o->seed };
    return command_is_good(copse_language_windows(s->model, t->training, t->training_size, window,
                                                  &s->training)) &&
           command_is_good(copse_language_windows(s->model, t->held_out, t->held_out_size, window,
                                                  &s->held_out)) &&
           command_is_good(copse_loader_create(s->training, &order, &s->batches));
}

static bool make_trainer(struct session *s, const struct options *o)
{
    const struct copse_adapter_params how = { .rank = (uint32_t)o->rank,
                                              .seed = (uint64_t)o->seed };
    const struct copse_schedule_params rates = { .text = "cosine",
                                                 .rate = (float)o->rate,
                                                 .steps = copse_loader_count(s->batches) *
                                                          (uint64_t)o->epochs };
    struct copse_adapter_info info;
    if (!command_is_good(copse_language_adapt(s->model, &how)) ||
        !command_is_good(copse_language_describe_adapter(s->model, &info)) ||
        !command_is_good(copse_schedule_create(s->ctx, &rates, &s->rates)))
        return false;
    const struct copse_trainer_params params = { .loss = copse_language_loss,
                                                 .user = s->model,
                                                 .seed = (uint64_t)o->seed,
                                                 .optimizer = { .kind = COPSE_ADAM,
                                                                .schedule = copse_schedule_rate,
                                                                .schedule_user = s->rates } };
    printf("adapter  rank %u: %llu parameters; %llu steps of one window\n", info.rank,
           (unsigned long long)info.parameters, (unsigned long long)rates.steps);
    return command_is_good(copse_trainer_create(s->st, &params, &s->trainer));
}

static copse_status note_batch(void *user, uint64_t trained, bool *stop)
{
    ((struct training *)user)->step = trained;
    *stop = command_signal() != 0;
    return COPSE_OK;
}

/* Save the adapter if the held-out loss is lower than before. */
static copse_status judge_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct training *t = user;
    struct copse_language_evaluation now;
    (void)stop;
    copse_status status = copse_language_evaluate_windows(t->s->model, t->s->held_out, &now);
    const bool is_best = !status && now.loss < t->best;
    if (is_best)
        status = copse_language_save_adapter(t->s->model, t->adapter);
    if (status)
        return status;
    printf("epoch %u: training loss %.4f, held-out perplexity %.3f%s\n", e->epoch, e->training.loss,
           exp(now.loss), is_best ? ", saved" : "");
    fflush(stdout);
    if (is_best) {
        t->best = now.loss;
        t->saved = e->epoch;
    }
    return COPSE_OK;
}

/* After a signal: an epoch that was saved stays; else save the values of the newest step. */
static bool save_early(const struct training *t)
{
    if (t->saved > 0) {
        fprintf(stderr, "completer: signal %d: %s has the values of epoch %u\n", command_signal(),
                t->adapter, t->saved);
        return true;
    }
    if (!command_is_good(copse_language_save_adapter(t->s->model, t->adapter)))
        return false;
    fprintf(stderr, "completer: signal %d: %s has the values of step %llu\n", command_signal(),
            t->adapter, (unsigned long long)t->step);
    return true;
}

/* Open the model with the adapter's file, as --complete does, and print what it gains. */
static bool report_gain(const struct training *t, const char *model, const struct options *o)
{
    struct session again = { 0 };
    double after;
    bool is_done = open_session(&again, model, o) &&
                   command_is_good(copse_language_load_adapter(again.model, t->adapter)) &&
                   judge_model(again.model, t->s->held_out, &after);
    if (is_done && !(fabs(after - t->best) <= file_bound * fabs(t->best))) {
        fprintf(stderr, "completer: %s: its held-out loss is %.6g, in the training it was %.6g\n",
                t->adapter, after, t->best);
        is_done = false;
    }
    if (is_done)
        printf("held-out perplexity: %.3f without the adapter, %.3f with it\n", exp(t->before),
               exp(after));
    is_done = is_done && (!o->prompt || complete_text(again.model, "with:    ", o->prompt, o));
    close_session(&again);
    return is_done;
}

static bool train_adapter(struct session *s, const char *model, const char *adapter,
                          const struct options *o)
{
    struct training t = { .s = s, .adapter = adapter };
    const struct copse_fit_params how = {
        .epochs = (uint32_t)o->epochs, .on_epoch = judge_epoch, .on_batch = note_batch, .user = &t
    };
    if (!judge_model(s->model, s->held_out, &t.before))
        return false;
    t.best = t.before;
    printf("held-out perplexity %.3f without an adapter\n", exp(t.before));
    if (o->prompt && !complete_text(s->model, "without: ", o->prompt, o))
        return false;
    if (!make_trainer(s, o))
        return false;
    command_catch_signals();
    fflush(stdout);
    if (!command_is_good(copse_trainer_fit(s->trainer, s->batches, &how)))
        return false;
    if (command_signal())
        return save_early(&t);
    if (t.saved > 0)
        return report_gain(&t, model, o);
    fprintf(stderr,
            "completer: no epoch has lowered the held-out perplexity: %s is not written; try a "
            "lower --rate or more texts\n",
            adapter);
    return false;
}

/* Whether an adapter can be written: a file NAME.safetensors or NAME.gguf, else a folder. */
static bool check_form(const char *adapter)
{
    const bool is_file =
        files_has_ending(adapter, ".safetensors") || files_has_ending(adapter, ".gguf");
    if (!files_is_writable(adapter, !is_file))
        return false;
    if (!is_file && files_exist(adapter) && !files_is_folder(adapter))
        return files_refuse(adapter, "is a file; name a folder, NAME.safetensors or NAME.gguf");
    if (!is_file)
        printf("adapter  %s is saved as a folder\n", adapter);
    return true;
}

static bool run_training(const char *model, const char *folder, const char *adapter,
                         const struct options *o)
{
    struct session s = { 0 };
    struct texts t = { 0 };
    bool is_done = check_form(adapter) && open_session(&s, model, o) &&
                   texts_read(s.ctx, folder, o->held_out, &t);
    if (is_done)
        printf("texts    %zu files, %zu bytes; %zu bytes are held out\n", t.files,
               t.training_size + t.held_out_size, t.held_out_size);
    is_done = is_done && make_windows(&s, &t, o) && train_adapter(&s, model, adapter, o);
    close_session(&s);
    texts_free(&t);
    return is_done;
}

/* ---- arguments ---- */

enum { TRAIN, COMPLETE, MODES };
enum { IN_TRAIN = 1 << TRAIN, IN_BOTH = IN_TRAIN | 1 << COMPLETE };

/* Whether the adapter takes the place of nothing that is read. */
static bool check_places(char **places)
{
    for (int i = 0; i < 2; i++)
        if (files_has(places[i], places[2])) {
            fprintf(stderr, "completer: %s: is %s or in it; give the adapter another place\n",
                    places[2], places[i]);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = { .rank = 8,
                         .epochs = 3,
                         .window = 256,
                         .rate = 0.001,
                         .held_out = 0.1,
                         .seed = 1,
                         .length = 40 };
    const struct command_option options[] = {
        { "--rank", IN_TRAIN, NULL, &o.rank, 1, 1024, true },
        { "--epochs", IN_TRAIN, NULL, &o.epochs, 1, 10000, true },
        { "--window", IN_TRAIN, NULL, &o.window, 2, 16384, true },
        { "--rate", IN_TRAIN, NULL, &o.rate, 1e-7, 1, false },
        { "--held-out", IN_TRAIN, NULL, &o.held_out, 0.01, 0.5, false },
        { "--seed", IN_BOTH, NULL, &o.seed, 0, 1e9, true },
        { "--length", IN_BOTH, NULL, &o.length, 1, 10000, true },
        { "--temperature", IN_BOTH, NULL, &o.temperature, 0, 100, false },
        { "--prompt", IN_BOTH, &o.prompt, NULL, 0, 0, false },
        { "--device", IN_BOTH, &o.device, NULL, 0, 0, false },
    };
    static const struct command_mode modes[MODES] = { { "the training", 3, 3 },
                                                      { "--complete", 1, 2 } };
    const struct command c = { usage, modes, MODES, options, sizeof options / sizeof options[0] };
    struct command_line line;
    const int code = command_read(&c, argc, argv, &line);
    if (code != COMMAND_GOES_ON)
        return code;
    char **places = line.files;
    if (line.mode == COMPLETE)
        return !run_completion(places[0], line.count > 1 ? places[1] : NULL, &o);
    if (!check_places(places))
        return 2;
    const bool is_done = run_training(places[0], places[1], places[2], &o);
    return command_signal() && is_done ? 128 + command_signal() : !is_done;
}
