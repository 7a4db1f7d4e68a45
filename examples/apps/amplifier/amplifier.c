/* SPDX-License-Identifier: MIT */
/* Captures an amplifier: learns from a dry signal and its recording through the amplifier, and
   writes a model for Neural Amp Modeler. docs/amplifier.md */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/optim/schedule.h"

#include "examples/apps/common/app_command.h"
#include "examples/apps/common/app_files.h"
#include "figure.h"
#include "nam.h"
#include "network.h"
#include "pair.h"

enum { SAMPLES = 4096, CHUNK = 16384 }; /* of an example, and of a prediction */

const char program_name[] = "amplifier";

static const char usage[] =
    "usage: amplifier DRY.wav WET.wav MODEL.nam [--epochs 20] [--batch 8] [--rate 0.004] [--seed "
    "1]\n"
    "                 [--spectral 0.02] [--device auto] [--output OUT.wav] [--figure OUT.svg]\n"
    "       amplifier --play MODEL.nam DRY.wav OUT.wav [--device auto]\n"
    "       amplifier --compare WET.wav OUT.wav [--device auto]\n"
    "       amplifier --make DRY.wav WET.wav [--seconds 30] [--samples 24]\n";

enum mode { TRAIN, PLAY, COMPARE, MAKE, MODES };
static const struct command_mode modes[MODES] = {
    { "the training", 3, 3 }, { "--play", 3, 3 }, { "--compare", 2, 2 }, { "--make", 2, 2 }
};

struct options {
    const char *device, *output, *figure, *samples;
    double epochs, batch, rate, seed, spectral, seconds;
};

struct session {
    copse_context *ctx;
    copse_strategy *st;
    copse_schedule *schedule; /* of the trainer's rate */
    copse_trainer *trainer;
    struct network network;
    double held_out_power; /* mean square of the held-out signal, relative to the whole one */
    double *curve;         /* error-to-signal ratio after each epoch */
    size_t epochs;
};

/* ---- training ---- */

/* Examples of overlapping windows: SAMPLES of the wet signal, and the samples that they need. */
struct examples {
    float *dry, *wet;
    size_t count;
    copse_dataset *data;
    copse_loader *loader;
};

static bool make_examples(struct session *s, const struct pair *p, size_t begin, size_t end,
                          const struct copse_loader_params *how, struct examples *out)
{
    const size_t field = FIELD - 1, room = field + SAMPLES;
    struct copse_loader_params params = *how;
    out->count = (end - begin - field) / SAMPLES;
    out->dry = malloc(out->count * room * sizeof(float));
    out->wet = malloc(out->count * SAMPLES * sizeof(float));
    if (!out->dry || !out->wet) {
        files_no_memory();
        return false;
    }
    for (size_t i = 0; i < out->count; i++) {
        const size_t at = begin + i * SAMPLES;
        memcpy(out->dry + i * room, p->dry.samples + at, room * sizeof(float));
        for (size_t t = 0; t < SAMPLES; t++)
            out->wet[i * SAMPLES + t] = p->wet.samples[at + field + t] / s->network.scale;
    }
    const struct copse_column columns[] = {
        { "dry", COPSE_F32, COPSE_SHAPE(FIELD - 1 + SAMPLES), out->dry },
        { "wet", COPSE_F32, COPSE_SHAPE(SAMPLES), out->wet },
    };
    params.batch = params.batch < out->count ? params.batch : out->count;
    return command_is_good(copse_dataset_columns(s->ctx, columns, 2, out->count, &out->data)) &&
           command_is_good(copse_loader_create(out->data, &params, &out->loader));
}

static void free_examples(struct examples *e)
{
    copse_loader_release(&e->loader);
    copse_dataset_release(&e->data);
    free(e->dry);
    free(e->wet);
}

static copse_status note_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct session *s = user;
    double esr;
    (void)stop;
    COPSE_TRY(copse_step_report(&e->held_out, "esr", &esr));
    esr /= s->held_out_power;
    s->curve[s->epochs++] = esr;
    printf("epoch %u: loss %.4f, on held-out samples %.4f, error-to-signal ratio %.4f\n", e->epoch,
           e->training.loss, e->held_out.loss, esr);
    fflush(stdout);
    return COPSE_OK;
}

static bool make_trainer(struct session *s, const struct options *o)
{
    const struct copse_trainer_params params = {
        .loss = network_loss,
        .user = &s->network,
        .optimizer = { .kind = COPSE_ADAM,
                       .learning_rate = (float)o->rate,
                       .schedule = s->schedule ? copse_schedule_rate : NULL,
                       .schedule_user = s->schedule },
    };
    return command_is_good(copse_trainer_create(s->st, &params, &s->trainer));
}

/* Train on the samples before `split`, and keep the values that are best on the rest. */
static bool train(struct session *s, const struct pair *p, size_t split, const struct options *o)
{
    const struct copse_loader_params mixed = { .batch = (size_t)o->batch,
                                               .seed = (uint64_t)o->seed };
    const struct copse_loader_params plain = { .batch = (size_t)o->batch, .no_shuffle = true };
    struct examples training = { 0 }, held_out = { 0 };
    bool is_done = make_examples(s, p, 0, split, &mixed, &training) &&
                   make_examples(s, p, split - (FIELD - 1), p->dry.count, &plain, &held_out);
    if (is_done) {
        const size_t steps = (training.count + (size_t)o->batch - 1) / (size_t)o->batch;
        const struct copse_schedule_params rates = { .text = "one_cycle 0.1 10 100",
                                                     .rate = (float)o->rate,
                                                     .steps = steps * (uint64_t)o->epochs };
        const struct copse_fit_params how = { .epochs = (uint32_t)o->epochs,
                                              .held_out = held_out.loader,
                                              .on_epoch = note_epoch,
                                              .user = s };
        is_done = command_is_good(copse_schedule_create(s->ctx, &rates, &s->schedule)) &&
                  make_trainer(s, o) &&
                  command_is_good(copse_trainer_fit(s->trainer, training.loader, &how));
    }
    free_examples(&training);
    free_examples(&held_out);
    return is_done;
}

/* ---- playing ---- */

/* The output of the network for a whole signal, as if silence came before it. */
static bool play(struct session *s, const struct wav *dry, struct wav *out)
{
    const size_t field = FIELD - 1;
    float *padded = calloc(field + dry->count + CHUNK, sizeof *padded);
    *out = (struct wav){ .rate = dry->rate, .count = dry->count };
    out->samples = malloc((dry->count + CHUNK) * sizeof *out->samples);
    bool is_done = padded && out->samples;
    if (is_done)
        memcpy(padded + field, dry->samples, dry->count * sizeof *padded);
    for (size_t at = 0; is_done && at < dry->count; at += CHUNK) {
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "dry", COPSE_F32, COPSE_SHAPE(FIELD - 1 + CHUNK), padded + at }),
            .count = 1
        };
        is_done =
            command_is_good(copse_trainer_predict(s->trainer, network_predict, &s->network, &batch,
                                                  out->samples + at, CHUNK * sizeof(float)));
    }
    free(padded);
    return is_done;
}

/* ---- the uses ---- */

static bool open_session(struct session *s, const struct options *o, double level)
{
    return command_is_good(copse_context_create(NULL, &s->ctx)) &&
           command_is_good(copse_strategy_open(s->ctx, o->device, NULL, &s->st)) &&
           command_is_good(network_build(s->st, (uint64_t)o->seed, level, &s->network));
}

static void close_session(struct session *s)
{
    copse_trainer_release(&s->trainer);
    copse_schedule_release(&s->schedule);
    copse_strategy_release(&s->st);
    copse_context_release(&s->ctx);
    free(s->curve);
}

/* Sum of squared errors, divided by the sum of squares. */
static double error_ratio(const float *is, const float *should, size_t count)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)is[i] - (double)should[i], 2);
        power += pow((double)should[i], 2);
    }
    return error / power;
}

/* Let the network compute the signal divided by its root mean square. */
static void divide_by(struct network *n, const struct wav *wet)
{
    double sum = 0;
    n->scale = (float)rms_of(wet->samples, wet->count);
    for (size_t i = 1; i < wet->count; i++) {
        const double x = (double)(wet->samples[i] - EMPHASIS * wet->samples[i - 1]);
        sum += pow(x / (double)n->scale, 2);
    }
    n->emphasised_power = (float)(sum / (double)(wet->count - 1));
}

/* The loudest 10 ms after `split`. */
static bool draw_figure(const struct session *s, const struct pair *p, const struct wav *y,
                        size_t split, const char *path)
{
    const size_t count = p->wet.rate / 100;
    size_t at = split;
    for (size_t i = split; i + count <= p->wet.count; i += count)
        if (rms_of(p->wet.samples + i, count) > rms_of(p->wet.samples + at, count))
            at = i;
    const struct figure figure = { p->wet.samples + at, y->samples + at, count,
                                   p->wet.rate,         s->curve,        s->epochs };
    return figure_write(path, &figure);
}

static bool capture(const char *dry, const char *wet, const char *model, const struct options *o)
{
    struct session s = { .curve = calloc((size_t)o->epochs, sizeof(double)) };
    struct pair p = { { 0 }, { 0 } };
    struct wav y = { 0 };
    bool is_done = s.curve && pair_read(dry, wet, &p);
    if (is_done && p.dry.count < (size_t)10 * (FIELD + SAMPLES)) {
        fprintf(stderr, "amplifier: %s: %.1f s are too short: record %.1f s or more\n", dry,
                (double)p.dry.count / p.dry.rate, 10.0 * (FIELD + SAMPLES) / p.dry.rate);
        is_done = false;
    }
    const size_t split = p.dry.count / 10 * 9;
    if (is_done && rms_of(p.wet.samples + split, p.wet.count - split) < SILENCE) {
        fprintf(stderr,
                "amplifier: %s: the last tenth, which is held out, is silent: cut both files "
                "where the sound ends\n",
                wet);
        is_done = false;
    }
    if (is_done) {
        divide_by(&s.network, &p.wet);
        s.held_out_power =
            rms_of(p.wet.samples + split, p.wet.count - split) / (double)s.network.scale;
        s.held_out_power *= s.held_out_power;
        s.network.spectral_weight = (float)o->spectral;
        is_done = open_session(&s, o, rms_of(p.dry.samples, p.dry.count)) &&
                  train(&s, &p, split, o) && play(&s, &p.dry, &y);
        if (is_done) {
            const double esr =
                error_ratio(y.samples + split, p.wet.samples + split, p.dry.count - split);
            printf("error-to-signal ratio on the last %.1f s: %.4f\n",
                   (double)(p.dry.count - split) / p.dry.rate, esr);
            is_done = nam_write(model, &s.network, p.dry.rate, esr) &&
                      (!o->output || wav_write(o->output, &y, "float")) &&
                      (!o->figure || draw_figure(&s, &p, &y, split, o->figure));
        }
    }
    close_session(&s);
    pair_free(&p);
    free(y.samples);
    return is_done;
}

static bool play_model(const char *model, const char *dry, const char *out, const struct options *o)
{
    struct session s = { 0 };
    struct wav x, y = { 0 };
    uint32_t rate;
    bool is_done =
        wav_read(dry, &x) && open_session(&s, o, 1) && nam_read(model, &s.network, &rate);
    if (is_done && rate != x.rate) {
        fprintf(stderr, "amplifier: %s has %u samples a second, the model needs %u\n", dry,
                (unsigned)x.rate, (unsigned)rate);
        is_done = false;
    }
    is_done = is_done && make_trainer(&s, o) && play(&s, &x, &y) && wav_write(out, &y, "float");
    close_session(&s);
    free(x.samples);
    free(y.samples);
    return is_done;
}

/* Print the three parts of the loss of `output`, as if one example were the whole signal. */
static bool compare(const char *wet, const char *output, const struct options *o)
{
    struct session s = { 0 };
    struct wav x = { 0 }, y = { 0 };
    float loss[3];
    bool is_done = wav_read(wet, &x) && wav_read(output, &y);
    if (is_done && (x.rate != y.rate || x.count != y.count || x.count < 4096)) {
        fprintf(stderr, "amplifier: %s: another rate or length than %s, or below 4096 samples\n",
                output, wet);
        is_done = false;
    }
    is_done = is_done && pair_check_level(wet, &x) && open_session(&s, o, 1);
    if (is_done) {
        divide_by(&s.network, &x);
        for (size_t i = 0; i < x.count; i++) {
            x.samples[i] /= s.network.scale;
            y.samples[i] /= s.network.scale;
        }
        const copse_shape shape = COPSE_SHAPE((uint32_t)x.count);
        const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                    { "wet", COPSE_F32, shape, x.samples },
                                                    { "output", COPSE_F32, shape, y.samples }),
                                                .count = 1 };
        is_done = make_trainer(&s, o) &&
                  command_is_good(copse_trainer_predict(s.trainer, network_compare, &s.network,
                                                        &batch, loss, sizeof loss));
    }
    if (is_done)
        printf("error-to-signal ratio %.9g, after pre-emphasis %.9g, spectral loss %.9g\n",
               (double)loss[0], (double)loss[1], (double)loss[2]);
    close_session(&s);
    free(x.samples);
    free(y.samples);
    return is_done;
}

static bool make_pair(const char *dry, const char *wet, const struct options *o)
{
    struct pair p;
    const bool is_done = pair_make(o->seconds, &p) && wav_write(dry, &p.dry, o->samples) &&
                         wav_write(wet, &p.wet, o->samples);
    pair_free(&p);
    return is_done;
}

/* ---- arguments ---- */

/* Whether no file that is written is another file of the command. */
static bool check_names(enum mode mode, char **files, const struct options *o)
{
    const bool is_play = mode == PLAY, is_make = mode == MAKE;
    const char *dry = "the dry recording", *wet = "the wet recording", *model = "the model";
    const struct {
        const char *path, *what;
        bool is_written;
    } all[] = {
        { files[0], is_play ? model : dry, is_make },
        { files[1], is_play ? dry : wet, is_make },
        { is_make ? NULL : files[2], is_play ? "the output" : model, true },
        { o->output, "the output", true },
        { o->figure, "the figure", true },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t j = 0; j < i; j++)
            if (all[i].is_written && all[i].path && all[j].path &&
                files_is_same(all[i].path, all[j].path)) {
                fprintf(stderr, "amplifier: %s: is %s; give another name for %s\n", all[i].path,
                        all[j].what, all[i].what);
                return false;
            }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = { .samples = "24",
                         .epochs = 20,
                         .batch = 8,
                         .rate = 0.004,
                         .seed = 1,
                         .spectral = 0.02,
                         .seconds = 30 };
    enum { IN_TRAIN = 1 << TRAIN, IN_MAKE = 1 << MAKE, ON_DEVICE = (1 << MODES) - 1 - IN_MAKE };
    const struct command_option options[] = {
        { "--epochs", IN_TRAIN, NULL, &o.epochs, 1, 10000, true },
        { "--batch", IN_TRAIN, NULL, &o.batch, 1, 1024, true },
        { "--rate", IN_TRAIN, NULL, &o.rate, 1e-7, 1, false },
        { "--seed", IN_TRAIN, NULL, &o.seed, 0, 1e9, true },
        { "--spectral", IN_TRAIN, NULL, &o.spectral, 0, 100, false },
        { "--output", IN_TRAIN, &o.output, NULL, 0, 0, false },
        { "--figure", IN_TRAIN, &o.figure, NULL, 0, 0, false },
        { "--device", ON_DEVICE, &o.device, NULL, 0, 0, false },
        { "--seconds", IN_MAKE, NULL, &o.seconds, 2, 600, false },
        { "--samples", IN_MAKE, &o.samples, NULL, 0, 0, false },
    };
    const struct command c = { usage, modes, MODES, options, sizeof options / sizeof options[0] };
    struct command_line line;
    const int code = command_read(&c, argc, argv, &line);
    if (code != COMMAND_GOES_ON)
        return code;
    char **files = line.files;
    if (line.mode != COMPARE && !check_names((enum mode)line.mode, files, &o))
        return 2;
    switch (line.mode) {
    case MAKE:
        return !make_pair(files[0], files[1], &o);
    case COMPARE:
        return !compare(files[0], files[1], &o);
    case PLAY:
        return !play_model(files[0], files[1], files[2], &o);
    default:
        return !capture(files[0], files[1], files[2], &o);
    }
}
