/* job_sweep.c - the combinations of swept parameters, with `zip` and `where`. */
#include "job_sweep.h"

#include "../base/fail.h"
#include "expression/expression.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONDITIONS 16

/* ---- combinations ---------------------------------------------------------------------------------------------- */

/* Is parameter `i` in the set, and the first of the set that is zipped with it? Zipped parameters count as one. */
static bool is_leading(const struct parameters *parameters, uint64_t set, int i) {
    uint64_t zipped = parameters->items[i].zipped & set;
    return (set >> i & 1) && (zipped == 0 || __builtin_ctzll(zipped) == i);
}

int64_t combinations_count(const struct parameters *parameters, uint64_t set) {
    int64_t count = 1;
    for (int i = 0; i < parameters->count; i++) {
        if (is_leading(parameters, set, i)) count *= parameters->items[i].count;
        if (count > INT32_MAX) return INT32_MAX;
    }
    return count;
}

void combination_at(const struct parameters *parameters, uint64_t set, int64_t number, int choice[MAX_PARAMETERS]) {
    for (int i = parameters->count - 1; i >= 0; i--) {
        int count = parameters->items[i].count;
        bool chosen = is_leading(parameters, set, i) && count > 0;
        choice[i] = chosen ? (int)(number % count) : 0;
        if (chosen) number /= count;
    }
    for (int i = 0; i < parameters->count; i++) {
        uint64_t zipped = parameters->items[i].zipped & set;
        if (zipped && (set >> i & 1)) choice[i] = choice[__builtin_ctzll(zipped)]; /* the first one's choice */
    }
}

int64_t combination_number(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]) {
    int64_t number = 0;
    for (int i = 0; i < parameters->count; i++)
        if (is_leading(parameters, set, i)) number = number * parameters->items[i].count + choice[i];
    return number;
}

char *combination_label(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]) {
    char *label = must_strdup("");
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *parameter = &parameters->items[i];
        if (!(set >> i & 1) || parameter->count == 0) continue;
        const char *value = parameter->values[choice[i]]->text;
        char *longer = must_printf("%s%s%s=%s", label, *label ? "," : "", parameter->name, value);
        for (char *c = longer + strlen(longer) - strlen(value); *c; c++) *c = label_character(*c);
        free(label);
        label = longer;
    }
    return label;
}

/* ---- zip ------------------------------------------------------------------------------------------------------- */

/* The index of the swept parameter that an entry of `zip` names. Reports any other entry and returns -1. */
static int find_zipped(const struct parameters *parameters, const struct yaml_node *item) {
    const char *name = item->text ? item->text + (*item->text == '$') : NULL;
    int found = name ? parameters_find(parameters, name, (int)strlen(name)) : -1;
    if (!name)
        yaml_error(parameters->document, item,
                   "'zip' must be a list of lists of parameter names, such as [[rows, cols]]");
    else if (found < 0 && !parameters->incomplete && !parameters_reported_unset(parameters, name))
        yaml_error(parameters->document, item, "'zip' names '%s', which is not a parameter", name);
    else if (found < 0 || (!parameters->items[found].swept && parameters->items[found].count == 0))
        return -1; /* the parameter is unknown or has no value, which was reported */
    else if (!parameters->items[found].swept)
        yaml_error(parameters->document, item, "'zip' must name parameters that are lists, and '%s' has one value",
                   name);
    else if (parameters->items[found].zipped)
        yaml_error(parameters->document, item, "'%s' is already in 'zip'", name);
    else
        return found;
    return -1;
}

/* Reports two positions in the zipped lists at which all values, or all labels, are the same. */
static void check_zipped(const struct parameters *parameters, const struct yaml_node *list, uint64_t set) {
    int count = parameters->items[__builtin_ctzll(set)].count;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++) {
            bool same = true;
            for (int i = 0; same && i < parameters->count; i++)
                if (set >> i & 1)
                    same = same_in_label(parameters->items[i].values[a]->text, parameters->items[i].values[b]->text);
            if (!same) continue;
            yaml_error(parameters->document, list, "values %d and %d of the zipped lists are the same", b + 1, a + 1);
            return;
        }
}

/* Joins the parameters of one list of `zip`, which need the same number of values. */
static void zip_list(struct parameters *parameters, const struct yaml_node *list) {
    uint64_t set = 0;
    int first = -1, count = 0;
    bool good = true;
    if (list->kind != YAML_LIST) {
        yaml_error(parameters->document, list,
                   "'zip' must be a list of lists of parameter names, such as [[rows, cols]]");
        return;
    }
    for (int i = 0; i < list->count; i++) {
        int found = find_zipped(parameters, list->items[i]);
        if (found < 0) {
            good = false;
            continue;
        }
        if (set >> found & 1)
            good = yaml_error(parameters->document, list->items[i], "'%s' is twice in this list",
                              parameters->items[found].name);
        if (first < 0) first = found, count = parameters->items[first].count;
        const struct parameter *a = &parameters->items[first], *b = &parameters->items[found];
        bool known = !a->failed && !b->failed;
        if (known && good && a->count != b->count)
            yaml_error(parameters->document, list->items[i], "'%s' has %d value%s, and '%s', zipped with it, has %d",
                       b->name, b->count, b->count == 1 ? "" : "s", a->name, a->count);
        good = good && known && a->count == b->count;
        if (b->count < count) count = b->count;
        set |= UINT64_C(1) << found;
    }
    for (int i = 0; i < parameters->count; i++) {
        if (!(set >> i & 1)) continue;
        parameters->items[i].zipped = set;
        parameters->items[i].count = count;
        parameters->items[i].failed |= !good; /* nothing that depends on it is reported */
    }
    if (set && good) check_zipped(parameters, list, set);
}

void sweep_zip(struct parameters *parameters, const struct yaml_node *zip) {
    int errors = yaml_error_count(parameters->document);
    if (zip && zip->kind != YAML_LIST)
        yaml_error(parameters->document, zip,
                   "'zip' must be a list of lists of parameter names, such as [[rows, cols]]");
    bool one = zip && zip->kind == YAML_LIST && zip->count > 0 && zip->items[0]->text; /* `zip: [rows, cols]` */
    if (one) zip_list(parameters, zip);
    for (int i = 0; zip && !one && zip->kind == YAML_LIST && i < zip->count; i++) zip_list(parameters, zip->items[i]);
    bool good = yaml_error_count(parameters->document) == errors; /* else a value may be right twice */
    for (int i = 0; i < parameters->count && good; i++)
        if (!parameters->items[i].zipped) parameters_check_values(parameters, &parameters->items[i]);
}

/* ---- where ----------------------------------------------------------------------------------------------------- */

/* The number of conditions before the first that is false for the choice, or has no value, which is reported and sets
 * *failed. */
static int count_holding(struct parameters *parameters, int count, const struct yaml_node *const texts[],
                         struct expression *const expressions[], const int choice[MAX_PARAMETERS], bool *failed) {
    int holding = 0;
    for (; holding < count; holding++) {
        bool holds;
        *failed = !parameters_hold(parameters, texts[holding], expressions[holding], choice, &holds);
        if (*failed || !holds) break;
    }
    return holding;
}

/* Evaluates the conditions for each combination of the parameters that they use. */
static void evaluate_conditions(struct parameters *parameters, int count, const struct yaml_node *const texts[],
                                struct expression *const expressions[], struct where_conditions *conditions) {
    conditions->count = combinations_count(parameters, conditions->uses);
    if (conditions->count > MAX_COMBINATIONS) {
        yaml_error(parameters->document, texts[0], "'where' uses parameters with more than %d combinations",
                   MAX_COMBINATIONS);
        conditions->uses = 0;
        return;
    }
    int choice[MAX_PARAMETERS];
    bool failed = false;
    /* The largest number of conditions, from the first, that held at once; the next one is reported. */
    int max_holding = 0;
    conditions->holds = must_malloc((unsigned long)conditions->count + 1);
    for (int64_t number = 0; number < conditions->count && !failed; number++) {
        combination_at(parameters, conditions->uses, number, choice);
        int holding = count_holding(parameters, count, texts, expressions, choice, &failed);
        if (holding > max_holding) max_holding = holding;
        conditions->holds[number] = holding == count;
        conditions->dropped += !conditions->holds[number];
    }
    if (failed) conditions->uses = 0;
    bool none = conditions->dropped == conditions->count && conditions->count > 0;
    if (!failed && none && !parameters->incomplete)
        // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): if none holds, fewer than all hold together
        yaml_error(parameters->document, texts[max_holding],
                   "'where' is false for all %lld combinations: nothing is left to run", (long long)conditions->count);
}

/* Parses one condition, and adds the parameters that it uses to *used. Reports any other node and returns false. */
static bool read_condition(struct parameters *parameters, const struct yaml_node *text, struct expression **expression,
                           uint64_t *used) {
    if (text->wrong) return false;
    if (!text->text || text->kind == YAML_NULL)
        return yaml_error(parameters->document, text,
                          "'where' must be an expression such as $tile <= 32, or a list of expressions");
    uint64_t uses = parameters_check(parameters, text);
    *used |= uses;
    *expression = parameters_parse(parameters, text);
    if (*expression && !strchr(text->text, '$'))
        yaml_error(parameters->document, text, "this condition has no parameter: write $name");
    return *expression && uses;
}

void sweep_where(struct parameters *parameters, const struct yaml_node *where, struct where_conditions *conditions) {
    const struct yaml_node *texts[MAX_CONDITIONS];
    struct expression *expressions[MAX_CONDITIONS] = {0};
    uint64_t used = 0;
    bool list = where && where->kind == YAML_LIST, good = true;
    int count = list ? where->count : where ? 1 : 0;
    if (count > MAX_CONDITIONS) {
        yaml_error(parameters->document, where, "'where' has more than %d conditions", MAX_CONDITIONS);
        count = 0;
    }
    for (int i = 0; i < count; i++) {
        texts[i] = list ? where->items[i] : where;
        if (!read_condition(parameters, texts[i], &expressions[i], &used)) good = false;
    }
    *conditions = (struct where_conditions){.uses = good ? used & parameters->swept : 0};
    if (good && count > 0) evaluate_conditions(parameters, count, texts, expressions, conditions);
    for (int i = 0; i < count; i++) expression_free(expressions[i]);
}

void sweep_check_derived(struct parameters *parameters, const struct where_conditions *conditions) {
    int choice[MAX_PARAMETERS];
    for (int i = 0; i < parameters->count; i++) {
        uint64_t uses = parameters->items[i].uses;
        int64_t count = parameters->items[i].derived ? combinations_count(parameters, uses) : 0;
        for (int64_t number = 0; number < count && number < MAX_VALUES && !parameters->items[i].failed; number++) {
            combination_at(parameters, uses, number, choice);
            if (sweep_keeps(parameters, conditions, uses, choice)) parameters_value(parameters, i, choice);
        }
    }
}

bool sweep_keeps(const struct parameters *parameters, const struct where_conditions *conditions, uint64_t set,
                 const int choice[MAX_PARAMETERS]) {
    if (!conditions->holds || conditions->uses == 0) return true;
    uint64_t open = conditions->uses & ~set;
    int64_t count = combinations_count(parameters, open);
    int joined[MAX_PARAMETERS], rest[MAX_PARAMETERS];
    for (int64_t number = 0; number < count; number++) {
        combination_at(parameters, open, number, rest);
        for (int i = 0; i < parameters->count; i++) joined[i] = open >> i & 1 ? rest[i] : choice[i];
        if (conditions->holds[combination_number(parameters, conditions->uses, joined)]) return true;
    }
    return false;
}
