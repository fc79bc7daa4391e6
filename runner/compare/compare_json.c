/* compare_json.c - prints comparisons as JSON, including the numbers that the tables omit. */
#include "compare.h"

#include "../base/json.h"
#include <math.h>
#include <string.h>

static void print_text(FILE *to, const char *key, const char *text) {
    fprintf(to, "\"%s\": ", key);
    json_write_string(to, text, strlen(text));
}

/* JSON has neither NaN nor infinity. */
static void print_number(FILE *to, const char *key, double value) {
    if (isfinite(value))
        fprintf(to, "\"%s\": %.17g", key, value);
    else
        fprintf(to, "\"%s\": null", key);
}

static void print_names(FILE *to, const struct result_row *row) {
    fprintf(to, "{\"run\": %d, ", row->run);
    print_text(to, "operation", row->operation);
    fputs(", ", to);
    print_text(to, "variant", row->variant);
    fputs(", ", to);
    print_text(to, "parameters", row->parameters);
    fputs(", ", to);
    print_text(to, "shape", row->shape);
    fputs(", ", to);
    print_text(to, "dtype", row->dtype);
    fputs(", ", to);
    print_text(to, "device", row->device);
}

static void print_output(FILE *to, const struct run_pair *pair) {
    if (!pair->output.known) {
        fputs(", \"output\": null", to);
        return;
    }
    fprintf(to, ", \"output\": {\"identical\": %s, ", pair->output.identical ? "true" : "false");
    print_number(to, "difference", pair->output.relative);
    fputs(", ", to);
    print_number(to, "allowed", pair->allowed);
    fputc('}', to);
}

static void print_pair(FILE *to, const struct run_pair *pair) {
    const struct ratio *ratio = &pair->ratio;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"base_s", ratio->base_s},
        {"new_s", ratio->new_s},
        {"ratio", ratio->value},
        {"ratio_low", ratio->low > 0 ? ratio->low : NAN},
        {"ratio_high", ratio->high},
        {"floor", ratio->floor},
        {"base_independent_samples", ratio->base_counts},
        {"new_independent_samples", ratio->new_counts},
        {"samples_missing", ratio->more},
    };
    print_names(to, pair->base);
    fprintf(to, ", \"new_run\": %d, \"base_samples\": %d, \"new_samples\": %d, ", pair->new->run, pair->base->repeats,
            pair->new->repeats);
    print_text(to, "base_status", pair->base->status);
    fputs(", ", to);
    print_text(to, "new_status", pair->new->status);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fputs(", ", to);
        print_number(to, numbers[i].key, numbers[i].value);
    }
    fputs(", ", to);
    print_text(to, "verdict", ratio_verdict_names[ratio->verdict]);
    fprintf(to, ", \"worse\": %s, ", pair->worse ? "true" : "false");
    print_text(to, "note", pair->note);
    print_output(to, pair);
    fputc('}', to);
}

static void print_rows(FILE *to, const char *key, const struct result_row *const *rows, int count) {
    fprintf(to, "   \"%s\": [", key);
    for (int i = 0; i < count; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        print_names(to, rows[i]);
        fputs(", ", to);
        print_text(to, "status", rows[i]->status);
        fputc('}', to);
    }
    fputs("],\n", to);
}

static void print_comparison(FILE *to, const struct comparison *comparison, const struct context *context) {
    fputs("  {", to);
    print_text(to, "file", comparison->new->path);
    fputs(",\n   \"differs\": [", to);
    for (int i = 0; i < context->count; i++) {
        fputs(i ? ",\n    {" : "\n    {", to);
        print_text(to, "what", context->items[i].what);
        fputs(", ", to);
        print_text(to, "base", context->items[i].base);
        fputs(", ", to);
        print_text(to, "new", context->items[i].new);
        fputc('}', to);
    }
    fputs("],\n   \"pairs\": [", to);
    for (int i = 0; i < comparison->count; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        print_pair(to, &comparison->pairs[i]);
    }
    fputs("],\n", to);
    print_rows(to, "only_in_base", comparison->base_only, comparison->base_only_count);
    print_rows(to, "only_in_new", comparison->new_only, comparison->new_only_count);
    fprintf(to, "   \"slower\": %d, \"faster\": %d, \"same\": %d, \"unsure\": %d, \"worse\": %d}",
            comparison_count(comparison, RATIO_SLOWER), comparison_count(comparison, RATIO_FASTER),
            comparison_count(comparison, RATIO_SAME), comparison_count(comparison, RATIO_UNSURE),
            comparison_worse(comparison));
}

void comparisons_print_json(const struct comparison *news, const struct context *contexts, int count, double threshold,
                            FILE *to) {
    fputc('{', to);
    print_text(to, "base", news[0].base->path);
    fprintf(to, ", \"threshold\": %.17g, \"new\": [\n", threshold);
    for (int i = 0; i < count; i++) {
        if (i) fputs(",\n", to);
        print_comparison(to, &news[i], &contexts[i]);
    }
    fputs("\n]}\n", to);
}
