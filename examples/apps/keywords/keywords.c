/* SPDX-License-Identifier: MIT */
/* Trains a network of an ONNX file on with recordings of words, and tells which word a recording
   is.
   docs/keywords.md */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/nn/onnx.h"
#include "copse/optim/schedule.h"

#include "examples/apps/common/app_command.h"
#include "examples/apps/common/app_files.h"
#include "recordings.h"
#include "spectrum.h"

const char program_name[] = "keywords";

/* Largest difference of a probability between the network and its file. */
static const double file_bound = 1e-4;

/* An axis of the words follows. */
static const char network[] = "conv 16 3x3 relu; max_pool 2;"
                              " conv 32 3x3 relu; max_pool 2;"
                              " conv 32 3x3 relu; global_pool;";

static const char usage[] =
    "usage: keywords --new NET.onnx FOLDER [--seed 1]\n"
    "       keywords NET.onnx FOLDER OUT.onnx [--trained PATTERNS] [--epochs 20] [--batch 16]\n"
    "                [--rate 0.003] [--held-out 0.2] [--seed 1] [--device auto]\n"
    "       keywords --listen NET.onnx FILE.wav ... [--device auto]\n"
    "       keywords --make FOLDER [--count 40] [--noise 0.1] [--seed 1]\n";

enum mode { TRAIN, NEW, LISTEN, MAKE, MODES };
static const struct command_mode modes[MODES] = {
    { "the training", 3, 3 }, { "--new", 2, 2 }, { "--listen", 2, SIZE_MAX }, { "--make", 1, 1 }
};

struct options {
    const char *device, *trained;
    double epochs, batch, rate, held_out, seed, count, noise;
};

struct session {
    copse_context *ctx;
    copse_strategy *st;
    copse_onnx *net;
    copse_dataset *training, *held_out;
    copse_loader *batches, *judges;
    copse_schedule *rates;
    copse_trainer *trainer;
};

static bool open_session(struct session *s, const char *path, const struct options *o)
{
    const struct copse_onnx_make_params how = { .trained = o->trained };
    return command_is_good(copse_context_create(NULL, &s->ctx)) &&
           command_is_good(copse_strategy_open(s->ctx, o->device, NULL, &s->st)) &&
           command_is_good(copse_onnx_open(s->ctx, path, &s->net)) &&
           command_is_good(copse_onnx_make(s->net, s->st, &how));
}

static void close_session(struct session *s)
{
    copse_trainer_release(&s->trainer);
    copse_schedule_release(&s->rates);
    copse_loader_release(&s->batches);
    copse_loader_release(&s->judges);
    copse_dataset_release(&s->training);
    copse_dataset_release(&s->held_out);
    copse_onnx_release(&s->net);
    copse_strategy_release(&s->st);
    copse_context_release(&s->ctx);
}

/* ---- what a network says ---- */

/* The probabilities [rows][words] of recordings; NULL: a line on stderr. A network without a list
   of words may have any number of outputs. */
static copse_array *apply_network(struct session *s, const char *path, const copse_dataset *data,
                                  const struct words *w)
{
    copse_array *result = NULL;
    if (!command_is_good(copse_onnx_predict(s->net, data, &result)))
        return NULL;
    const struct copse_array_view *v = copse_array_view(result);
    if (v->type == COPSE_F32 && v->rank == 2 && (w->count == 0 || v->shape[1] == w->count))
        return result;
    if (v->type == COPSE_F32 && v->rank == 2)
        fprintf(stderr, "keywords: %s: has %zu outputs for %zu words\n", path, v->shape[1],
                w->count);
    else
        files_refuse(path, "its output is no list of numbers");
    copse_array_release(&result);
    return NULL;
}

static size_t find_largest(const float *x, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* How many recordings of each word there are, and how many of them are found. */
struct score {
    size_t right, total, found[MOST_WORDS], of[MOST_WORDS];
};

static bool score_words(const copse_array *probabilities, const copse_dataset *data,
                        struct score *out)
{
    const struct copse_array_view *v = copse_array_view(probabilities);
    const float *p = v->data;
    int32_t *classes = malloc(v->shape[0] * sizeof *classes);
    bool is_done = classes || files_no_memory();
    is_done =
        is_done && command_is_good(copse_dataset_gather(data, "y", NULL, v->shape[0], classes));
    *out = (struct score){ .total = v->shape[0] };
    for (size_t i = 0; is_done && i < v->shape[0]; i++) {
        const bool is_right = find_largest(p + i * v->shape[1], v->shape[1]) == (size_t)classes[i];
        out->of[classes[i]]++;
        out->found[classes[i]] += is_right;
        out->right += is_right;
    }
    free(classes);
    return is_done;
}

/* ---- training ---- */

static bool split_recordings(struct session *s, const struct recordings *r, const struct words *w,
                             const struct options *o)
{
    const struct copse_array_view x = { COPSE_F32, 3, { r->count, FRAMES, BANDS }, r->spectra };
    const struct copse_array_view y = { COPSE_I32, 1, { r->count }, r->classes };
    const struct copse_dataset_params how = { .classes = (uint32_t)w->count,
                                              .scale = COPSE_SCALE_NONE,
                                              .task = COPSE_TASK_CLASSIFICATION };
    const struct copse_split_params cut = { .train_fraction = 1 - o->held_out,
                                            .seed = (uint64_t)o->seed,
                                            .stratify = true };
    struct copse_dataset_info info;
    copse_dataset *all = NULL;
    bool is_done = command_is_good(copse_dataset_create(s->ctx, &x, &y, &how, &all)) &&
                   command_is_good(copse_dataset_split(all, &cut, &s->training, &s->held_out));
    copse_dataset_release(&all);
    if (!is_done)
        return false;
    copse_dataset_describe(s->training, &info);
    const struct copse_loader_params order = { .batch = (size_t)fmin(o->batch, (double)info.rows),
                                               .seed = (uint64_t)o->seed };
    copse_dataset_describe(s->held_out, &info);
    const struct copse_loader_params rest = { .batch = (size_t)fmin(o->batch, (double)info.rows),
                                              .no_shuffle = true };
    return command_is_good(copse_loader_create(s->training, &order, &s->batches)) &&
           command_is_good(copse_loader_create(s->held_out, &rest, &s->judges));
}

/* The mean loss of the held-out recordings. */
static bool judge_network(struct session *s, double *loss)
{
    struct copse_host_batch batch;
    struct copse_step_result r;
    size_t count = 0;
    *loss = 0;
    if (!command_is_good(copse_loader_start(s->judges, 0, 0)))
        return false;
    copse_status status;
    while (!(status = copse_loader_next(s->judges, &batch))) {
        if (!command_is_good(copse_trainer_evaluate(s->trainer, &batch, &r)))
            return false;
        *loss += r.loss * (double)batch.count;
        count += batch.count;
    }
    if (status != COPSE_ERR_END)
        return command_is_good(status);
    *loss /= (double)count;
    return true;
}

/* What a training came to. */
struct progress {
    uint64_t step;
    uint32_t epoch;      /* with the lowest held-out loss; 0: none is complete */
    double before, best; /* held-out losses */
};

static copse_status note_batch(void *user, uint64_t trained, bool *stop)
{
    ((struct progress *)user)->step = trained;
    *stop = command_signal() != 0;
    return COPSE_OK;
}

static copse_status note_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct progress *p = user;
    double accuracy = 0;
    (void)stop;
    if (e->best_epoch == e->epoch)
        p->best = e->held_out.loss;
    p->epoch = e->best_epoch;
    const copse_status s = copse_step_report(&e->held_out, "accuracy", &accuracy);
    if (s == COPSE_OK)
        printf("epoch %u: loss %.4f, held-out loss %.4f, accuracy %.1f %%\n", e->epoch,
               e->training.loss, e->held_out.loss, 100 * accuracy);
    fflush(stdout);
    return s;
}

static bool train_network(struct session *s, const struct options *o, struct progress *p)
{
    const struct copse_schedule_params rates = { .text = "one_cycle 0.1 10 100",
                                                 .rate = (float)o->rate,
                                                 .steps = copse_loader_count(s->batches) *
                                                          (uint64_t)o->epochs };
    const struct copse_fit_params how = { .epochs = (uint32_t)o->epochs,
                                          .held_out = s->judges,
                                          .on_epoch = note_epoch,
                                          .on_batch = note_batch,
                                          .user = p };
    if (!command_is_good(copse_schedule_create(s->ctx, &rates, &s->rates)))
        return false;
    const struct copse_trainer_params params = { .loss = copse_onnx_loss,
                                                 .user = s->net,
                                                 .optimizer = { .kind = COPSE_ADAM,
                                                                .schedule = copse_schedule_rate,
                                                                .schedule_user = s->rates } };
    if (!command_is_good(copse_trainer_create(s->st, &params, &s->trainer)) ||
        !judge_network(s, &p->before))
        return false;
    command_catch_signals();
    fflush(stdout);
    return command_is_good(copse_trainer_fit(s->trainer, s->batches, &how));
}

static double largest_difference(const copse_array *a, const copse_array *b)
{
    const struct copse_array_view *v = copse_array_view(a);
    const float *x = v->data, *y = copse_array_view(b)->data;
    double most = 0;
    for (size_t i = 0; i < v->shape[0] * v->shape[1]; i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        if (d > most || isnan(d)) /* NaN stays */
            most = d;
    }
    return most;
}

/* Open the file that was written, and print how well it finds the held-out words. */
static bool report_gain(struct session *s, const char *out, const struct words *w,
                        const struct score *before, const struct options *o)
{
    struct session again = { 0 };
    struct options plain = *o;
    struct score after;
    plain.trained = NULL;
    copse_array *here = apply_network(s, out, s->held_out, w);
    copse_array *there = here && open_session(&again, out, &plain)
                             ? apply_network(&again, out, s->held_out, w)
                             : NULL;
    bool is_done = there && score_words(there, s->held_out, &after);
    const double most = is_done ? largest_difference(here, there) : 0;
    for (size_t i = 0; is_done && i < w->count; i++)
        printf("%-16s %zu of %zu, before %zu\n", w->at[i], after.found[i], after.of[i],
               before->found[i]);
    if (is_done)
        printf("held-out recordings: %zu of %zu right, before %zu; largest difference of the file "
               "%.2g\n",
               after.right, after.total, before->right, most);
    if (is_done && !(most <= file_bound)) {
        fprintf(stderr, "keywords: %s: a probability differs from the network by %.2g\n", out,
                most);
        is_done = false;
    }
    copse_array_release(&here);
    copse_array_release(&there);
    close_session(&again);
    return is_done;
}

/* Whether each word with recordings has some on both sides. */
static bool check_split(const char *folder, const struct recordings *r, const struct words *w,
                        const struct score *held_out, const struct options *o)
{
    size_t of[MOST_WORDS] = { 0 };
    for (size_t i = 0; i < r->count; i++)
        of[r->classes[i]]++;
    for (size_t i = 0; i < w->count; i++) {
        const bool is_cut = held_out->of[i] > 0 && held_out->of[i] < of[i];
        const double least = fmax(ceil(1 / fmin(o->held_out, 1 - o->held_out)), (double)of[i] + 1);
        if (of[i] == 0 || is_cut)
            continue;
        fprintf(stderr,
                "keywords: %s: %s: %zu of %zu recordings are held out; at least %g are needed, to "
                "learn some and hold out others\n",
                folder, w->at[i], held_out->of[i], of[i], least);
        return false;
    }
    return true;
}

/* Whether the network is saved: it is better than before, or a signal came in the first epoch. */
static bool check_gain(const struct progress *p, const char *out)
{
    if ((command_signal() && p->epoch == 0) || p->best < p->before)
        return true;
    fprintf(stderr,
            "keywords: no epoch has lowered the held-out loss of %.4f: %s is not written; try a "
            "lower --rate or more recordings\n",
            p->before, out);
    return false;
}

static void report_signal(const struct progress *p, const char *out)
{
    if (command_signal() && p->epoch > 0)
        fprintf(stderr, "keywords: signal %d: %s has the values of epoch %u\n", command_signal(),
                out, p->epoch);
    else if (command_signal())
        fprintf(stderr, "keywords: signal %d: %s has the values of step %llu\n", command_signal(),
                out, (unsigned long long)p->step);
}

static copse_status save_trained(void *net, const char *path)
{
    return copse_onnx_save(net, path);
}

static bool train_on(struct session *s, const char *folder, const char *out,
                     const struct recordings *r, const struct words *w, const char *net,
                     const struct options *o)
{
    struct progress progress = { 0 };
    struct score before;
    copse_array *p = apply_network(s, net, s->held_out, w);
    bool is_done = p && score_words(p, s->held_out, &before);
    copse_array_release(&p);
    is_done = is_done && check_split(folder, r, w, &before, o) && train_network(s, o, &progress) &&
              check_gain(&progress, out) && words_save(out, w, save_trained, s->net);
    if (is_done)
        report_signal(&progress, out);
    return is_done && report_gain(s, out, w, &before, o);
}

static bool run_training(const char *net, const char *folder, const char *out,
                         const struct options *o)
{
    struct session s = { 0 };
    struct words w;
    struct recordings r = { 0 };
    bool is_done = words_is_writable(out) && words_read(net, &w) && open_session(&s, net, o) &&
                   recordings_read(folder, &w, &r);
    if (is_done)
        printf("%zu recordings of %zu words\n", r.count, w.count);
    is_done =
        is_done && split_recordings(&s, &r, &w, o) && train_on(&s, folder, out, &r, &w, net, o);
    close_session(&s);
    recordings_free(&r);
    return is_done;
}

/* ---- the other uses ---- */

static copse_status save_new(void *layers, const char *path)
{
    const struct copse_onnx_write_params how = { .is_softmax = true };
    return copse_onnx_write(layers, path, &how);
}

/* Whether --new would write over nothing. */
static bool is_new(const char *path)
{
    char *list = words_path(path);
    const bool is_done = list &&
                         (!files_exist(path) || files_refuse(path, "is there; name a new file")) &&
                         (!files_exist(list) || files_refuse(list, "is there; name a new file"));
    free(list);
    return is_done;
}

/* Write a network with random weights for the words of a folder. */
static bool make_network(const char *path, const char *folder, const struct options *o)
{
    const struct copse_build_params shape = { .shape = COPSE_SHAPE(FRAMES, BANDS, 1),
                                              .seed = (uint64_t)o->seed };
    struct words w = { .count = 0 };
    struct recordings r = { 0 };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_layer *layers = NULL;
    char text[sizeof network + 32];
    if (!copse_onnx_is_read()) {
        fprintf(stderr, "keywords: this build of Copse writes no ONNX files\n");
        return false;
    }
    bool is_done = words_is_writable(path) && is_new(path) && recordings_read(folder, &w, &r);
    if (is_done && w.count < 2)
        is_done = files_refuse(folder, "has one word; two at least are needed");
    snprintf(text, sizeof text, "%s dense %zu", network, w.count);
    is_done = is_done && command_is_good(copse_context_create(NULL, &ctx)) &&
              command_is_good(copse_strategy_open(ctx, "host:0", NULL, &st)) &&
              command_is_good(copse_nn_parse(ctx, text, &layers)) &&
              command_is_good(copse_layer_build(layers, st, &shape)) &&
              words_save(path, &w, save_new, layers);
    if (is_done)
        printf("%s: a new network for %zu words; train it\n", path, w.count);
    copse_layer_release(&layers);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    recordings_free(&r);
    return is_done;
}

static bool listen_to(struct session *s, const char *net, const char *path, const struct words *w)
{
    float spectrum[SPECTRUM];
    struct wav sound;
    bool is_done = wav_read(path, &sound) && spectrum_make(path, &sound, spectrum);
    free(sound.samples);
    if (!is_done)
        return false;
    const struct copse_column x = { "x", COPSE_F32, COPSE_SHAPE(FRAMES, BANDS), spectrum };
    copse_dataset *data = NULL;
    copse_array *p = command_is_good(copse_dataset_columns(s->ctx, &x, 1, 1, &data))
                         ? apply_network(s, net, data, w)
                         : NULL;
    if (p) {
        const struct copse_array_view *v = copse_array_view(p);
        const float *of = v->data;
        const size_t best = find_largest(of, v->shape[1]);
        if (w->count > 0)
            printf("%s: %s %.3f\n", path, w->at[best], (double)of[best]);
        else
            printf("%s: output %zu %.3f\n", path, best, (double)of[best]);
    }
    is_done = p != NULL;
    copse_array_release(&p);
    copse_dataset_release(&data);
    return is_done;
}

static bool run_listening(const char *net, char **files, size_t count, const struct options *o)
{
    struct session s = { 0 };
    struct words w;
    bool is_done = words_read(net, &w) && open_session(&s, net, o);
    for (size_t i = 0; is_done && i < count; i++)
        is_done = listen_to(&s, net, files[i], &w);
    close_session(&s);
    return is_done;
}

/* ---- arguments ---- */

enum { IN_TRAIN = 1 << TRAIN, IN_NEW = 1 << NEW, IN_LISTEN = 1 << LISTEN, IN_MAKE = 1 << MAKE };

static bool refuse_place(const char *path, const char *other)
{
    fprintf(stderr, "keywords: %s: is %s or in it; give the result another place\n", path, other);
    return false;
}

/* Whether neither the network that is written nor its list of words is read, too. */
static bool check_places(const char *net, const char *folder, const char *out)
{
    char *from = net ? words_path(net) : NULL, *to = words_path(out);
    bool is_done = to && (!net || from);
    const char *written[] = { out, to }, *read[] = { folder, net, from };
    for (int i = 0; is_done && i < 2; i++)
        for (int k = 0; is_done && k < 3; k++)
            if (read[k] && files_has(read[k], written[i]))
                is_done = refuse_place(written[i], read[k]);
    free(from);
    free(to);
    return is_done;
}

static int run_mode(enum mode mode, char **files, size_t count, const struct options *o)
{
    switch (mode) {
    case NEW:
        return !check_places(NULL, files[1], files[0]) ? 2 : !make_network(files[0], files[1], o);
    case LISTEN:
        return !run_listening(files[0], files + 1, count - 1, o);
    case MAKE:
        return !recordings_make(files[0], (size_t)o->count, o->noise, (uint64_t)o->seed);
    default:
        break;
    }
    if (!check_places(files[0], files[1], files[2]))
        return 2;
    const bool is_done = run_training(files[0], files[1], files[2], o);
    return is_done && command_signal() ? 128 + command_signal() : !is_done;
}

int main(int argc, char **argv)
{
    struct options o = { .epochs = 20,
                         .batch = 16,
                         .rate = 0.003,
                         .held_out = 0.2,
                         .seed = 1,
                         .count = 40,
                         .noise = 0.1 };
    const struct command_option options[] = {
        { "--epochs", IN_TRAIN, NULL, &o.epochs, 1, 10000, true },
        { "--batch", IN_TRAIN, NULL, &o.batch, 1, 1024, true },
        { "--rate", IN_TRAIN, NULL, &o.rate, 1e-7, 1, false },
        { "--held-out", IN_TRAIN, NULL, &o.held_out, 0.01, 0.9, false },
        { "--trained", IN_TRAIN, &o.trained, NULL, 0, 0, false },
        { "--seed", IN_TRAIN | IN_NEW | IN_MAKE, NULL, &o.seed, 0, 1e9, true },
        { "--device", IN_TRAIN | IN_LISTEN, &o.device, NULL, 0, 0, false },
        { "--count", IN_MAKE, NULL, &o.count, 1, 1000, true },
        { "--noise", IN_MAKE, NULL, &o.noise, 0, 100, false },
    };
    const struct command c = { usage, modes, MODES, options, sizeof options / sizeof options[0] };
    struct command_line line;
    const int code = command_read(&c, argc, argv, &line);
    if (code != COMMAND_GOES_ON)
        return code;
    return run_mode((enum mode)line.mode, line.files, line.count, &o);
}
