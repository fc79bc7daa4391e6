/* compare_json.c - prints comparisons as JSON and CSV, including the numbers that the tables omit. */
#include "compare.h"

#include "../base/json.h"
#include "../base/text.h"
#include <math.h>
#include <string.h>

static const char *json_bool(bool value) {
    return value ? "true" : "false";
}

/* Prints the beginning of an object for a run: its number and names. */
static void print_names(FILE *to, const struct result_row *row) {
    fprintf(to, "{\"run\": %d", row->run);
    json_write_text(to, ", ", "operation", row->operation);
    json_write_text(to, ", ", "variant", row->variant);
    json_write_text(to, ", ", "parameters", row->parameters);
    json_write_text(to, ", ", "shape", row->shape);
    json_write_text(to, ", ", "dtype", row->dtype);
    json_write_text(to, ", ", "device", row->device);
}

/* Prints a pair's member "output". */
static void print_output(FILE *to, const struct run_pair *pair) {
    if (!pair->output.known) {
        fputs(", \"output\": null", to);
        return;
    }
    fprintf(to, ", \"output\": {\"identical\": %s", json_bool(pair->output.identical));
    json_write_number(to, "difference", pair->output.relative, 17);
    json_write_number(to, "allowed", pair->allowed, 17);
    fputc('}', to);
}

struct json_number {
    const char *key;
    double value;
};
enum { NUMBERS = 11 };

/* Lists the numbers of a pair that JSON and CSV have. The rows of the pair may be NULL: for the keys alone. */
static void pair_numbers(const struct run_pair *pair, struct json_number numbers[NUMBERS]) {
    const struct ratio *ratio = &pair->ratio;
    const struct json_number of_pair[NUMBERS] = {
        {"base_s", ratio->base_s},
        {"new_s", ratio->new_s},
        {"base_clock_mhz", pair->base ? pair->base->sm_clock_mhz : NAN},
        {"new_clock_mhz", pair->new ? pair->new->sm_clock_mhz : NAN},
        {"ratio", ratio->value},
        {"ratio_low", ratio->low > 0 ? ratio->low : NAN},
        {"ratio_high", ratio->high},
        {"floor", ratio->floor},
        {"base_independent_samples", ratio->base_counts},
        {"new_independent_samples", ratio->new_counts},
        {"samples_missing", ratio->more},
    };
    memcpy(numbers, of_pair, sizeof of_pair);
}

/* Prints the object of one pair. */
static void print_pair(FILE *to, const struct run_pair *pair) {
    struct json_number numbers[NUMBERS];
    pair_numbers(pair, numbers);
    print_names(to, pair->base);
    fprintf(to, ", \"new_run\": %d, \"base_samples\": %d, \"new_samples\": %d", pair->new->run, pair->base->repeats,
            pair->new->repeats);
    json_write_text(to, ", ", "base_status", pair->base->status);
    json_write_text(to, ", ", "new_status", pair->new->status);
    for (int i = 0; i < NUMBERS; i++) json_write_number(to, numbers[i].key, numbers[i].value, 17);
    json_write_text(to, ", ", "verdict", ratio_verdict_names[pair->ratio.verdict]);
    json_write_text(to, ", ", "reason", comparison_reason(pair));
    fprintf(to, ", \"noisy\": %s, \"bimodal\": %s, \"in_cycles\": %s, \"worse\": %s", json_bool(pair->noisy),
            json_bool(pair->bimodal), json_bool(pair->in_cycles), json_bool(pair->worse));
    json_write_text(to, ", ", "note", pair->note);
    print_output(to, pair);
    fputc('}', to);
}

/* Prints a member `key` with a list of runs that have no partner. */
static void print_rows(FILE *to, const char *key, const struct result_row *const *rows, int count) {
    fprintf(to, "   \"%s\": [", key);
    for (int i = 0; i < count; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        print_names(to, rows[i]);
        json_write_text(to, ", ", "status", rows[i]->status);
        fputc('}', to);
    }
    fputs("],\n", to);
}

/* Prints the object of one new file. */
static void print_comparison(FILE *to, const struct comparison *comparison, const struct context *context) {
    json_write_text(to, "  {", "file", comparison->new->path);
    fputs(",\n   \"differs\": [", to);
    for (int i = 0; i < context->count; i++) {
        json_write_text(to, i ? ",\n    {" : "\n    {", "what", context->items[i].what);
        json_write_text(to, ", ", "base", context->items[i].base);
        json_write_text(to, ", ", "new", context->items[i].new);
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
    json_write_text(to, "{", "base", news[0].base->path);
    fprintf(to, ", \"threshold\": %.17g, \"new\": [\n", threshold);
    for (int i = 0; i < count; i++) {
        if (i) fputs(",\n", to);
        print_comparison(to, &news[i], &contexts[i]);
    }
    fputs("\n]}\n", to);
}

void comparisons_print_csv(const struct comparison *news, int count, FILE *to) {
    struct json_number numbers[NUMBERS];
    fputs("file,operation,variant,parameters,shape,dtype,device,base_status,new_status", to);
    pair_numbers(&(struct run_pair){0}, numbers);
    for (int i = 0; i < NUMBERS; i++) fprintf(to, ",%s", numbers[i].key);
    fputs(",output_difference,verdict,reason,noisy,bimodal,in_cycles,worse,note\n", to);
    for (int f = 0; f < count; f++)
        for (int p = 0; p < news[f].count; p++) {
            const struct run_pair *pair = &news[f].pairs[p];
            const struct result_row *row = pair->base;
            const char *const first_texts[] = {news[f].new->path, row->operation, row->variant,
                                               row->parameters,   row->shape,     row->dtype,
                                               row->device,       row->status,    pair->new->status};
            const char *const last_texts[] = {ratio_verdict_names[pair->ratio.verdict],
                                              comparison_reason(pair),
                                              json_bool(pair->noisy),
                                              json_bool(pair->bimodal),
                                              json_bool(pair->in_cycles),
                                              json_bool(pair->worse),
                                              pair->note};
            for (size_t i = 0; i < sizeof first_texts / sizeof *first_texts; i++) {
                if (i > 0) fputc(',', to);
                text_print_csv(first_texts[i], strlen(first_texts[i]), to);
            }
            pair_numbers(pair, numbers);
            for (int i = 0; i < NUMBERS; i++)
                fprintf(to, isfinite(numbers[i].value) ? ",%.17g" : ",", numbers[i].value);
            fprintf(to, pair->output.known ? ",%.17g" : ",", pair->output.relative);
            for (size_t i = 0; i < sizeof last_texts / sizeof *last_texts; i++) {
                fputc(',', to);
                text_print_csv(last_texts[i], strlen(last_texts[i]), to);
            }
            fputc('\n', to);
        }
}
