/* compare.c - `tilerun compare BASE NEW...`: are the same runs faster or slower, and are their results as good? */
#include "compare.h"
#include "../base/text.h"

#include "../compare/compare.h"
#include "command.h"
#include "results_open.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_THRESHOLD = OPTION_OWN, OPTION_JSON, OPTION_SORT, OPTION_ANY_DEVICE, OPTION_NO_OUTPUTS };

bool command_threshold(const char *text, double *threshold) {
    char *end;
    double value = strtod(text, &end);
    bool percent = *end == '%';
    *threshold = percent ? value / 100 : value;
    end += percent;
    return end > text + percent && !*end && *threshold >= 0 && *threshold <= 10;
}

struct compare_arguments {
    struct compare_options options;
    bool json, sort, any_device;
};

static enum status parse(int argc, char **argv, struct compare_arguments *arguments, struct error *error) {
    static const struct option options[] = {{"threshold", required_argument, NULL, OPTION_THRESHOLD},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {"sort", no_argument, NULL, OPTION_SORT},
                                            {"any-device", no_argument, NULL, OPTION_ANY_DEVICE},
                                            {"no-outputs", no_argument, NULL, OPTION_NO_OUTPUTS},
                                            {0}};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) switch (code) {
        case OPTION_THRESHOLD:
            if (!command_threshold(optarg, &arguments->options.threshold))
                return fail(error, STATUS_USAGE, "compare: --threshold is a share such as 5%% or 0.05, not '%s'",
                            optarg);
            break;
        case OPTION_JSON: arguments->json = true; break;
        case OPTION_SORT: arguments->sort = true; break;
        case OPTION_ANY_DEVICE: arguments->any_device = true; break;
        case OPTION_NO_OUTPUTS: arguments->options.outputs = false; break;
        default: return command_misused(&command_compare, code, argv, error);
        }
    return command_operands(&command_compare, argc, 2, -1, error);
}

static enum status refuse_other_device(const struct comparison *comparison, struct error *error) {
    const struct run_pair *pair = comparison->other_device;
    const char *base = pair->base->device_name, *new = pair->new->device_name;
    return fail(error, STATUS_USAGE,
                "%s was measured on '%s', %s on '%s': times of two devices do not show what a change did; --any-device "
                "compares them all the same",
                comparison->base->path, *base ? base : "another device", comparison->new->path,
                *new ? new : "another device");
}

/* The files of the operands and all that is made of them. */
struct material {
    int count; /* of new files */
    struct results_file *base, **news;
    struct comparison *comparisons;
    struct context *contexts;
};

static enum status compare_one(struct material *material, const char *path, const struct compare_arguments *arguments,
                               struct error *error) {
    int number = material->count;
    TRY(command_results_open(path, &material->news[number], error));
    struct comparison *comparison = &material->comparisons[number];
    material->count++;
    comparison_pair(material->base, material->news[number], comparison);
    material->contexts[number] = context_compare(comparison);
    if (comparison->other_device && !arguments->any_device) return refuse_other_device(comparison, error);
    return comparison_judge(comparison, &arguments->options, error);
}

static void material_free(struct material *material) {
    for (int i = 0; i < material->count; i++) {
        context_free(&material->contexts[i]);
        comparison_free(&material->comparisons[i]);
        results_file_close(material->news[i]);
    }
    free(material->contexts);
    free(material->comparisons);
    free(material->news);
    results_file_close(material->base);
}

static void print_tables(const struct material *material, bool sort) {
    for (int i = 0; i < material->count; i++) {
        comparison_print_files(&material->comparisons[i], stdout);
        context_print(&material->contexts[i], stdout);
    }
    comparisons_print(material->comparisons, material->count, sort, stdout);
    for (int i = 0; i < material->count; i++) {
        if (material->count > 1) text_print(stdout, "%s: ", material->news[i]->path);
        comparison_print_counts(&material->comparisons[i], stdout);
    }
}

/* A pair of files without common runs must not look as if all was well. */
static enum status verdict(const struct material *material, struct error *error) {
    bool bad = false;
    for (int i = 0; i < material->count; i++) {
        const struct comparison *comparison = &material->comparisons[i];
        if (comparison->count == 0)
            return fail(error, STATUS_USAGE, "%s and %s have no run in common", comparison->base->path,
                        comparison->new->path);
        bad |= comparison_count(comparison, RATIO_SLOWER) > 0 || comparison_worse(comparison) > 0;
    }
    return bad ? STATUS_RUN : STATUS_OK; /* the table says why */
}

static enum status compare(int argc, char **argv, struct error *error) {
    struct compare_arguments arguments = {.options = {.threshold = COMMAND_THRESHOLD, .outputs = true}};
    enum status status = parse(argc, argv, &arguments, error);
    if (status) return status;
    size_t count = (size_t)(argc - optind - 1);
    struct material material = {.news = must_malloc(count * sizeof *material.news),
                                .comparisons = must_malloc(count * sizeof *material.comparisons),
                                .contexts = must_malloc(count * sizeof *material.contexts)};
    status = command_results_open(argv[optind], &material.base, error);
    for (int i = optind + 1; i < argc && !status; i++) status = compare_one(&material, argv[i], &arguments, error);
    if (!status && arguments.json) {
        comparisons_print_json(material.comparisons, material.contexts, material.count, arguments.options.threshold,
                               stdout);
    } else if (!status) {
        print_tables(&material, arguments.sort);
    }
    if (!status) status = verdict(&material, error);
    material_free(&material);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .arguments = "[OPTION...] BASE NEW...",
    .summary = "compare the times and outputs of the same runs in results files",
    /* clang-format off */
    .help = "  --threshold T      what difference of times matters: 5% or 0.05 (default: 3%)\n"
            "  --sort             what got worse first, then the slowest\n"
            "  --any-device       compare times of different devices, too\n"
            "  --no-outputs       do not read the stored outputs\n"
            "  --json             all numbers\n"
            "\n"
            "Runs are paired by operation, variant, parameters, shape, type and kind of\n"
            "device. The ratio is the new median by the base's, with its 95 % interval: order\n"
            "statistics of the samples (Price and Bonett 2002; neighbours that are alike\n"
            "count once), widened by what two processes differ by anyway: on a GPU 1 %, on a\n"
            "CPU 2 %, where the clock is too coarse for the samples 1.5 us. Verdicts:\n"
            "SLOWER, FASTER: the interval excludes 1 and the ratio is beyond the threshold.\n"
            "SAME: the interval is within the threshold.\n"
            "UNSURE: neither. +N: so many more samples of each would settle it; floor: no\n"
            "number would, for two processes differ by that much.\n"
            "WORSE: the result failed, is gone from a file, has another shape or type, or is\n"
            "further off than the tolerances allow.\n"
            "Exit code 1 if a run is slower or a result got worse.\n",
    /* clang-format on */
    .run = compare,
};
